#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
const KernelList kernels_rotary = {};
HR_END_KERNELS

#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
const KernelList kernels_host = {};
HR_END_KERNELS

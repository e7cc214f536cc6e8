#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
const KernelList kernels_resize_2d = {};
HR_END_KERNELS

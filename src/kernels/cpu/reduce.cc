#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
const KernelList kernels_reduce = {};
const KernelList kernels_softmax = {};
HR_END_KERNELS

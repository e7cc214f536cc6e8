#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
const KernelList kernels_transpose = {};
const KernelList kernels_concat = {};
const KernelList kernels_slice = {};
const KernelList kernels_pad = {};
const KernelList kernels_expand = {};
const KernelList kernels_gather = {};
const KernelList kernels_where = {};
HR_END_KERNELS

#pragma once
// Declares, for every op of ops.def and every instruction set, the list of CPU kernels that some kernels/cpu source defines:
//   const KernelList kernels_rms_norm = ...;   in namespace headrace::generic, headrace::avx2 and headrace::avx512
// A missing list is a link error. A set that adds nothing for an op defines an empty list.

#include "ops/op.h"

namespace headrace {

struct KernelList {
  const Kernel* rows = nullptr;
  int count = 0;
};

#define HR_VIEW_OP(op)
#define HR_OP(op) extern const KernelList kernels_##op;
namespace generic {
#include "ops/ops.def"
}
#if defined(__x86_64__) && !defined(HEADRACE_PORTABLE_KERNELS)
namespace avx2 {
#include "ops/ops.def"
}
namespace avx512 {
#include "ops/ops.def"
}
#endif
#undef HR_OP
#undef HR_VIEW_OP

}  // namespace headrace

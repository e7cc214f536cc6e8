#pragma once
// Every kernel source is compiled once per instruction set, with that set's compiler flags and one of HEADRACE_ISA_GENERIC,
// HEADRACE_ISA_AVX2, HEADRACE_ISA_AVX512 defined. All that it defines stands in namespace headrace::HR_ISA, so that
// code built for one set is never linked into another; tools/check_isa_symbols.py proves it on the objects (no weak symbols).
// For the same reason kernels call no std:: templates that may be emitted out of line.

#if defined(HEADRACE_ISA_AVX512)
#define HR_ISA avx512
#elif defined(HEADRACE_ISA_AVX2)
#define HR_ISA avx2
#else
#define HR_ISA generic
#endif

#include "ops/op.h"

namespace headrace {
// What a kernel source exports for one op: HR_KERNELS(rms_norm) = {Kernel{...}, ...};
struct KernelList {
  const Kernel* begin;
  int count;
};
inline constexpr Isa kIsa =
#if defined(HEADRACE_ISA_AVX512)
    Isa::avx512;
#elif defined(HEADRACE_ISA_AVX2)
    Isa::avx2;
#else
    Isa::generic;
#endif
}  // namespace headrace

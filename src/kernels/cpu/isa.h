#pragma once
// Every kernel source is compiled once per instruction set, with that set's compiler flags and one of HEADRACE_ISA_GENERIC,
// HEADRACE_ISA_AVX2, HEADRACE_ISA_AVX512 defined. All that it defines stands in namespace headrace::HR_ISA, so that
// code built for one set is never linked into another; tools/check_isa_symbols.py proves it on the objects (no weak symbols
// besides type information). For the same reason kernels call no std:: templates that may be emitted out of line.

#include "ops/kernel_lists.h"

#if defined(HEADRACE_ISA_AVX512)
#define HR_ISA avx512
#elif defined(HEADRACE_ISA_AVX2)
#define HR_ISA avx2
#else
#define HR_ISA generic
#endif

// Opens and closes the namespace of the instruction set that is being compiled.
#define HR_BEGIN_KERNELS namespace headrace { namespace HR_ISA {
#define HR_END_KERNELS } }

HR_BEGIN_KERNELS
inline constexpr Isa kIsa =
#if defined(HEADRACE_ISA_AVX512)
    Isa::avx512;
#elif defined(HEADRACE_ISA_AVX2)
    Isa::avx2;
#else
    Isa::generic;
#endif
// The name and priority of a kernel whose one source serves every set.
inline constexpr std::string_view kIsaName = kIsa == Isa::avx512 ? "avx512" : kIsa == Isa::avx2 ? "avx2" : "generic";
// The same for an op's second kernel, of tensors with more axes than a matrix.
inline constexpr std::string_view kIsaNameAxes = kIsa == Isa::avx512 ? "avx512_axes" : kIsa == Isa::avx2 ? "avx2_axes" : "generic_axes";
inline constexpr int kIsaPriority = 10 * static_cast<int>(kIsa);
HR_END_KERNELS

#include "ops/roof_kernels.h"

namespace headrace {

namespace generic {
extern const RoofKernels roof;
}
#if defined(__x86_64__) && !defined(HEADRACE_PORTABLE_KERNELS)
namespace avx2 {
extern const RoofKernels roof;
}
namespace avx512 {
extern const RoofKernels roof;
}
#endif

const RoofKernels* roof_kernels(Isa isa) {
  switch (isa) {
    case Isa::generic: return &generic::roof;
#if defined(__x86_64__) && !defined(HEADRACE_PORTABLE_KERNELS)
    case Isa::avx2: return &avx2::roof;
    case Isa::avx512: return &avx512::roof;
#else
    default: break;
#endif
  }
  return nullptr;
}

}  // namespace headrace

#pragma once
// The loops behind `headrace roof`, one set per instruction set (kernels/cpu/peak.cc): nothing but the arithmetic or the
// loads whose rate is wanted, so that the rate is an upper bound for every kernel of that set.

#include <cstddef>
#include <cstdint>

#include "core/device.h"

namespace headrace {

struct RoofKernels {
  // Runs `rounds` rounds on independent accumulators and returns the operations done, multiply and add counted apart. Null
  // where the set has no such instruction (bf16 and int8 then cost what f32 costs).
  using Arithmetic = double (*)(int64_t rounds);

  Isa isa = Isa::generic;
  Arithmetic f32 = nullptr;
  Arithmetic bf16 = nullptr;
  Arithmetic int8 = nullptr;
  // Reads `bytes` (a multiple of kRoofReadStep) and returns something that depends on all of them.
  int32_t (*read)(const std::byte* data, size_t bytes) = nullptr;
};
inline constexpr size_t kRoofReadStep = 512;

// Null when this build has no kernels of that set. The caller asks only for sets that the machine runs.
const RoofKernels* roof_kernels(Isa isa);

}  // namespace headrace

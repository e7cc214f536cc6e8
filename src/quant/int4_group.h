#pragma once
// Group-quantized integer matrices as GPTQ and AWQ checkpoints store them: packed 32-bit words, one scale and
// zero point per group of input rows and per output column. value[in, out] = (code - zero) * scale.

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace headrace {

struct GroupQuantized {
  int bits = 4;  // GPTQ: 2, 3, 4 or 8; AWQ: 4
  int64_t in_features = 0;
  int64_t out_features = 0;
  int64_t groups = 0;
  int64_t group_size = 0;            // rows a group when there is no g_idx
  std::span<const int32_t> qweight;  // GPTQ [in * bits / 32, out]; AWQ [in, out * bits / 32]
  std::span<const int32_t> qzeros;   // [groups, out * bits / 32]
  std::span<const float> scales;     // [groups, out]
  std::span<const int32_t> g_idx;    // GPTQ with act-order: the group of each input row; else empty
};

// checkpoint_format "gptq" stores zero - 1, "gptq_v2" the zero itself.
enum class GptqZeros : uint8_t { minus_one, plain };

// The matrix [in_features, out_features]. Codes are packed low bits first, down the rows (zeros along the
// columns). Errors: malformed when sizes disagree or a group index is outside; the message names the field.
Result<std::vector<float>> unpack_gptq(const GroupQuantized& matrix, GptqZeros zeros);
// The eight 4-bit fields of a word hold columns 0, 2, 4, 6, 1, 3, 5, 7 of its eight, low bits first.
Result<std::vector<float>> unpack_awq(const GroupQuantized& matrix);

}  // namespace headrace

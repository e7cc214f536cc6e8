#pragma once
// rope(x f32 or bf16 [T, heads * head_dim], positions i32 [T], inv_freq constant f32 [rotary_dim / 2]) -> the type of x
// Rotary embedding, Su et al. 2021 (arXiv:2104.09864). Pair i of a head turns by positions[t] * inv_freq[i]; cos and sin are
// multiplied by attention_factor (YaRN). Pairs are (i, i + rotary_dim/2), or (2i, 2i+1) when interleaved. The rest of the
// head passes through. In place is allowed. x may be a strided window of a merged projection.

#include "ops/op.h"

namespace headrace::ops {
struct RopeAttrs {
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  bool interleaved = false;
  float attention_factor = 1.0f;
  bool operator==(const RopeAttrs&) const = default;
  std::string describe() const;
};
extern const Op rope;

// For references: turns pair `i` of a head, whose first `rotary_dim` of elements are turned, by an angle of cosine `c` and sine `s`.
inline void turn_pair(const double* x, int64_t i, int64_t rotary_dim, bool interleaved, double c, double s, double* y) {
  const int64_t first = interleaved ? 2 * i : i, second = interleaved ? first + 1 : first + rotary_dim / 2;
  y[first] = x[first] * c - x[second] * s;
  y[second] = x[second] * c + x[first] * s;
}

// rope_parameters of a config.json -> the table. Kinds: default, linear, dynamic, yarn, longrope, llama3; formulas as in
// the papers that rope_table.cc names. `seq_len` 0: unknown (dynamic and longrope then use the trained length).
struct RopeParameters {
  std::string rope_type = "default";
  double rope_theta = 10000.0;
  double factor = 0.0;  // 0: not given (yarn and longrope then divide the two lengths)
  double partial_rotary_factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;      // llama3
  int64_t original_max_position_embeddings = 0;              // llama3, yarn, longrope; 0: not given
  double beta_fast = 32.0, beta_slow = 1.0;                  // yarn
  double attention_factor = 0.0;                             // 0: computed
  double mscale = 0.0, mscale_all_dim = 0.0;                 // yarn (DeepSeek)
  bool truncate = true;                                      // yarn
  std::vector<double> short_factor, long_factor;             // longrope
};
struct RopeTable {
  std::vector<double> inv_freq;  // [rotary_dim / 2]
  double attention_factor = 1.0;
};
Result<RopeTable> make_rope_table(const RopeParameters& parameters, int64_t head_dim, int64_t max_position_embeddings,
                                  int64_t seq_len);
}  // namespace headrace::ops

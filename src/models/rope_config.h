#pragma once
// The rotary embedding that a config.json asks for: `rope_parameters` (newer files) or `rope_theta` with `rope_scaling`.

#include "base/status.h"
#include "io/config_map.h"
#include "ops/rope.h"

namespace headrace::models {

// The frequencies of a head, with GGUF's per-frequency divisors ("rope_scaling.freq_factors") applied. Errors: malformed for
// a value of the wrong type or out of range, unsupported for an unknown kind.
Result<ops::RopeTable> read_rope_table(const io::ConfigMap& config, int64_t head_dim, int64_t max_position_embeddings);

}  // namespace headrace::models

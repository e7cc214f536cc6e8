#pragma once
// The rotary embedding that a config.json asks for: `rope_parameters` (newer files) or `rope_theta` with `rope_scaling`.

#include "models/model.h"
#include "ops/rope.h"

namespace headrace::models {

// Layers with a window may rotate by a table of their own (Gemma 3).
enum class RopeUse : uint8_t { full, sliding };

// The frequencies of a head, with GGUF's per-frequency divisors ("rope_scaling.freq_factors") applied. The kinds that depend
// on a sequence's length (dynamic, longrope) take the longest that the step allows: cached keys keep their rotation, so the
// table cannot change while a sequence grows. Errors: malformed for a value of the wrong type or out of range, unsupported
// for an unknown kind.
Result<ops::RopeTable> read_rope_table(const BuildContext& context, int64_t head_dim, RopeUse use);

// The context that the model serves with its scaling, where `max_position_embeddings` is the one before (linear, dynamic,
// yarn).
Result<int64_t> scaled_context(const io::ConfigMap& config, int64_t max_position_embeddings);

}  // namespace headrace::models

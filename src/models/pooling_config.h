#pragma once
// How an encoder makes one vector of a text's states, as sentence-transformers' files say it (io/sentence_config.h).

#include <cstdint>

#include "base/status.h"
#include "io/config_map.h"
#include "ops/pool.h"

namespace headrace::models {

struct Pooling {
  ops::PoolingKind kind = ops::PoolingKind::mean;
  bool normalize = true;    // to length 1
  int64_t max_length = 0;   // tokens of one text, special ones included
};

// Without such files: the mean, normalized, of as many tokens as the model has positions. Errors: malformed; unsupported
// for steps or ways of pooling that Headrace does not know.
Result<Pooling> read_pooling(const io::ConfigMap& config, int64_t max_position_embeddings);

}  // namespace headrace::models

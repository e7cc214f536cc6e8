#pragma once
// A Hugging Face folder as a ModelSource: config.json beside model.safetensors, or beside the shards that
// model.safetensors.index.json lists.

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "io/model_source.h"

namespace headrace::io {

// Errors: not_found (a file that the folder should hold, by name), malformed, unsupported (weights in another
// format).
Result<std::unique_ptr<ModelSource>> open_hf_folder(const std::string& folder);

// The weight_map of an index file: tensor -> shard. Shards are plain file names that end in .safetensors: no
// separators, no "..", so that an index cannot reach outside its folder. Errors: malformed.
Result<std::map<std::string, std::string>> parse_shard_index(std::string_view json);

}  // namespace headrace::io

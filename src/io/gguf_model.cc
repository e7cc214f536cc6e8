// Follows split.* keys and file names to the shards. Names are made from the path that was asked for, never
// read from a file.
#include "io/gguf_model.h"

#include <algorithm>

namespace headrace::io {
namespace {

constexpr int64_t kMaxShards = 9999;

struct Split {
  int64_t number = 0;  // from 0
  int64_t count = 1;
  int64_t tensors = -1;  // in all shards; -1 when the file does not say
};

Result<int64_t> integer_or(const GgufFile& file, std::string_view key, int64_t fallback, int64_t min,
                           int64_t max) {
  const GgufEntry* entry = file.find(key);
  if (entry == nullptr) return fallback;
  const auto value = entry->integer();
  if (!value || *value < min || *value > max) {
    return error(Code::malformed, "{}: want an integer in {}..{}, got {}", key, min, max,
                 value ? fmt::format("{}", *value) : std::string(gguf_type_name(entry->type)));
  }
  return *value;
}

Result<Split> read_split(const GgufFile& file) {
  Split split;
  // Writers leave 0 in files that are whole.
  HR_ASSIGN_OR_RETURN(const int64_t count, integer_or(file, "split.count", 1, 0, kMaxShards));
  split.count = std::max<int64_t>(count, 1);
  HR_ASSIGN_OR_RETURN(split.number, integer_or(file, "split.no", 0, 0, split.count - 1));
  HR_ASSIGN_OR_RETURN(split.tensors, integer_or(file, "split.tensors.count", -1, 0, int64_t{1} << 31));
  return split;
}

std::string shard_suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// A shard's place among the others is what the first one's keys and its own name say.
Status check_shard(const GgufFile& file, int64_t number, int64_t count) {
  HR_ASSIGN_OR_RETURN(const Split split, read_split(file));
  if (split.number == number && split.count == count) return Status();
  return make_status(Code::malformed, "it says that it is shard {} of {}; its name says {} of {}",
                     split.number + 1, split.count, number + 1, count);
}

}  // namespace

Result<GgufModel> GgufModel::from_file(GgufFile file) {
  HR_ASSIGN_OR_RETURN(const Split split, read_split(file));
  if (split.count != 1) {
    return error(Code::malformed, "shard {} of {}: the others are needed too", split.number + 1, split.count);
  }
  GgufModel model;
  model.files_.push_back(std::move(file));
  return model;
}

Result<GgufModel> GgufModel::open(const std::string& path) {
  HR_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  Result<Split> split = read_split(file);
  if (!split) return tl::unexpected<Status>(split.error().with_context(path));
  if (split->count == 1) return from_file(std::move(file));

  const std::string suffix = shard_suffix(split->number, split->count);
  if (!path.ends_with(suffix)) {
    return error(Code::malformed, "{} is shard {} of {}; want a name that ends in {}, to find the others by",
                 path, split->number + 1, split->count, suffix);
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  GgufModel model;
  int64_t tensors = 0;
  for (int64_t number = 0; number < split->count; ++number) {
    const std::string name = prefix + shard_suffix(number, split->count);
    if (number == split->number) {
      model.files_.push_back(std::move(file));
    } else {
      HR_ASSIGN_OR_RETURN(GgufFile other, GgufFile::open(name));
      model.files_.push_back(std::move(other));
    }
    if (Status status = check_shard(model.files_.back(), number, split->count); !status.ok()) {
      return tl::unexpected<Status>(status.with_context(name));
    }
    tensors += static_cast<int64_t>(model.files_.back().tensors().size());
  }
  if (split->tensors >= 0 && split->tensors != tensors) {
    return error(Code::malformed, "{}: split.tensors.count is {}, the {} shards hold {}", path,
                 split->tensors, split->count, tensors);
  }
  return model;
}

GgufModel::Tensor GgufModel::find_tensor(std::string_view name) const {
  for (const GgufFile& file : files_) {
    const auto tensors = file.tensors();
    const auto at = std::ranges::find(tensors, name, &GgufTensor::name);
    if (at != tensors.end()) return {&file, &*at};
  }
  return {};
}

}  // namespace headrace::io

#pragma once
// A model in GGUF: one file, or the shards of a split one ("NAME-00001-of-00003.gguf", keys split.*), of
// which the first holds the metadata. All shards are open and agree with each other before anything is handed
// out.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/gguf.h"

namespace headrace::io {

class GgufModel {
 public:
  // Any shard's path opens all of them. Errors: not_found (a shard that is missing, by name), malformed.
  static Result<GgufModel> open(const std::string& path);
  // Errors: malformed when `file` is one shard of several.
  static Result<GgufModel> from_file(GgufFile file);

  const GgufEntry* find(std::string_view key) const { return files_.front().find(key); }
  std::span<const GgufFile> files() const { return files_; }

  struct Tensor {
    const GgufFile* file = nullptr;  // null: there is no such tensor
    const GgufTensor* info = nullptr;
    explicit operator bool() const { return file != nullptr; }
    std::span<const std::byte> data() const { return file->data(*info); }
  };
  // By its GGUF name; linear in the number of tensors.
  Tensor find_tensor(std::string_view name) const;

 private:
  std::vector<GgufFile> files_;
};

}  // namespace headrace::io

#pragma once
// Writes a checkpoint as a Hugging Face folder: config.json and model.safetensors, or shards with their index. The folder grows as
// FOLDER.part and gets its name when all is written; what fails before leaves nothing behind. The data are not forced to the disk.
// Layout: https://github.com/huggingface/safetensors#format

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/write_tensors.h"

namespace headrace::io {

class SafetensorsWriter {
 public:
  // A file takes tensors of `source`, in its order, while they are at most `shard_bytes` together; one tensor alone may be larger. The
  // source must outlive the writer. Errors: invalid_argument for a folder that is there and not empty, for a FOLDER.part that is there and
  // for more than 500 shards, unsupported for a format that safetensors lacks, resource_exhausted and not_found from the system.
  static Result<std::unique_ptr<SafetensorsWriter>> create(const std::string& folder, std::string_view config_json,
                                                           const ModelSource& source, uint64_t shard_bytes);
  ~SafetensorsWriter();  // removes what finish() did not name
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Errors: those of the source; resource_exhausted (a full disk); cancelled by `progress`.
  Status write(const OnTeam& on_team, const WriteProgress& progress);
  Status finish();
  uint64_t data_bytes() const { return data_bytes_; }
  size_t num_files() const { return shards_.size(); }

 private:
  struct Shard {
    std::string name;
    size_t begin, end;  // of the source's tensors
    int file = -1;
  };
  struct Place {
    size_t shard;
    uint64_t offset;  // in its file
  };

  SafetensorsWriter(std::string folder, const ModelSource& source)
      : folder_(std::move(folder)), part_(folder_ + ".part"), source_(source) {}
  Status divide(uint64_t shard_bytes);
  Status open(std::string_view config_json);
  Status open_shard(Shard& shard);
  std::string header_of(const Shard& shard);  // and the places of its tensors
  std::string index_json() const;
  // A file of its own, whole.
  Status put_file(const std::string& name, std::string_view text) const;
  Status system_error(std::string_view what, const std::string& path) const;

  const std::string folder_, part_;
  const ModelSource& source_;
  bool made_ = false;  // part_ is ours to remove
  uint64_t data_bytes_ = 0;
  std::vector<Shard> shards_;
  std::vector<Place> places_;  // of each tensor
};

}  // namespace headrace::io

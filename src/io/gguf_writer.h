#pragma once
// Writes a GGUF file, version 3: metadata, then the tensors of a ModelSource, a megabyte at a time by every thread of a team.
// The file grows as PATH.part, no model before all is written, and gets its name then; what fails before leaves nothing behind.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/gguf.h"
#include "io/write_tensors.h"

namespace headrace::io {

// The metadata of a file to be, in the order in which it is added. Keys are the caller's to keep apart.
class GgufMetadata {
 public:
  void add(const GgufEntry& entry);  // as it stands in another file, byte by byte
  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element, uint64_t count);

  uint64_t count_ = 0;
  std::string bytes_;
};

class GgufWriter {
 public:
  struct Options {
    uint64_t alignment = 32;  // what the metadata says; the format's default where it says nothing
    bool overwrite = false;   // replace a file of that name
  };
  // Writes the header. The tensors will be those of `source`, in its order and under its names; it must outlive the writer.
  // Errors: invalid_argument for a file that is there, for what is no regular file and for the source's own, unsupported for a tensor that GGUF cannot hold, resource_exhausted and
  // not_found from the system, with the path.
  static Result<std::unique_ptr<GgufWriter>> create(std::string path, const GgufMetadata& metadata, const ModelSource& source,
                                                    const Options& options);
  ~GgufWriter();  // removes what finish() did not name
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Errors: those of the source; resource_exhausted (a full disk); cancelled by `progress`, which may be null.
  Status write(const OnTeam& on_team, const WriteProgress& progress);
  // Where the bytes lie between write() and finish().
  const std::string& part_path() const { return part_path_; }
  Status finish();
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  GgufWriter(std::string path, const ModelSource& source) : path_(std::move(path)), part_path_(path_ + ".part"), source_(source) {}
  Status open(const GgufMetadata& metadata, const Options& options);
  Status open_part();
  Status put_bytes(uint64_t offset, std::span<const std::byte> bytes) const;
  Status system_error(std::string_view what) const;

  const std::string path_, part_path_;
  const ModelSource& source_;
  int file_ = -1;
  std::string magic_;              // the file's first bytes, which write() writes last
  bool made_ = false;              // part_path_ is ours to remove
  uint64_t file_bytes_ = 0;
  std::vector<uint64_t> offsets_;  // of each tensor, from the start of the file
};

}  // namespace headrace::io

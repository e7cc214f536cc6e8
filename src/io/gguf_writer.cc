// Every tensor's place is known once the header is: threads write their rows where they belong, in any order.
#include "io/gguf_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "io/shown_name.h"

namespace headrace::io {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as it lies in memory");

constexpr size_t kMaxDims = 4, kMagicBytes = 4;

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& bytes, std::string_view text) {
  put<uint64_t>(bytes, text.size());
  bytes += text;
}
uint64_t align_up(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// A value that GgufEntry holds as its widest type, in the width of `type`.
template <class T>
void put_scalar(std::string& bytes, GgufType type, T value) {
  switch (type) {
    case GgufType::u8: return put(bytes, static_cast<uint8_t>(value));
    case GgufType::i8: return put(bytes, static_cast<int8_t>(value));
    case GgufType::u16: return put(bytes, static_cast<uint16_t>(value));
    case GgufType::i16: return put(bytes, static_cast<int16_t>(value));
    case GgufType::u32: return put(bytes, static_cast<uint32_t>(value));
    case GgufType::i32: return put(bytes, static_cast<int32_t>(value));
    case GgufType::f32: return put(bytes, static_cast<float>(value));
    case GgufType::boolean: return put(bytes, static_cast<uint8_t>(value));
    case GgufType::u64: return put(bytes, static_cast<uint64_t>(value));
    case GgufType::i64: return put(bytes, static_cast<int64_t>(value));
    case GgufType::f64: return put(bytes, static_cast<double>(value));
    case GgufType::string:
    case GgufType::array: return;
  }
}

}  // namespace

void GgufMetadata::begin(std::string_view key, GgufType type) {
  ++count_;
  put_text(bytes_, key);
  put(bytes_, static_cast<uint32_t>(type));
}

void GgufMetadata::begin_array(std::string_view key, GgufType element, uint64_t count) {
  begin(key, GgufType::array);
  put(bytes_, static_cast<uint32_t>(element));
  put(bytes_, count);
}

void GgufMetadata::add(const GgufEntry& entry) {
  begin(entry.key, entry.type);
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          put_text(bytes_, value);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          put(bytes_, static_cast<uint32_t>(value.element()));
          put(bytes_, value.count());
          bytes_.append(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
        } else {
          put_scalar(bytes_, entry.type, value);
        }
      },
      entry.value);
}

void GgufMetadata::add_u32(std::string_view key, uint32_t value) {
  begin(key, GgufType::u32);
  put(bytes_, value);
}
void GgufMetadata::add_f32(std::string_view key, float value) {
  begin(key, GgufType::f32);
  put(bytes_, value);
}
void GgufMetadata::add_bool(std::string_view key, bool value) {
  begin(key, GgufType::boolean);
  put(bytes_, static_cast<uint8_t>(value));
}
void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  begin(key, GgufType::string);
  put_text(bytes_, value);
}
void GgufMetadata::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::string, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}
void GgufMetadata::add_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::i32, values.size());
  for (const int32_t value : values) put(bytes_, value);
}
void GgufMetadata::add_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::f32, values.size());
  for (const float value : values) put(bytes_, value);
}

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(std::string path, const GgufMetadata& metadata,
                                                       const ModelSource& source, const Options& options) {
  std::unique_ptr<GgufWriter> writer(new GgufWriter(std::move(path), source));
  HR_RETURN_IF_ERROR(writer->open(metadata, options));
  return writer;
}

GgufWriter::~GgufWriter() {
  if (file_ >= 0) ::close(file_);
  if (made_) ::unlink(part_path_.c_str());
}

Status GgufWriter::system_error(std::string_view what) const {
  const int number = errno;
  const bool missing = number == ENOENT || number == ENOTDIR || number == EACCES || number == EISDIR;
  return make_status(missing ? Code::not_found : Code::resource_exhausted, "cannot {} {}: {}", what, part_path_,
                     std::strerror(number));
}

Status GgufWriter::open(const GgufMetadata& metadata, const Options& options) {
  std::string header = "GGUF";
  put<uint32_t>(header, 3);
  put<uint64_t>(header, source_.tensors().size());
  put<uint64_t>(header, metadata.count());
  header += metadata.bytes();
  uint64_t data_bytes = 0;
  for (const SourceTensor& tensor : source_.tensors()) {
    const FormatInfo& info = format_info(tensor.format);
    if (info.gguf_type < 0 || tensor.shape.size() > kMaxDims || tensor.bytes == 0) {
      return make_status(Code::unsupported, "tensor {}: GGUF holds no {} of {} dimensions and {} bytes; --weights gives it another format",
                         shown_name(tensor.name), info.name, tensor.shape.size(), tensor.bytes);
    }
    put_text(header, tensor.name);
    put<uint32_t>(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t axis = tensor.shape.size(); axis-- > 0;) put<uint64_t>(header, static_cast<uint64_t>(tensor.shape[axis]));
    put<uint32_t>(header, static_cast<uint32_t>(info.gguf_type));
    data_bytes = align_up(data_bytes, options.alignment);
    put<uint64_t>(header, data_bytes);
    offsets_.push_back(data_bytes);
    data_bytes += tensor.bytes;
  }
  const uint64_t data_start = align_up(header.size(), options.alignment);
  for (uint64_t& offset : offsets_) offset += data_start;
  // Readers want the padding behind the last tensor too.
  file_bytes_ = align_up(data_start + data_bytes, options.alignment);

  std::error_code ignored;
  const auto there = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return make_status(Code::invalid_argument, "{} is no regular file: want the name of a file to write", path_);
  }
  if (!options.overwrite && std::filesystem::exists(there)) {
    return make_status(Code::invalid_argument, "{} is there already; --force replaces it", path_);
  }
  HR_RETURN_IF_ERROR(open_part());
  made_ = true;
  // Holes between tensors read as zeros.
  if (::ftruncate(file_, 0) != 0 || ::ftruncate(file_, static_cast<off_t>(file_bytes_)) != 0) return system_error("resize");
  // Without its first four bytes the file is none yet, should the process end here.
  magic_ = header.substr(0, kMagicBytes);
  return put_bytes(kMagicBytes, std::as_bytes(std::span(header).subspan(kMagicBytes)));
}

// The name is easy to guess: no link is followed, nothing but a file is taken, and none that another process has renamed between
// the opening and the lock.
Status GgufWriter::open_part() {
  file_ = ::open(part_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (file_ < 0) return system_error("create");
  struct stat opened, named;
  if (::fstat(file_, &opened) != 0 || !S_ISREG(opened.st_mode)) {
    return make_status(Code::invalid_argument, "{} is in the way and no regular file", part_path_);
  }
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 || ::lstat(part_path_.c_str(), &named) != 0 || named.st_ino != opened.st_ino ||
      named.st_dev != opened.st_dev) {
    return make_status(Code::unavailable, "{} is being written by another process", part_path_);
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(source_.path(), part_path_, ignored)) {
    return make_status(Code::invalid_argument, "{} is the model that is read; choose another name for the result", part_path_);
  }
  return {};
}

Status GgufWriter::put_bytes(uint64_t offset, std::span<const std::byte> bytes) const {
  if (write_at(file_, offset, bytes)) return Status();
  return system_error(fmt::format("write {} bytes at {} of", bytes.size(), offset));
}

Status GgufWriter::write(const OnTeam& on_team, const WriteProgress& progress) {
  HR_RETURN_IF_ERROR(write_tensors(source_, path_, on_team, progress, [&](size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    return put_bytes(offsets_[tensor] + offset, bytes);
  }));
  return put_bytes(0, std::as_bytes(std::span(magic_)));
}

Status GgufWriter::finish() {
  // A disk may say that it is full only now.
  if (::fsync(file_) != 0) return system_error("write");
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) return system_error("close");
  if (::rename(part_path_.c_str(), path_.c_str()) != 0) return system_error("rename");
  made_ = false;
  return Status();
}

}  // namespace headrace::io

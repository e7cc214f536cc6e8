#include "onnx/data_folder.h"

#include <algorithm>
#include <filesystem>

#include "io/shown_name.h"

namespace headrace::onnx {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxReuse = 4;  // tensors may share bytes; all of them together read at most this many times the files' sizes

}  // namespace

Result<std::shared_ptr<const io::MappedFile>> DataFolder::open(const std::string& location) {
  const std::string shown = io::shown_name(location);
  if (folder_.empty()) return error(Code::malformed, "external data in \"{}\": the model is not in a folder of its own", shown);
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      std::ranges::find(relative, fs::path("..")) != relative.end()) {
    return error(Code::malformed, "external data in \"{}\": want a path inside the model's folder", shown);
  }
  std::error_code failed;
  const fs::path root = fs::canonical(folder_, failed);
  if (failed) return error(Code::not_found, "folder {}: {}", folder_, failed.message());
  const fs::path path = fs::canonical(root / relative, failed);
  if (failed) return error(Code::not_found, "external data in \"{}\": {}", shown, failed.message());
  if (std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first != root.end()) {
    return error(Code::malformed, "external data in \"{}\": a link leaves the model's folder", shown);
  }
  const auto known = files_.find(path.native());
  if (known != files_.end()) return known->second;
  HR_ASSIGN_OR_RETURN(io::MappedFile file, io::MappedFile::open(path.native()));
  file_bytes_ += file.bytes().size();
  return files_.emplace(path.native(), std::make_shared<const io::MappedFile>(std::move(file))).first->second;
}

Result<DataFolder::Part> DataFolder::find(const std::string& location, uint64_t offset, std::optional<uint64_t> length) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const io::MappedFile> file, open(location));
  const std::span<const std::byte> bytes = file->bytes();
  if (offset > bytes.size() || length.value_or(0) > bytes.size() - offset) {
    return error(Code::malformed, "external data in \"{}\": want {} bytes at {}, the file has {}", io::shown_name(location),
                 length.value_or(0), offset, bytes.size());
  }
  const uint64_t count = length.value_or(bytes.size() - offset);
  if (count > kMaxReuse * file_bytes_ - read_bytes_) {
    return error(Code::resource_exhausted, "external data in \"{}\": the model reads its files more than {} times over",
                 io::shown_name(location), kMaxReuse);
  }
  read_bytes_ += count;
  return Part{std::move(file), bytes.subspan(offset, count)};
}

}  // namespace headrace::onnx

// Every tensor's place is known once the headers are: threads write their rows where they belong, in any order.
#include "io/safetensors_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/shown_name.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "safetensors are written as they lie in memory");

constexpr size_t kMaxShards = 500;  // all of them are open at once
constexpr size_t kHeaderAlignment = 8;

// "out/" and "out/." are "out".
std::string plain_path(const std::string& folder) {
  const std::string text = fs::path(folder).lexically_normal().string();
  return text.size() > 1 && text.ends_with('/') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(const std::string& folder, std::string_view config_json,
                                                                     const ModelSource& source, uint64_t shard_bytes) {
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(plain_path(folder), source));
  HR_RETURN_IF_ERROR(writer->divide(shard_bytes));
  HR_RETURN_IF_ERROR(writer->open(config_json));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  for (const Shard& shard : shards_) {
    if (shard.file >= 0) ::close(shard.file);
  }
  std::error_code ignored;
  if (made_) fs::remove_all(part_, ignored);
}

Status SafetensorsWriter::system_error(std::string_view what, const std::string& path) const {
  const int number = errno;
  const bool missing = number == ENOENT || number == ENOTDIR || number == EACCES;
  return make_status(missing ? Code::not_found : Code::resource_exhausted, "cannot {} {}: {}", what, path, std::strerror(number));
}

Status SafetensorsWriter::divide(uint64_t shard_bytes) {
  const std::span<const SourceTensor> tensors = source_.tensors();
  uint64_t in_shard = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const FormatInfo& info = format_info(tensors[i].format);
    if (info.safetensors.empty()) {
      return make_status(Code::unsupported, "tensor {}: safetensors hold no {}", shown_name(tensors[i].name), info.name);
    }
    if (shards_.empty() || (in_shard > 0 && tensors[i].bytes > shard_bytes - std::min(in_shard, shard_bytes))) {
      shards_.push_back({.name = "", .begin = i, .end = i});
      in_shard = 0;
    }
    shards_.back().end = i + 1;
    in_shard += tensors[i].bytes;
    data_bytes_ += tensors[i].bytes;
  }
  if (shards_.size() > kMaxShards) {
    return make_status(Code::invalid_argument, "{} shards of {} bytes; want at most {}: choose larger ones", shards_.size(), shard_bytes,
                       kMaxShards);
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].name =
        shards_.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
  }
  return {};
}

Status SafetensorsWriter::open(std::string_view config_json) {
  std::error_code ignored;
  if (fs::exists(folder_, ignored) && !(fs::is_directory(folder_, ignored) && fs::is_empty(folder_, ignored))) {
    return make_status(Code::invalid_argument, "{} is there already: want the name of a new folder", folder_);
  }
  if (::mkdir(part_.c_str(), 0777) != 0) {
    if (errno != EEXIST) return system_error("create", part_);
    return make_status(Code::invalid_argument, "{} is there: another process writes it, or one was stopped; remove it then", part_);
  }
  made_ = true;
  HR_RETURN_IF_ERROR(put_file("config.json", config_json));
  places_.resize(source_.tensors().size());
  for (Shard& shard : shards_) HR_RETURN_IF_ERROR(open_shard(shard));
  return shards_.size() > 1 ? put_file("model.safetensors.index.json", index_json()) : Status();
}

Status SafetensorsWriter::open_shard(Shard& shard) {
  const std::string header = header_of(shard);
  const std::string path = part_ + "/" + shard.name;
  shard.file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (shard.file < 0) return system_error("create", path);
  return write_at(shard.file, 0, std::as_bytes(std::span(header))) ? Status() : system_error("write", path);
}

// The length of the JSON in eight bytes, then the JSON, filled up with spaces.
std::string SafetensorsWriter::header_of(const Shard& shard) {
  Json json = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (size_t i = shard.begin; i < shard.end; ++i) {
    const SourceTensor& tensor = source_.tensors()[i];
    json[tensor.name] = {{"dtype", format_info(tensor.format).safetensors},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.bytes}}};
    places_[i] = {static_cast<size_t>(&shard - shards_.data()), offset};
    offset += tensor.bytes;
  }
  std::string text = json.dump();
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  header += text;
  for (size_t i = shard.begin; i < shard.end; ++i) places_[i].offset += header.size();
  return header;
}

std::string SafetensorsWriter::index_json() const {
  Json map = Json::object();
  for (size_t i = 0; i < places_.size(); ++i) map[source_.tensors()[i].name] = shards_[places_[i].shard].name;
  const Json json = {{"metadata", {{"total_size", data_bytes_}}}, {"weight_map", std::move(map)}};
  return json.dump(2) + "\n";
}

Status SafetensorsWriter::put_file(const std::string& name, std::string_view text) const {
  const std::string path = part_ + "/" + name;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return system_error("create", path);
  Status status = write_at(file, 0, std::as_bytes(std::span(text))) ? Status() : system_error("write", path);
  if (::close(file) != 0 && status.ok()) status = system_error("close", path);
  return status;
}

Status SafetensorsWriter::write(const OnTeam& on_team, const WriteProgress& progress) {
  return write_tensors(source_, folder_, on_team, progress, [&](size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    const Place& place = places_[tensor];
    const Shard& shard = shards_[place.shard];
    return write_at(shard.file, place.offset + offset, bytes) ? Status() : system_error("write", part_ + "/" + shard.name);
  });
}

Status SafetensorsWriter::finish() {
  for (Shard& shard : shards_) {
    const int file = std::exchange(shard.file, -1);
    if (::close(file) != 0) return system_error("close", part_ + "/" + shard.name);
  }
  if (::rename(part_.c_str(), folder_.c_str()) != 0) return system_error("rename", part_);
  made_ = false;
  return {};
}

}  // namespace headrace::io

#include "runtime/accelerator.h"

#include <cstdio>
#include <filesystem>

#include "runtime/matmul_plan.h"

namespace headrace::runtime {

Result<std::shared_ptr<Accelerator>> Accelerator::cuda(int index) {
  HR_ASSIGN_OR_RETURN(const DevicePlugin* plugin, load_cuda_plugin());
  const int count = plugin->device_count();
  if (index < 0 || index >= count) {
    return error(Code::unavailable, "--device cuda: device {} is wanted, this machine has {}", index, count);
  }
  auto accelerator = std::make_shared<Accelerator>(*plugin, index);
  load_first_matmul_plan(*accelerator);
  return accelerator;
}

Status Accelerator::failed(const char* what) const {
  return make_status(Code::internal, "{}: {}: {}", plugin_.name, what, plugin_.last_error());
}

Result<DeviceFacts> Accelerator::facts() const {
  DeviceFacts facts{};
  if (!plugin_.facts(index_, &facts)) return tl::unexpected(failed("facts of the device"));
  return facts;
}

Result<uint64_t> Accelerator::free_memory() const {
  uint64_t bytes = 0;
  if (!plugin_.free_memory(index_, &bytes)) return tl::unexpected(failed("free memory of the device"));
  return bytes;
}

Status Accelerator::load_matmul_plan(const std::string& path) const {
  if (plugin_.load_matmul_plan(index_, path.c_str())) return {};
  return make_status(Code::malformed, "{}", plugin_.last_error());
}

Status Accelerator::save_matmul_plan(const std::string& path) const {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) return make_status(Code::unavailable, "{}: cannot be made: {}", folder.string(), failed.message());
  // Whole or not at all: another process may load it now.
  const std::string part = path + ".part";
  const bool written = plugin_.save_matmul_plan(index_, part.c_str());
  const std::string reason = written ? "" : plugin_.last_error();
  if (written) std::filesystem::rename(part, path, failed);
  if (written && !failed) return {};
  std::remove(part.c_str());
  return make_status(Code::unavailable, "{}: cannot be written: {}", path, failed ? failed.message() : reason);
}

Result<DeviceTuning> Accelerator::tune_matmul(const DeviceMatmul& product) const {
  DeviceTuning tuning{};
  if (plugin_.tune_matmul(index_, &product, &tuning)) return tuning;
  return error(Code::unavailable, "{}: N={} K={} T={}: {}", plugin_.name, product.n, product.k, product.tokens, plugin_.last_error());
}

Result<void*> Accelerator::allocate(uint64_t bytes) {
  void* memory = nullptr;
  if (!plugin_.allocate(index_, bytes, &memory)) {
    const std::string reason = plugin_.last_error();
    return error(Code::resource_exhausted, "{}: cannot allocate {} bytes ({}), {} are free", plugin_.name, bytes, reason,
                 free_memory().value_or(0));
  }
  if (!plugin_.clear(memory, bytes, nullptr) || !plugin_.synchronize(nullptr)) {
    release(memory);
    return tl::unexpected(failed("clearing memory"));
  }
  return memory;
}

Result<Accelerator::Handle> Accelerator::make_stream() const {
  void* stream = nullptr;
  if (!plugin_.make_stream(index_, &stream)) return tl::unexpected(failed("making a stream"));
  return Handle(stream, {this, [](const Accelerator& device, void* object) { device.plugin_.drop_stream(device.index_, object); }});
}

Result<Accelerator::Handle> Accelerator::make_event() const {
  void* event = nullptr;
  if (!plugin_.make_event(index_, &event)) return tl::unexpected(failed("making an event"));
  return Handle(event, {this, [](const Accelerator& device, void* object) { device.plugin_.drop_event(object); }});
}

Result<Accelerator::Handle> Accelerator::end_capture(void* stream) const {
  void* graph = nullptr;
  if (!plugin_.end_capture(stream, &graph)) return tl::unexpected(failed("recording a step"));
  return Handle(graph, {this, [](const Accelerator& device, void* object) { device.plugin_.drop_graph(object); }});
}

Result<Accelerator::Handle> Accelerator::make_pinned(uint64_t bytes) const {
  void* memory = nullptr;
  if (!plugin_.allocate_shared(bytes, &memory)) return tl::unexpected(failed("pinning host memory"));
  return Handle(memory, {this, [](const Accelerator& device, void* object) { device.plugin_.release_shared(object); }});
}

Result<std::unique_ptr<Uploader>> Uploader::make(const Accelerator& accelerator, int members, uint64_t piece_bytes) {
  std::unique_ptr<Uploader> uploader(new Uploader(accelerator));
  uploader->members_.resize(static_cast<size_t>(members));
  for (Member& member : uploader->members_) {
    HR_ASSIGN_OR_RETURN(member.stream, accelerator.make_stream());
    for (Piece& piece : member.pieces) {
      HR_ASSIGN_OR_RETURN(piece.memory, accelerator.make_pinned(piece_bytes));
      HR_ASSIGN_OR_RETURN(piece.arrived, accelerator.make_event());
    }
  }
  return uploader;
}

Result<std::byte*> Uploader::piece(int rank) {
  Member& member = members_[static_cast<size_t>(rank)];
  Piece& piece = member.pieces[member.next];
  if (piece.on_its_way) HR_RETURN_IF_ERROR(accelerator_.check(accelerator_.plugin().wait_event(piece.arrived.get()), "sending weights"));
  piece.on_its_way = false;
  return static_cast<std::byte*>(piece.memory.get());
}

Status Uploader::send(int rank, void* to, uint64_t bytes) {
  Member& member = members_[static_cast<size_t>(rank)];
  Piece& piece = member.pieces[member.next];
  const DevicePlugin& plugin = accelerator_.plugin();
  const bool sent = plugin.copy_to_device(to, piece.memory.get(), bytes, member.stream.get()) &&
                    plugin.record_event(piece.arrived.get(), member.stream.get());
  piece.on_its_way = sent;
  member.next = 1 - member.next;
  return accelerator_.check(sent, "sending weights");
}

Status Uploader::finish() {
  for (Member& member : members_) {
    HR_RETURN_IF_ERROR(accelerator_.check(accelerator_.plugin().synchronize(member.stream.get()), "sending weights"));
  }
  return {};
}

}  // namespace headrace::runtime

#include "onnx/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/library_plugin.h"

namespace headrace::onnx {
namespace {

// The name of the node with the largest output.
std::string largest_node(const headrace::Graph& graph) {
  std::string name;
  int64_t most = -1;
  for (const headrace::Node& node : graph.nodes) {
    for (const ValueId output : node.outputs) {
      const ValueType& type = graph.values[static_cast<size_t>(output)].type;
      const int64_t bytes = type.shape.elements(Bindings()) * static_cast<int64_t>(dtype_bytes(type.dtype));
      if (bytes > most) name = node.name;
      most = std::max(most, bytes);
    }
  }
  return name;
}

// Two sums of products of 64 bits over four lanes, so that a core reads as fast as its memory gives.
std::array<uint64_t, 2> hash_of(std::span<const std::byte> bytes) {
  constexpr uint64_t kOdd[4] = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93};
  constexpr size_t kBlock = 4 * sizeof(uint64_t);
  uint64_t low[4] = {kOdd[0], kOdd[1], kOdd[2], kOdd[3]}, high[4] = {kOdd[3], kOdd[2], kOdd[1], kOdd[0]};
  const auto add = [&](const std::byte* from) {
    for (int lane = 0; lane < 4; ++lane) {
      uint64_t word = 0;
      std::memcpy(&word, from + static_cast<size_t>(lane) * sizeof word, sizeof word);
      const auto product = static_cast<unsigned __int128>(word ^ low[lane]) * kOdd[lane];
      low[lane] = static_cast<uint64_t>(product) ^ high[lane];
      high[lane] = (static_cast<uint64_t>(product >> 64) + high[lane] + word) * kOdd[lane];
    }
  };
  size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) add(bytes.data() + at);
  std::byte rest[kBlock]{};
  if (at < bytes.size()) std::memcpy(rest, bytes.data() + at, bytes.size() - at);
  add(rest);
  std::array<uint64_t, 2> hash{bytes.size(), ~static_cast<uint64_t>(bytes.size())};
  for (int lane = 0; lane < 4; ++lane) {
    for (const auto& [part, whole] : {std::pair(low[lane], 0), std::pair(high[lane], 1)}) {
      uint64_t& sum = hash[static_cast<size_t>(whole)];
      sum = (std::rotl(sum, 23) ^ part ^ (part >> 29)) * kOdd[lane];
    }
  }
  return hash;
}

}  // namespace

Result<std::shared_ptr<const std::byte[]>> ConstantStore::find_or_make(
    Key key, const std::function<Result<std::shared_ptr<const std::byte[]>>()>& make) {
  const std::shared_ptr<Entry> entry = entry_of(std::move(key));
  const std::lock_guard lock(entry->mutex);
  if (auto bytes = entry->bytes.lock()) return bytes;
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const std::byte[]> made, make());
  entry->bytes = made;
  return made;
}

std::shared_ptr<ConstantStore::Entry> ConstantStore::entry_of(Key key) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= sweep_at_) {
    std::erase_if(entries_, [](const auto& entry) {
      if (entry.second.use_count() > 1) return false;  // somebody makes it
      const std::lock_guard of_entry(entry.second->mutex);
      return entry.second->bytes.expired();
    });
    sweep_at_ = 2 * entries_.size() + 64;
  }
  std::shared_ptr<Entry>& entry = entries_[std::move(key)];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

Result<std::shared_ptr<const std::byte[]>> ConstantStore::get(std::span<const std::byte> constant, std::string form, uint64_t bytes,
                                                             const std::function<void(std::byte*)>& pack) {
  return find_or_make({hash_of(constant), constant.size(), std::move(form)}, [&]() -> Result<std::shared_ptr<const std::byte[]>> {
    HR_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(ledger_, Account::weights, model_, bytes));
    pack(buffer.data());
    const auto owner = std::make_shared<Buffer>(std::move(buffer));
    return std::shared_ptr<const std::byte[]>(owner, owner->data());
  });
}

Result<std::shared_ptr<const std::byte[]>> ConstantStore::keep(std::shared_ptr<const std::byte[]> bytes, uint64_t size, bool of_model) {
  Key key{{reinterpret_cast<uintptr_t>(bytes.get())}, size, "model"};
  if (!of_model) key = {hash_of({bytes.get(), size}), size, ""};
  return find_or_make(std::move(key), [&]() -> Result<std::shared_ptr<const std::byte[]>> {
    HR_RETURN_IF_ERROR(ledger_.charge(Account::weights, model_, size));
    const std::byte* at = bytes.get();
    return std::shared_ptr<const std::byte[]>(at, [this, held = std::move(bytes), size](const std::byte*) {
      ledger_.release(Account::weights, model_, size);
    });
  });
}

SessionRuntime::SessionRuntime(std::shared_ptr<runtime::DeviceQueue> queue, std::string model, CompileOptions options)
    : queue_(std::move(queue)), model_(std::move(model)), options_(std::move(options)), constants_(queue_->ledger(), model_) {
  if (!options_.library_kernels) return;
  const auto plugin = load_onednn_plugin();
  if (plugin) lent_ = (*plugin)->run_team;
  else library_status_ = plugin.error();
}

Status SessionRuntime::run(runtime::Program& program, const std::vector<void*>& inputs, std::vector<double>* node_seconds,
                           const std::function<void()>& read) {
  const std::lock_guard lock(mutex_);
  const int64_t wanted = program.plan_for(Bindings()).arena_bytes;
  if (wanted > static_cast<int64_t>(arena_.bytes())) {
    arena_ = Buffer();
    auto arena = Buffer::allocate(queue_->ledger(), Account::arena, model_, static_cast<uint64_t>(wanted));
    if (!arena) return arena.error().with_context(fmt::format("{} writes the most", largest_node(program.graph())));
    arena_ = *std::move(arena);
  }
  program.bind_arena(arena_.data(), static_cast<int64_t>(arena_.bytes()));
  StepErrors errors;
  program.run(*queue_, Bindings(), Bindings(), inputs, {.errors = &errors}, node_seconds);
  int32_t node = -1;
  const Status status = errors.take(&node);
  if (!status.ok()) return node < 0 ? status : status.with_context(program.graph().nodes[static_cast<size_t>(node)].name);
  read();
  return {};
}

int64_t SessionRuntime::arena_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(arena_.bytes());
}

}  // namespace headrace::onnx

#include "onnx/runtime.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

Result<std::shared_ptr<const std::byte[]>> PackedStore::get(const std::byte* constant, std::string form, uint64_t bytes,
                                                           const std::function<void(std::byte*)>& pack) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const std::byte[]>& kept = kept_[{constant, std::move(form)}];
  if (auto found = kept.lock()) return found;
  HR_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(ledger_, Account::weights, model_, bytes));
  pack(buffer.data());
  const auto owner = std::make_shared<Buffer>(std::move(buffer));
  const std::shared_ptr<const std::byte[]> made(owner, owner->data());
  kept = made;
  return made;
}

SessionRuntime::SessionRuntime(std::shared_ptr<runtime::DeviceQueue> queue, std::string model, CompileOptions options)
    : queue_(std::move(queue)), model_(std::move(model)), options_(std::move(options)), packed_(queue_->ledger(), model_) {
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

#include "runtime/kv_pool.h"

#include <cstring>

namespace headrace::runtime {

Result<KvPool> KvPool::create(MemoryLedger& ledger, std::string model, std::vector<GroupSpec> groups) {
  KvPool pool;
  for (const GroupSpec& group : groups) {
    const uint64_t runs = (uint64_t(group.num_blocks) + kKvRunBlocks - 1) / kKvRunBlocks;
    const uint64_t bytes = runs * kKvRunBlocks * uint64_t(group.spec.block_bytes()) * group.num_layers;
    HR_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(ledger, Account::kv, model, bytes));
    pool.buffers_.push_back(std::move(buffer));
  }
  pool.groups_ = std::move(groups);
  return pool;
}

KvView KvPool::layer(int group, int index) const {
  const GroupSpec& spec = groups_[group];
  KvView view;
  view.spec = spec.spec;
  view.block_stride = spec.spec.block_bytes();
  view.run_stride = view.block_stride * kKvRunBlocks * spec.num_layers;
  view.num_blocks = spec.num_blocks;
  view.data = buffers_[group].data() + index * kKvRunBlocks * view.block_stride;
  return view;
}

void KvPool::copy_block(int group, int32_t from, int32_t to) {
  const GroupSpec& spec = groups_[group];
  for (int32_t index = 0; index < spec.num_layers; ++index) {
    const KvView view = layer(group, index);
    std::memcpy(view.key_block<std::byte>(to, 0), view.key_block<std::byte>(from, 0), static_cast<size_t>(spec.spec.block_bytes()));
  }
}

Status KvPool::copy_block(const Accelerator& accelerator, int group, int32_t from, int32_t to, void* stream) {
  const GroupSpec& spec = groups_[group];
  const KvView first = layer(group, 0);
  const auto pitch = static_cast<size_t>(first.block_stride * kKvRunBlocks);  // from a layer to the next of a run
  return accelerator.check(
      accelerator.plugin().copy_on_device(first.key_block<std::byte>(to, 0), pitch, first.key_block<std::byte>(from, 0), pitch,
                                          static_cast<size_t>(spec.spec.block_bytes()), static_cast<size_t>(spec.num_layers), stream),
      "copying a block");
}

uint64_t KvPool::bytes() const {
  uint64_t total = 0;
  for (const Buffer& buffer : buffers_) total += buffer.bytes();
  return total;
}

}  // namespace headrace::runtime

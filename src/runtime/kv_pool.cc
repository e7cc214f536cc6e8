#include "runtime/kv_pool.h"

namespace headrace::runtime {

Result<KvPool> KvPool::create(MemoryLedger& ledger, std::string model, std::vector<GroupSpec> groups) {
  KvPool pool;
  for (const GroupSpec& group : groups) {
    const uint64_t bytes = uint64_t(group.spec.block_bytes()) * group.num_layers * group.num_blocks;
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
  const int64_t layer_bytes = spec.spec.block_bytes();
  view.block_stride = layer_bytes * spec.num_layers;
  view.num_blocks = spec.num_blocks;
  view.keys = buffers_[group].data() + index * layer_bytes;
  view.values = view.keys + layer_bytes / 2;
  return view;
}

uint64_t KvPool::bytes() const {
  uint64_t total = 0;
  for (const Buffer& buffer : buffers_) total += buffer.bytes();
  return total;
}

}  // namespace headrace::runtime

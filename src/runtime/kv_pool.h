#pragma once
// The paged KV cache of one model on one device: per group a number of blocks, each with room for every layer of the group.
// It owns bytes only; which block belongs to whom is engine/block_manager.h's business.

#include <string>
#include <vector>

#include "base/status.h"
#include "core/buffer.h"
#include "core/kv_view.h"
#include "runtime/accelerator.h"

namespace headrace::runtime {

class KvPool {
 public:
  struct GroupSpec {
    KvSpec spec;
    int32_t num_layers = 0;
    int32_t num_blocks = 0;
  };
  // Memory is reserved now and touched as blocks are used. Errors: resource_exhausted.
  static Result<KvPool> create(MemoryLedger& ledger, std::string model, std::vector<GroupSpec> groups);

  // Layer `index` within its group.
  KvView layer(int group, int index) const;
  // Keys and values of block `from`, in all layers of the group, to block `to`.
  void copy_block(int group, int32_t from, int32_t to);
  // The same on the accelerator where the pool lies, in the order of `stream`. Errors: internal.
  Status copy_block(const Accelerator& accelerator, int group, int32_t from, int32_t to, void* stream);
  const std::vector<GroupSpec>& groups() const { return groups_; }
  uint64_t bytes() const;

 private:
  std::vector<GroupSpec> groups_;
  // One per group: [runs][layers][blocks of a run]. A run lies in one piece, so that the first blocks touch few (huge) pages;
  // in it a layer's blocks do, so that reading a context takes few translations of addresses. The last run is whole.
  std::vector<Buffer> buffers_;
};

}  // namespace headrace::runtime

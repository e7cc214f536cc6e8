#pragma once
// Hands out the KV cache in blocks of kKvBlockTokens tokens. Every KV group has a pool of its own with a reference count
// per block: one for each sequence whose table holds it, one for the prefix cache. A block with two references is full and
// never written again; sequences write only into blocks that are theirs alone. Block 0 is never handed out. Blocks may be
// given back while a submitted step still writes them: whoever gets them next is planned later, and steps run in order.
// A model without KV groups has no blocks: every sequence fits, and nothing is cached.
// Not thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "runtime/model_runner.h"

namespace headrace::engine {

constexpr int32_t blocks_for(int32_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

// The blocks of one group.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);
  int32_t size() const { return static_cast<int32_t>(references_.size()) - 1; }  // without block 0
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t references(int32_t block) const { return references_[block]; }
  int32_t allocate();  // with one reference; num_free() must not be 0
  void retain(int32_t block);
  void release(int32_t block);
  // `counted[block]` references were found. Errors: internal.
  Status check(std::span<const int32_t> counted) const;

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
};

class BlockManager {
 public:
  explicit BlockManager(std::span<const runtime::KvGroupInfo> groups, PrefixCache::Hash hash = PrefixCache::chain_hash);

  int num_groups() const { return static_cast<int>(pools_.size()); }
  // The most blocks that one sequence can hold.
  int32_t capacity() const;
  // Blocks that every group can still give, idle cache nodes evicted if need be.
  int32_t num_available() const;

  // Gives a waiting sequence the cached blocks that its ids begin with; its counts say how far they reach. At least one
  // token is left to compute.
  void attach_prefix(Sequence& sequence);
  // The tables of `sequence` hold `num_tokens` afterwards. False, with nothing changed, when the pools are short.
  bool grow(Sequence& sequence, int32_t num_tokens);
  // Keys and values of the first `num_tokens` are written and their ids known: full blocks enter the prefix cache. A block
  // that is there already replaces the sequence's own.
  void commit(Sequence& sequence, int32_t num_tokens);
  // Gives everything back; the counts of `sequence` go to zero.
  void free(Sequence& sequence);
  // Forgets all prefixes that no sequence uses.
  void clear_prefix_cache();

  int64_t num_blocks_total() const;   // over all groups
  int64_t num_blocks_used() const;    // by sequences or the cache
  int64_t num_blocks_cached() const;  // of them, by the cache alone

  // Recounts every reference from `sequences`, which must be all that hold blocks. Errors: internal, what was found.
  Status check(std::span<const SequencePtr> sequences) const;

 private:
  int32_t allocate(int group);

  std::vector<BlockPool> pools_;  // [group]
  PrefixCache cache_;
  std::vector<int32_t> node_blocks_;  // [group], scratch
};

}  // namespace headrace::engine

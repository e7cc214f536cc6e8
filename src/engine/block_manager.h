#pragma once
// Hands out the KV cache in blocks of kKvBlockTokens tokens. Every KV group has a pool of its own with a reference count
// per block: one for each sequence whose table holds it, one for the prefix cache. A block with two references is full and
// never written again; sequences write only into blocks that are theirs alone. Block 0 is never handed out. Blocks may be
// given back while a submitted step still writes them: whoever gets them next is planned later, and steps run in order.
// In a group with a window, a sequence gives up the blocks that lie wholly behind it: their entries in its table become 0. They stay
// in the prefix cache until the group needs the room, least recently used first; the cache then keeps the prefix without them.
// A model without KV groups has no blocks: every sequence fits, and nothing is cached.
// Not thread-safe.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "runtime/model_runner.h"

namespace headrace::engine {

// Keys and values of a group's block `from`, in all its layers, are to stand in `to` as well.
struct BlockCopy {
  int32_t group = 0, from = 0, to = 0;
};

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

// What fits into empty pools of these groups. Immutable.
class KvCapacity {
 public:
  // `max_uncommitted`: as BlockManager's.
  KvCapacity(std::span<const runtime::KvGroupInfo> groups, int32_t max_uncommitted)
      : groups_(groups.begin(), groups.end()), max_uncommitted_(max_uncommitted) {}
  // The most tokens that one sequence can have.
  int64_t tokens() const;
  // Whether `count` sequences of `num_tokens`, of which they share the first `num_shared`, fit, and a block more for each but one: so
  // much BlockManager::has_room_for wants.
  bool can_hold(int32_t count, int32_t num_tokens, int32_t num_shared) const;

 private:
  const std::vector<runtime::KvGroupInfo> groups_;
  const int32_t max_uncommitted_;
};

class BlockManager {
 public:
  // `max_uncommitted`: so many tokens of a sequence are computed at most and not yet committed: those of all steps in flight.
  BlockManager(std::span<const runtime::KvGroupInfo> groups, int32_t max_uncommitted, PrefixCache::Hash hash = PrefixCache::chain_hash);

  int num_groups() const { return static_cast<int>(pools_.size()); }
  // Whether all tokens of `sequence` fit beside those of `running` and one block more for each of these, cached blocks given up.
  bool has_room_for(const Sequence& sequence, std::span<const SequencePtr> running) const;

  // Gives a waiting sequence the cached blocks that its ids begin with, of the first `max_tokens` of them; its counts say how far
  // they reach. At least one token is left to compute.
  void attach_prefix(Sequence& sequence, int32_t max_tokens);
  // Gives a waiting sequence what `parent`, whose ids begin alike, holds of the first `num_tokens` committed tokens: full blocks are
  // shared, the rest of the last one is copied (take_copies; free() takes the copy back). False, with nothing changed, when that cannot
  // be.
  bool fork(const Sequence& parent, Sequence& child, int32_t num_tokens);
  // The copies that the next step must begin with; the list here is empty then.
  void take_copies(std::vector<BlockCopy>& copies);
  // The tables of `sequence` hold `num_tokens` afterwards. False, with nothing changed, when the pools are short.
  bool grow(Sequence& sequence, int32_t num_tokens);
  // Keys and values of the first `num_tokens` are written and their ids known: full blocks enter the prefix cache (a block that is
  // there already replaces the sequence's own), and those behind a window are given up.
  void commit(Sequence& sequence, int32_t num_tokens);
  // Gives everything back; the counts of `sequence` go to zero.
  void free(Sequence& sequence);
  // Forgets all prefixes that no sequence uses.
  void clear_prefix_cache();

  int64_t num_blocks_total() const;   // over all groups
  int64_t num_blocks_used() const;    // by sequences or the cache
  int64_t num_blocks_cached() const;  // of them, by the cache alone
  int32_t num_cached_prefixes() const { return cache_.num_nodes(); }
  // Over all groups: tokens of `sequence` that lie in blocks of its own tables, and the tokens that these have room for.
  struct Use {
    int64_t live_tokens = 0, slots = 0;
  };
  Use use_of(const Sequence& sequence) const;

  // Recounts every reference from `sequences`, which must be all that hold blocks. Errors: internal, what was found.
  Status check(std::span<const SequencePtr> sequences) const;

 private:
  // A block of a group with a window that the cache alone holds.
  struct IdleBlock {
    int32_t node, block;
    uint64_t stamp;
  };
  struct Group {
    BlockPool pool;
    int32_t window = 0;
    // Of a group with a window; the others' blocks are idle when their nodes are.
    int32_t num_idle = 0;
    std::deque<IdleBlock> idle;      // in order of release; entries whose stamp is not their block's do not count
    std::vector<uint64_t> stamps{};  // [block], of its last release
  };
  int32_t num_available(const Group& group) const;
  int32_t num_held(int group, const Sequence& sequence) const;
  bool is_idle(const Group& group, const IdleBlock& entry) const;
  void retain_cached(int group, int32_t block);
  void release(int group, int32_t block, int32_t node);
  bool drop_idle_block(int group);
  bool evict_node();
  int32_t allocate(int group);
  void share(Sequence& sequence, std::span<const int32_t> nodes);
  bool cache_block(Sequence& sequence);
  void release_behind_window(Sequence& sequence);

  const int32_t max_uncommitted_;
  std::vector<Group> pools_;
  PrefixCache cache_;
  std::vector<BlockCopy> copies_;
  uint64_t num_releases_ = 0;
  std::vector<int32_t> node_blocks_;  // [group], scratch
  std::vector<int32_t> chain_;        // nodes, scratch
};

}  // namespace headrace::engine

#include "engine/block_manager.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace headrace::engine {
namespace {

PrefixCache::Tokens block_tokens(const Sequence& sequence, size_t block) {
  return PrefixCache::Tokens(sequence.ids.data() + block * kKvBlockTokens, kKvBlockTokens);
}

int32_t last_node(const Sequence& sequence) {
  return sequence.cache_nodes.empty() ? PrefixCache::kNoNode : sequence.cache_nodes.back();
}

// The first block that the token at position `num_tokens` and those after it still see.
int32_t first_live_block(int32_t window, int32_t num_tokens) {
  return window == 0 ? 0 : std::max(0, num_tokens - window + 1) / kKvBlockTokens;
}

// The most blocks that a sequence of `num_tokens` holds at once from now on, when `num_computed` of them are computed.
int32_t blocks_wanted(int32_t window, int32_t num_tokens, int32_t num_computed, int32_t max_uncommitted) {
  const int32_t live = kv_blocks_for(num_tokens) - first_live_block(window, num_computed);
  return window == 0 ? live : std::min(live, kv_window_blocks(window, max_uncommitted));
}

}  // namespace

BlockPool::BlockPool(int32_t num_blocks) : references_(static_cast<size_t>(num_blocks), 0) {
  CHECK(num_blocks >= 1);
  free_.resize(static_cast<size_t>(num_blocks) - 1);
  std::iota(free_.rbegin(), free_.rend(), 1);  // block 1 is the first to go
}

int32_t BlockPool::allocate() {
  CHECK(!free_.empty());
  const int32_t block = free_.back();
  free_.pop_back();
  references_[block] = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  CHECK(references_[block] > 0);
  ++references_[block];
}

void BlockPool::release(int32_t block) {
  CHECK(references_[block] > 0);
  if (--references_[block] == 0) free_.push_back(block);
}

Status BlockPool::check(std::span<const int32_t> counted) const {
  if (counted[0] != 0 || references_[0] != 0) return make_status(Code::internal, "block 0 was handed out");
  size_t unreferenced = 0;
  for (size_t block = 1; block < references_.size(); ++block) {
    if (counted[block] != references_[block]) {
      return make_status(Code::internal, "block {}: {} references held, {} counted", block, counted[block],
                         references_[block]);
    }
    unreferenced += references_[block] == 0 ? 1 : 0;
  }
  std::vector<char> is_free(references_.size(), 0);
  for (const int32_t block : free_) {
    if (references_[block] != 0 || is_free[block]) {
      return make_status(Code::internal, "block {} is in use or twice in the free list", block);
    }
    is_free[block] = 1;
  }
  if (unreferenced != free_.size()) {
    return make_status(Code::internal, "{} blocks without a reference, {} in the free list", unreferenced, free_.size());
  }
  return {};
}

BlockManager::BlockManager(std::span<const runtime::KvGroupInfo> groups, int32_t max_uncommitted, PrefixCache::Hash hash)
    : max_uncommitted_(max_uncommitted), cache_(static_cast<int>(groups.size()), hash), node_blocks_(groups.size()) {
  for (const runtime::KvGroupInfo& group : groups) {
    pools_.push_back({.pool = BlockPool(group.num_blocks), .window = group.spec.window});
    pools_.back().stamps.resize(static_cast<size_t>(group.num_blocks));
  }
}

// ---- How much there is

int32_t BlockManager::num_available(const Group& group) const {
  return group.pool.num_free() + (group.window == 0 ? cache_.num_idle() : group.num_idle);
}

int32_t BlockManager::num_held(int group, const Sequence& sequence) const {
  if (sequence.block_tables.empty()) return 0;
  const std::vector<int32_t>& table = sequence.block_tables[group];
  if (pools_[group].window == 0) return static_cast<int32_t>(table.size());
  const auto behind = std::find(table.rbegin(), table.rend(), 0);
  return static_cast<int32_t>(behind - table.rbegin());
}

int64_t KvCapacity::tokens() const {
  int64_t tokens = std::numeric_limits<int32_t>::max();
  for (const runtime::KvGroupInfo& group : groups_) {
    const int32_t blocks = group.num_blocks - 1, window = group.spec.window;
    if (window > 0 && blocks >= kv_window_blocks(window, max_uncommitted_)) continue;
    tokens = std::min(tokens, int64_t{blocks} * kKvBlockTokens);
  }
  return tokens;
}

bool KvCapacity::can_hold(int32_t count, int32_t num_tokens, int32_t num_shared) const {
  return std::ranges::all_of(groups_, [&](const runtime::KvGroupInfo& group) {
    const int32_t window = group.spec.window;
    const int64_t shared = window == 0 ? num_shared / kKvBlockTokens : 0;
    const int64_t own = blocks_wanted(window, num_tokens, 0, max_uncommitted_) - shared;
    return shared + count * own + (count - 1) <= group.num_blocks - 1;
  });
}

bool BlockManager::has_room_for(const Sequence& sequence, std::span<const SequencePtr> running) const {
  for (size_t g = 0; g < pools_.size(); ++g) {
    const auto missing = [&](const Sequence& s) {
      return blocks_wanted(pools_[g].window, s.num_tokens(), s.num_computed_tokens, max_uncommitted_) - num_held(static_cast<int>(g), s);
    };
    int64_t promised = missing(sequence);
    for (const SequencePtr& other : running) promised += std::max(0, missing(*other)) + 1;
    if (promised > num_available(pools_[g])) return false;
  }
  return true;
}

// ---- References

bool BlockManager::is_idle(const Group& group, const IdleBlock& entry) const { return group.stamps[entry.block] == entry.stamp; }

// One more sequence holds a block of the cache.
void BlockManager::retain_cached(int g, int32_t block) {
  Group& group = pools_[g];
  if (group.window > 0 && group.pool.references(block) == 1) {
    --group.num_idle;
    group.stamps[block] = 0;
  }
  group.pool.retain(block);
}

// A sequence gives a block back; `node` holds it too, or is kNoNode.
void BlockManager::release(int g, int32_t block, int32_t node) {
  Group& group = pools_[g];
  group.pool.release(block);
  if (group.window == 0 || node == PrefixCache::kNoNode || group.pool.references(block) != 1) return;
  ++group.num_idle;
  group.stamps[block] = ++num_releases_;
  group.idle.push_back({node, block, num_releases_});
  if (group.idle.size() > 2 * group.stamps.size()) {
    std::erase_if(group.idle, [&](const IdleBlock& entry) { return !is_idle(group, entry); });
  }
}

// The prefix cache goes on without the block that nothing has used for the longest time.
bool BlockManager::drop_idle_block(int g) {
  Group& group = pools_[g];
  while (!group.idle.empty()) {
    const IdleBlock entry = group.idle.front();
    group.idle.pop_front();
    if (!is_idle(group, entry)) continue;
    cache_.set_block(entry.node, g, 0);
    group.stamps[entry.block] = 0;
    --group.num_idle;
    group.pool.release(entry.block);
    return true;
  }
  return false;
}

bool BlockManager::evict_node() {
  if (!cache_.evict(node_blocks_)) return false;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const int32_t block = node_blocks_[g];
    if (block == 0) continue;
    if (pools_[g].window > 0) {
      --pools_[g].num_idle;
      pools_[g].stamps[block] = 0;
    }
    pools_[g].pool.release(block);
  }
  return true;
}

int32_t BlockManager::allocate(int g) {
  if (pools_[g].pool.num_free() == 0) CHECK(pools_[g].window > 0 ? drop_idle_block(g) : evict_node());
  return pools_[g].pool.allocate();
}

// ---- What a sequence holds

// The chain of `nodes` becomes the beginning of a sequence that holds nothing.
void BlockManager::share(Sequence& sequence, std::span<const int32_t> nodes) {
  const int32_t num_tokens = static_cast<int32_t>(nodes.size()) * kKvBlockTokens;
  for (const int32_t node : nodes) cache_.acquire(node);
  sequence.cache_nodes.assign(nodes.begin(), nodes.end());
  for (size_t g = 0; g < pools_.size(); ++g) {
    std::vector<int32_t>& table = sequence.block_tables[g];
    table.assign(nodes.size(), 0);
    for (size_t i = static_cast<size_t>(first_live_block(pools_[g].window, num_tokens)); i < nodes.size(); ++i) {
      table[i] = cache_.blocks(nodes[i])[g];
      retain_cached(static_cast<int>(g), table[i]);
    }
  }
  sequence.num_computed_tokens = sequence.num_committed_tokens = num_tokens;
}

void BlockManager::attach_prefix(Sequence& sequence, int32_t max_tokens) {
  CHECK(sequence.state == SequenceState::waiting && sequence.cache_nodes.empty());
  sequence.block_tables.resize(pools_.size());
  if (pools_.empty()) return;
  const size_t limit = static_cast<size_t>(std::min(max_tokens, static_cast<int32_t>(sequence.ids.size()) - 1)) / kKvBlockTokens;
  chain_.clear();
  size_t usable = 0;  // the longest beginning of the chain whose windows are there
  std::vector<size_t> last_gap(pools_.size(), 0);  // [group]: blocks from here to the end of the chain are there
  while (chain_.size() < limit) {
    const int32_t parent = chain_.empty() ? PrefixCache::kNoNode : chain_.back();
    const int32_t node = cache_.find(parent, block_tokens(sequence, chain_.size()), sequence.cache_key);
    if (node == PrefixCache::kNoNode) break;
    chain_.push_back(node);
    bool complete = true;
    for (size_t g = 0; g < pools_.size(); ++g) {
      if (cache_.blocks(node)[g] == 0) last_gap[g] = chain_.size();
      const int32_t tokens = static_cast<int32_t>(chain_.size()) * kKvBlockTokens;
      complete = complete && last_gap[g] <= static_cast<size_t>(first_live_block(pools_[g].window, tokens));
    }
    if (complete) usable = chain_.size();
  }
  share(sequence, std::span(chain_).first(usable));
}

bool BlockManager::fork(const Sequence& parent, Sequence& child, int32_t num_tokens) {
  CHECK(child.state == SequenceState::waiting && child.cache_nodes.empty());
  const size_t full = static_cast<size_t>(num_tokens / kKvBlockTokens);
  const bool copies = num_tokens % kKvBlockTokens != 0;
  if (pools_.empty() || parent.num_committed_tokens < num_tokens || parent.cache_nodes.size() < full) return false;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const int32_t first = std::min(first_live_block(pools_[g].window, static_cast<int32_t>(full) * kKvBlockTokens), static_cast<int32_t>(full));
    const auto needed = std::span(parent.block_tables[g]).first(full + (copies ? 1 : 0)).subspan(static_cast<size_t>(first));
    if (std::ranges::find(needed, 0) != needed.end()) return false;  // the parent has left it behind its window
    if (copies && num_available(pools_[g]) == 0) return false;
  }
  child.block_tables.resize(pools_.size());
  share(child, std::span(parent.cache_nodes).first(full));
  if (!copies) return true;
  for (size_t g = 0; g < pools_.size(); ++g) {
    child.block_tables[g].push_back(allocate(static_cast<int>(g)));
    copies_.push_back({static_cast<int32_t>(g), parent.block_tables[g][full], child.block_tables[g][full]});
  }
  child.num_computed_tokens = child.num_committed_tokens = num_tokens;
  return true;
}

void BlockManager::take_copies(std::vector<BlockCopy>& copies) {
  copies.clear();
  copies.swap(copies_);
}

bool BlockManager::grow(Sequence& sequence, int32_t num_tokens) {
  const size_t wanted = static_cast<size_t>(kv_blocks_for(num_tokens));
  for (size_t g = 0; g < pools_.size(); ++g) {
    const size_t held = sequence.block_tables[g].size();
    if (wanted > held && wanted - held > static_cast<size_t>(num_available(pools_[g]))) return false;
  }
  for (size_t g = 0; g < pools_.size(); ++g) {
    std::vector<int32_t>& table = sequence.block_tables[g];
    while (table.size() < wanted) table.push_back(allocate(static_cast<int>(g)));
  }
  return true;
}

void BlockManager::commit(Sequence& sequence, int32_t num_tokens) {
  sequence.num_committed_tokens = num_tokens;
  if (pools_.empty()) return;
  const size_t full_blocks = static_cast<size_t>(num_tokens / kKvBlockTokens);
  while (sequence.cache_nodes.size() < full_blocks && cache_block(sequence)) {
  }
  release_behind_window(sequence);
}

// The first full block that is not in the prefix cache enters it. False: another prefix has its hash, or it was given up before,
// and the rest of the chain stays the sequence's own.
bool BlockManager::cache_block(Sequence& sequence) {
  // Where all groups have windows, nodes can outlive their blocks: there are never more than blocks.
  while (cache_.num_nodes() >= num_blocks_total() && evict_node()) {
  }
  const size_t block = sequence.cache_nodes.size();
  const int32_t parent = last_node(sequence);
  const PrefixCache::Tokens tokens = block_tokens(sequence, block);
  for (size_t g = 0; g < pools_.size(); ++g) node_blocks_[g] = sequence.block_tables[g][block];
  if (std::ranges::find(node_blocks_, 0) != node_blocks_.end()) return false;
  int32_t node = cache_.find(parent, tokens, sequence.cache_key);
  const bool known = node != PrefixCache::kNoNode;
  if (known) {
    cache_.acquire(node);
  } else {
    node = cache_.insert(parent, tokens, sequence.cache_key, node_blocks_);
    if (node == PrefixCache::kNoNode) return false;
  }
  for (size_t g = 0; g < pools_.size(); ++g) {
    const int32_t cached = cache_.blocks(node)[g], own = node_blocks_[g];
    if (known && cached != 0) {
      retain_cached(static_cast<int>(g), cached);
      pools_[g].pool.release(own);
      sequence.block_tables[g][block] = cached;
    } else {
      cache_.set_block(node, static_cast<int>(g), own);
      pools_[g].pool.retain(own);
    }
  }
  sequence.cache_nodes.push_back(node);
  return true;
}

void BlockManager::release_behind_window(Sequence& sequence) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    std::vector<int32_t>& table = sequence.block_tables[g];
    for (int32_t i = first_live_block(pools_[g].window, sequence.num_committed_tokens) - 1; i >= 0 && table[i] != 0; --i) {
      const bool cached = static_cast<size_t>(i) < sequence.cache_nodes.size();
      release(static_cast<int>(g), std::exchange(table[i], 0), cached ? sequence.cache_nodes[i] : PrefixCache::kNoNode);
    }
  }
}

void BlockManager::free(Sequence& sequence) {
  for (size_t g = 0; g < sequence.block_tables.size(); ++g) {
    std::vector<int32_t>& table = sequence.block_tables[g];
    for (size_t i = table.size(); i-- > 0 && table[i] != 0;) {
      release(static_cast<int>(g), table[i], i < sequence.cache_nodes.size() ? sequence.cache_nodes[i] : PrefixCache::kNoNode);
    }
    std::erase_if(copies_, [&](const BlockCopy& copy) {
      return copy.group == static_cast<int32_t>(g) && pools_[g].pool.references(copy.to) == 0;
    });
    table.clear();
  }
  while (!sequence.cache_nodes.empty()) {
    cache_.release(sequence.cache_nodes.back());
    sequence.cache_nodes.pop_back();
  }
  sequence.num_computed_tokens = sequence.num_committed_tokens = 0;
}

void BlockManager::clear_prefix_cache() {
  while (evict_node()) {
  }
  for (size_t g = 0; g < pools_.size(); ++g) {
    while (drop_idle_block(static_cast<int>(g))) {
    }
  }
}

// ---- Figures

int64_t BlockManager::num_blocks_total() const {
  int64_t blocks = 0;
  for (const Group& group : pools_) blocks += group.pool.size();
  return blocks;
}

int64_t BlockManager::num_blocks_used() const {
  int64_t blocks = 0;
  for (const Group& group : pools_) blocks += group.pool.size() - group.pool.num_free();
  return blocks;
}

int64_t BlockManager::num_blocks_cached() const {
  int64_t blocks = 0;
  for (const Group& group : pools_) blocks += group.window == 0 ? cache_.num_idle() : group.num_idle;
  return blocks;
}

BlockManager::Use BlockManager::use_of(const Sequence& sequence) const {
  Use use;
  for (size_t g = 0; g < sequence.block_tables.size(); ++g) {
    const int32_t held = num_held(static_cast<int>(g), sequence);
    const int32_t behind = static_cast<int32_t>(sequence.block_tables[g].size()) - held;
    use.live_tokens += sequence.num_computed_tokens - behind * kKvBlockTokens;
    use.slots += int64_t{held} * kKvBlockTokens;
  }
  return use;
}

Status BlockManager::check(std::span<const SequencePtr> sequences) const {
  HR_RETURN_IF_ERROR(cache_.check());
  for (size_t g = 0; g < pools_.size(); ++g) {
    const Group& group = pools_[g];
    std::vector<int32_t> counted(static_cast<size_t>(group.pool.size()) + 1, 0);
    cache_.for_each([&](int32_t node) { counted[cache_.blocks(node)[g]] += cache_.blocks(node)[g] != 0 ? 1 : 0; });
    const std::vector<int32_t> in_cache = counted;
    for (const SequencePtr& sequence : sequences) {
      const std::vector<int32_t>& table = sequence->block_tables[g];
      const int32_t live = first_live_block(group.window, sequence->num_committed_tokens);
      for (size_t i = 0; i < table.size(); ++i) {
        if (table[i] == 0 && static_cast<int32_t>(i) < live) continue;
        ++counted[table[i]];
        const bool shared = i < sequence->cache_nodes.size();
        if (shared ? cache_.blocks(sequence->cache_nodes[i])[g] != table[i] : group.pool.references(table[i]) != 1) {
          return make_status(Code::internal, "request {} choice {}: block {} of group {} is {}", sequence->rank.request,
                             sequence->rank.choice, i, g, shared ? "not its cache node's" : "shared and writable");
        }
      }
    }
    HR_RETURN_IF_ERROR(group.pool.check(counted).with_context(fmt::format("group {}", g)));
    int32_t idle = 0;
    for (size_t block = 1; block < counted.size(); ++block) idle += in_cache[block] == 1 && counted[block] == 1 ? 1 : 0;
    const auto listed = std::ranges::count_if(group.idle, [&](const IdleBlock& entry) { return is_idle(group, entry); });
    if (group.window > 0 && (idle != group.num_idle || idle != listed)) {
      return make_status(Code::internal, "group {}: {} blocks are the cache's alone, {} counted, {} listed", g, idle, group.num_idle, listed);
    }
  }
  int64_t held = 0, used = 0;
  for (const SequencePtr& sequence : sequences) held += static_cast<int64_t>(sequence->cache_nodes.size());
  cache_.for_each([&](int32_t node) { used += cache_.num_users(node); });
  if (held != used) return make_status(Code::internal, "prefix cache: {} users, {} sequences hold a node", used, held);
  return {};
}

}  // namespace headrace::engine

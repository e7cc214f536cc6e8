#include "engine/block_manager.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace headrace::engine {
namespace {

PrefixCache::Tokens block_tokens(const Sequence& sequence, size_t block) {
  return PrefixCache::Tokens(sequence.ids.data() + block * kKvBlockTokens, kKvBlockTokens);
}

int32_t last_node(const Sequence& sequence) {
  return sequence.cache_nodes.empty() ? PrefixCache::kNoNode : sequence.cache_nodes.back();
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

BlockManager::BlockManager(std::span<const runtime::KvGroupInfo> groups, PrefixCache::Hash hash)
    : cache_(static_cast<int>(groups.size()), hash), node_blocks_(groups.size()) {
  for (const runtime::KvGroupInfo& group : groups) pools_.emplace_back(group.num_blocks);
}

int32_t BlockManager::capacity() const {
  int32_t blocks = std::numeric_limits<int32_t>::max();
  for (const BlockPool& pool : pools_) blocks = std::min(blocks, pool.size());
  return blocks;
}

int32_t BlockManager::num_available() const {
  int32_t blocks = std::numeric_limits<int32_t>::max();
  for (const BlockPool& pool : pools_) blocks = std::min(blocks, pool.num_free() + cache_.num_idle());
  return blocks;
}

void BlockManager::attach_prefix(Sequence& sequence) {
  CHECK(sequence.state == SequenceState::waiting && sequence.cache_nodes.empty());
  sequence.block_tables.resize(pools_.size());
  const size_t reusable_blocks = (sequence.ids.size() - 1) / kKvBlockTokens;
  for (size_t block = 0; block < reusable_blocks; ++block) {
    const int32_t node = cache_.find(last_node(sequence), block_tokens(sequence, block), sequence.cache_key);
    if (node == PrefixCache::kNoNode) break;
    cache_.acquire(node);
    sequence.cache_nodes.push_back(node);
    for (size_t group = 0; group < pools_.size(); ++group) {
      const int32_t cached = cache_.blocks(node)[group];
      pools_[group].retain(cached);
      sequence.block_tables[group].push_back(cached);
    }
  }
  sequence.num_computed_tokens = static_cast<int32_t>(sequence.cache_nodes.size()) * kKvBlockTokens;
  sequence.num_committed_tokens = sequence.num_computed_tokens;
}

bool BlockManager::grow(Sequence& sequence, int32_t num_tokens) {
  const size_t wanted = static_cast<size_t>(blocks_for(num_tokens));
  for (size_t group = 0; group < pools_.size(); ++group) {
    const size_t held = sequence.block_tables[group].size();
    const size_t available = static_cast<size_t>(pools_[group].num_free() + cache_.num_idle());
    if (wanted > held && wanted - held > available) return false;
  }
  for (size_t group = 0; group < pools_.size(); ++group) {
    std::vector<int32_t>& table = sequence.block_tables[group];
    while (table.size() < wanted) table.push_back(allocate(static_cast<int>(group)));
  }
  return true;
}

int32_t BlockManager::allocate(int group) {
  if (pools_[group].num_free() == 0) {
    CHECK(cache_.evict(node_blocks_));
    for (size_t g = 0; g < pools_.size(); ++g) pools_[g].release(node_blocks_[g]);
  }
  return pools_[group].allocate();
}

void BlockManager::commit(Sequence& sequence, int32_t num_tokens) {
  sequence.num_committed_tokens = num_tokens;
  if (pools_.empty()) return;
  const size_t full_blocks = static_cast<size_t>(num_tokens / kKvBlockTokens);
  for (size_t block = sequence.cache_nodes.size(); block < full_blocks; ++block) {
    const int32_t parent = last_node(sequence);
    const PrefixCache::Tokens tokens = block_tokens(sequence, block);
    int32_t node = cache_.find(parent, tokens, sequence.cache_key);
    if (node != PrefixCache::kNoNode) {
      cache_.acquire(node);
      for (size_t group = 0; group < pools_.size(); ++group) {
        int32_t& own = sequence.block_tables[group][block];
        const int32_t cached = cache_.blocks(node)[group];
        pools_[group].retain(cached);
        pools_[group].release(own);
        own = cached;
      }
    } else {
      for (size_t group = 0; group < pools_.size(); ++group) node_blocks_[group] = sequence.block_tables[group][block];
      node = cache_.insert(parent, tokens, sequence.cache_key, node_blocks_);
      if (node == PrefixCache::kNoNode) return;  // another prefix has this hash: the rest of the chain stays private
      for (size_t group = 0; group < pools_.size(); ++group) pools_[group].retain(node_blocks_[group]);
    }
    sequence.cache_nodes.push_back(node);
  }
}

void BlockManager::free(Sequence& sequence) {
  for (size_t group = 0; group < sequence.block_tables.size(); ++group) {
    for (const int32_t block : sequence.block_tables[group]) pools_[group].release(block);
    sequence.block_tables[group].clear();
  }
  while (!sequence.cache_nodes.empty()) {
    cache_.release(sequence.cache_nodes.back());
    sequence.cache_nodes.pop_back();
  }
  sequence.num_computed_tokens = sequence.num_committed_tokens = 0;
}

void BlockManager::clear_prefix_cache() {
  while (cache_.evict(node_blocks_)) {
    for (size_t group = 0; group < pools_.size(); ++group) pools_[group].release(node_blocks_[group]);
  }
}

int64_t BlockManager::num_blocks_total() const {
  int64_t blocks = 0;
  for (const BlockPool& pool : pools_) blocks += pool.size();
  return blocks;
}

int64_t BlockManager::num_blocks_used() const {
  int64_t blocks = 0;
  for (const BlockPool& pool : pools_) blocks += pool.size() - pool.num_free();
  return blocks;
}

int64_t BlockManager::num_blocks_cached() const { return int64_t{cache_.num_idle()} * num_groups(); }

Status BlockManager::check(std::span<const SequencePtr> sequences) const {
  HR_RETURN_IF_ERROR(cache_.check());
  for (size_t group = 0; group < pools_.size(); ++group) {
    std::vector<int32_t> counted(static_cast<size_t>(pools_[group].size()) + 1, 0);
    cache_.for_each([&](int32_t node) { ++counted[cache_.blocks(node)[group]]; });
    for (const SequencePtr& sequence : sequences) {
      const std::vector<int32_t>& table = sequence->block_tables[group];
      for (const int32_t block : table) ++counted[block];
      for (size_t i = 0; i < table.size(); ++i) {
        const bool shared = i < sequence->cache_nodes.size();
        if (shared ? cache_.blocks(sequence->cache_nodes[i])[group] != table[i] : pools_[group].references(table[i]) != 1) {
          return make_status(Code::internal, "request {} choice {}: block {} of group {} is {}", sequence->rank.request,
                             sequence->rank.choice, i, group, shared ? "not its cache node's" : "shared and writable");
        }
      }
    }
    HR_RETURN_IF_ERROR(pools_[group].check(counted).with_context(fmt::format("group {}", group)));
  }
  int64_t held = 0, used = 0;
  for (const SequencePtr& sequence : sequences) held += static_cast<int64_t>(sequence->cache_nodes.size());
  cache_.for_each([&](int32_t node) { used += cache_.num_users(node); });
  if (held != used) return make_status(Code::internal, "prefix cache: {} users, {} sequences hold a node", used, held);
  return {};
}

}  // namespace headrace::engine

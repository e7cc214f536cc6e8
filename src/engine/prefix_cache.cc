#include "engine/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace headrace::engine {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t PrefixCache::chain_hash(uint64_t parent, Tokens tokens, std::string_view key) {
  uint64_t hash = mix(parent + 0x9e3779b97f4a7c15u);
  for (const int32_t token : tokens) hash = mix(hash + static_cast<uint32_t>(token) + 0x9e3779b97f4a7c15u);
  for (const char c : key) hash = mix(hash + static_cast<unsigned char>(c) + 1);
  return hash;
}

PrefixCache::PrefixCache(int num_groups, Hash hash) : num_groups_(num_groups), hash_(hash) {}

uint64_t PrefixCache::hash_of(int32_t parent, Tokens tokens, std::string_view key) const {
  return parent == kNoNode ? hash_(0, tokens, key) : hash_(nodes_[parent].hash, tokens, {});
}

int32_t PrefixCache::find(int32_t parent, Tokens tokens, std::string_view key) const {
  const auto found = by_hash_.find(hash_of(parent, tokens, key));
  if (found == by_hash_.end()) return kNoNode;
  const Node& node = nodes_[found->second];
  const bool same = node.parent == parent && std::ranges::equal(node.tokens, tokens) &&
                    (parent != kNoNode || node.key == key);
  return same ? found->second : kNoNode;
}

int32_t PrefixCache::insert(int32_t parent, Tokens tokens, std::string_view key, std::span<const int32_t> blocks) {
  CHECK(blocks.size() == static_cast<size_t>(num_groups_));
  CHECK(parent == kNoNode || nodes_[parent].users > 0);
  const uint64_t hash = hash_of(parent, tokens, key);
  if (by_hash_.contains(hash)) return kNoNode;

  int32_t id = static_cast<int32_t>(nodes_.size());
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
    blocks_.resize(nodes_.size() * num_groups_);
  } else {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  }
  Node& node = nodes_[id];
  node = Node{.hash = hash, .parent = parent, .users = 1};
  std::ranges::copy(tokens, node.tokens.begin());
  if (parent == kNoNode) {
    node.key = key;
  } else {
    ++nodes_[parent].children;
  }
  std::ranges::copy(blocks, blocks_.begin() + static_cast<ptrdiff_t>(id) * num_groups_);
  by_hash_.emplace(hash, id);
  return id;
}

void PrefixCache::acquire(int32_t node) {
  if (nodes_[node].users++ == 0) unlink_idle(node);
}

void PrefixCache::release(int32_t node) {
  CHECK(nodes_[node].users > 0);
  if (--nodes_[node].users == 0) append_idle(node);
}

bool PrefixCache::evict(std::span<int32_t> out) {
  if (oldest_idle_ == kNoNode) return false;
  const int32_t id = oldest_idle_;
  unlink_idle(id);
  Node& node = nodes_[id];
  CHECK(node.children == 0);
  if (node.parent != kNoNode) --nodes_[node.parent].children;
  by_hash_.erase(node.hash);
  std::ranges::copy(blocks(id), out.begin());
  node = Node{};
  free_nodes_.push_back(id);
  return true;
}

void PrefixCache::append_idle(int32_t id) {
  Node& node = nodes_[id];
  node.older = newest_idle_;
  node.newer = kNoNode;
  (newest_idle_ == kNoNode ? oldest_idle_ : nodes_[newest_idle_].newer) = id;
  newest_idle_ = id;
  ++num_idle_;
}

void PrefixCache::unlink_idle(int32_t id) {
  Node& node = nodes_[id];
  (node.older == kNoNode ? oldest_idle_ : nodes_[node.older].newer) = node.newer;
  (node.newer == kNoNode ? newest_idle_ : nodes_[node.newer].older) = node.older;
  node.older = node.newer = kNoNode;
  --num_idle_;
}

Status PrefixCache::check() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int32_t idle = 0;
  for (const auto& [hash, id] : by_hash_) {
    const Node& node = nodes_[id];
    if (node.hash != hash) return make_status(Code::internal, "prefix cache: node {} lies under another hash", id);
    idle += node.users == 0 ? 1 : 0;
    if (node.parent == kNoNode) continue;
    ++children[node.parent];
    if (nodes_[node.parent].users < node.users) {
      return make_status(Code::internal, "prefix cache: node {} has {} users, its parent {}", id, node.users,
                         nodes_[node.parent].users);
    }
  }
  for (const auto& [hash, id] : by_hash_) {
    if (children[id] != nodes_[id].children) {
      return make_status(Code::internal, "prefix cache: node {} counts {} children, has {}", id, nodes_[id].children,
                         children[id]);
    }
  }
  int32_t listed = 0;
  std::vector<char> seen(nodes_.size(), 0);
  for (int32_t id = oldest_idle_; id != kNoNode && listed <= num_idle_; id = nodes_[id].newer, ++listed) {
    const int32_t parent = nodes_[id].parent;
    if (nodes_[id].users != 0 || seen[id] || (parent != kNoNode && seen[parent])) {
      return make_status(Code::internal, "prefix cache: idle node {} is in use, listed twice or behind its parent", id);
    }
    seen[id] = 1;
  }
  if (listed != num_idle_ || idle != num_idle_) {
    return make_status(Code::internal, "prefix cache: {} idle nodes, {} listed, {} counted", idle, listed, num_idle_);
  }
  return {};
}

}  // namespace headrace::engine

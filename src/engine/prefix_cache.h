#pragma once
// Finds the KV blocks of a prompt's beginning that some sequence has computed before. A tree of nodes, one for each full
// block of tokens; a node is found through a hash chained from its parent's and then verified: same parent, same tokens,
// same key bytes, so a collision costs a miss and never a wrong prefix. Nodes that no sequence uses are kept, least
// recently used first to go. Knows block numbers only as numbers; 0 is none. Not thread-safe.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "core/kv_view.h"

namespace headrace::engine {

class PrefixCache {
 public:
  static constexpr int32_t kNoNode = -1;
  using Tokens = std::span<const int32_t, kKvBlockTokens>;
  using Hash = uint64_t (*)(uint64_t parent, Tokens tokens, std::string_view key);
  static uint64_t chain_hash(uint64_t parent, Tokens tokens, std::string_view key);

  explicit PrefixCache(int num_groups, Hash hash = chain_hash);

  // The child of `parent` (kNoNode: a prompt's first block) that holds `tokens`, or kNoNode. `key` separates tenants and
  // adapters: it counts at the first block, and through it for all that follow.
  int32_t find(int32_t parent, Tokens tokens, std::string_view key) const;
  // A new node with one user; `blocks` holds one block of each group. kNoNode when its hash is taken by another node.
  // `parent` must be in use; find() must have given kNoNode.
  int32_t insert(int32_t parent, Tokens tokens, std::string_view key, std::span<const int32_t> blocks);

  // A sequence that uses a node uses its parents too, and releases the deepest first.
  void acquire(int32_t node);
  void release(int32_t node);

  std::span<const int32_t> blocks(int32_t node) const {
    return {blocks_.data() + static_cast<size_t>(node) * num_groups_, static_cast<size_t>(num_groups_)};
  }
  // The node goes on without its block of a group (0), or gets one again.
  void set_block(int32_t node, int group, int32_t block) { blocks_[static_cast<size_t>(node) * num_groups_ + group] = block; }
  int32_t num_users(int32_t node) const { return nodes_[node].users; }
  int32_t num_nodes() const { return static_cast<int32_t>(by_hash_.size()); }
  int32_t num_idle() const { return num_idle_; }  // nodes without a user

  // Drops the idle node that was used longest ago and writes its blocks; false when no node is idle.
  bool evict(std::span<int32_t> blocks);

  // Calls fn(node) for every node.
  template <class Fn>
  void for_each(Fn fn) const {
    for (const auto& [hash, node] : by_hash_) fn(node);
  }
  // Recounts children, users above users, and the idle list. Errors: internal, with the first contradiction.
  Status check() const;

 private:
  struct Node {
    uint64_t hash = 0;
    int32_t parent = kNoNode;
    int32_t users = 0;
    int32_t children = 0;
    int32_t older = kNoNode, newer = kNoNode;  // neighbours in the idle list
    std::array<int32_t, kKvBlockTokens> tokens{};
    std::string key;  // of first blocks only
  };
  uint64_t hash_of(int32_t parent, Tokens tokens, std::string_view key) const;
  void append_idle(int32_t node);
  void unlink_idle(int32_t node);

  const int num_groups_;
  const Hash hash_;
  std::vector<Node> nodes_;
  std::vector<int32_t> blocks_;     // [node][group]
  std::vector<int32_t> free_nodes_;  // entries of nodes_ to use again
  std::unordered_map<uint64_t, int32_t> by_hash_;
  // Idle nodes in order of release. A node is released before its parents and acquired with them, so in this list a
  // child always stands before its parent: the oldest idle node has no children.
  int32_t oldest_idle_ = kNoNode, newest_idle_ = kNoNode;
  int32_t num_idle_ = 0;
};

}  // namespace headrace::engine

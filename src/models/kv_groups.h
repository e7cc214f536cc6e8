#pragma once
// Layers whose KV asks are equal form a group with one block table. Groups are numbered in order of first appearance; the
// step program, the pool and the scheduler all number them by this function.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_view.h"

namespace headrace::models {

inline std::vector<int32_t> group_of_layer(std::span<const KvSpec> layer_kv) {
  std::vector<KvSpec> specs;
  std::vector<int32_t> groups;
  for (const KvSpec& spec : layer_kv) {
    const auto found = std::find(specs.begin(), specs.end(), spec);
    groups.push_back(static_cast<int32_t>(found - specs.begin()));
    if (found == specs.end()) specs.push_back(spec);
  }
  return groups;
}

}  // namespace headrace::models

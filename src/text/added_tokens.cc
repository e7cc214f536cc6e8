#include "text/added_tokens.h"

#include <fmt/core.h>

#include <utility>

namespace headrace::text {

Status TokenFinder::add(std::string_view content, int32_t index) {
  if (content.empty()) return {};
  if (content.size() > kMaxLength) {
    return make_status(Code::malformed, "added token \"{}...\": want at most {} bytes, got {}",
                       content.substr(0, 40), kMaxLength, content.size());
  }
  if (roots_.empty()) roots_.assign(256, -1);
  int32_t node = -1;
  for (const char byte : content) {
    int32_t& first = node < 0 ? roots_[static_cast<uint8_t>(byte)] : nodes_[node].first_child;
    int32_t found = first;
    while (found >= 0 && nodes_[found].byte != byte) found = nodes_[found].next_sibling;
    if (found < 0) {
      found = static_cast<int32_t>(nodes_.size());
      const int32_t sibling = std::exchange(first, found);
      nodes_.push_back({-1, sibling, -1, byte});
    }
    node = found;
  }
  if (nodes_[node].index < 0) nodes_[node].index = index;
  return {};
}

int32_t TokenFinder::child(int32_t node, char byte) const {
  int32_t found = nodes_[node].first_child;
  while (found >= 0 && nodes_[found].byte != byte) found = nodes_[found].next_sibling;
  return found;
}

TokenFinder::Match TokenFinder::find(std::string_view text, size_t from) const {
  if (nodes_.empty()) return {text.size(), text.size(), -1};
  for (size_t begin = from; begin < text.size(); ++begin) {
    int32_t node = roots_[static_cast<uint8_t>(text[begin])];
    Match longest{begin, begin, -1};
    for (size_t end = begin + 1; node >= 0; ++end) {
      if (nodes_[node].index >= 0) longest = {begin, end, nodes_[node].index};
      if (end == text.size()) break;
      node = child(node, text[end]);
    }
    if (longest.index >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace headrace::text

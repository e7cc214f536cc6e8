#pragma once
// Tokens that are found in the text before anything else cuts it: special tokens ("<|im_end|>") and whatever
// else was added to a vocabulary after its training. Matching is leftmost, then longest. Time: the text times
// the longest added token (at most kMaxLength bytes).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/string_table.h"

namespace headrace::text {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  std::string spelling;      // what it decodes to, where that is not `content`
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for in the normalized text
  bool special = false;      // a control token; decoding may leave it out
};

// A set of strings to look for. Read-only after building.
class TokenFinder {
 public:
  static constexpr size_t kMaxLength = 1024;

  // `index` comes back in matches. Error: malformed, for a string over kMaxLength.
  Status add(std::string_view content, int32_t index);
  bool empty() const { return nodes_.empty(); }

  struct Match {
    size_t begin;
    size_t end;
    int32_t index;  // -1: none
  };
  Match find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t first_child = -1;  // children are a list in order of insertion, the root's are in roots_
    int32_t next_sibling = -1;
    int32_t index = -1;
    char byte = 0;
  };
  int32_t child(int32_t node, char byte) const;

  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;  // by first byte; -1: no string begins with it
};

}  // namespace headrace::text

#pragma once
// What a tokenizer.json says about the length of an encoding: where a long one is cut, how far a short one is filled up.
// Applied where EncodeOptions::limits asks for it, as the library's encode() always does.

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "text/tokenizer.h"

namespace headrace::text {

enum class Side : uint8_t { left, right };

struct Truncation {
  enum class Strategy : uint8_t { longest_first, only_first, only_second };
  size_t max_length = 0;  // of the whole encoding, with what the post-processor adds
  size_t stride = 0;      // of the parts that were cut off, which nobody keeps; below what is kept of a text
  Strategy strategy = Strategy::longest_first;
  Side side = Side::right;  // where a text loses ids
};

struct Padding {
  static constexpr size_t kMaxLength = size_t{1} << 20;
  std::optional<size_t> fixed;  // at least as long as this
  size_t multiple = 0;          // of this length, 0 for any
  int32_t id = 0;
  uint8_t type_id = 0;
  Side side = Side::right;  // where the padding goes
};

// `second` is null for a single text; `num_added` ids will be added by the post-processor. Errors: invalid_argument, for a
// strategy that cannot reach the length.
Status truncate(const Truncation& rule, size_t num_added, Encoding& first, Encoding* second);
void pad(const Padding& rule, Encoding& encoding);

}  // namespace headrace::text

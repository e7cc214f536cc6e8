#pragma once
// What is put around and between the ids of a text, or of a pair of texts.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace headrace::text {

struct PostProcessor {
  // One place of the frame: ids to add, or a text's own.
  struct Item {
    std::vector<int32_t> ids;
    int text = -1;  // 0: the text, 1: the second of a pair, -1: `ids`
    uint8_t type_id = 0;
  };
  // Offsets leave out the white space at a token's ends (ByteLevel and Roberta with trim_offsets).
  struct Trim {
    bool add_prefix_space;
  };

  std::vector<Item> single;  // empty: the text alone
  std::vector<Item> pair;    // empty: one after the other, with type ids 0 and 1
  std::optional<Trim> trim;
};

}  // namespace headrace::text

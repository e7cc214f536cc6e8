#pragma once
// The two large values of a tokenizer.json, model.vocab and model.merges, read straight from the text: a
// document tree of half a million merges costs seconds. Every byte of them is checked against the shapes
// below (numbers may have zeros in front, which JSON forbids).

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace headrace::text {

struct JsonLists {
  std::string rest;  // the file with null in place of the two
  // Slices of the file; empty when it has none.
  std::string_view vocab;
  std::string_view merges;
};

// Never fails: where the text is not what it looks for, `rest` is the whole text, for a JSON parser to judge.
JsonLists take_lists(std::string_view file);

// Each error is malformed and says at which byte of the list. A string that has escapes is decoded into
// `decoded`.
// {"token": id, ...}
Status read_ids(std::string_view list,
                const std::function<Status(std::string_view token, int64_t id)>& visit);
// [["token", score], ...]
Status read_scores(std::string_view list,
                   const std::function<Status(std::string_view token, double score)>& visit);
// ["left right", ...] or [["left", "right"], ...]
using Merges = std::vector<std::pair<std::string_view, std::string_view>>;
Result<Merges> read_merges(std::string_view list, std::deque<std::string>& decoded);

}  // namespace headrace::text

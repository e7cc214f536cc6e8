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

#include "base/status.h"
#include "text/huge_allocator.h"

namespace headrace::text {

struct JsonLists {
  std::string rest;  // the file with null in place of the two
  // Slices of the file; empty when it has none.
  std::string_view vocab;
  std::string_view merges;
};

// Never fails: where the text is not what it looks for, `rest` is the whole text, for a JSON parser to judge.
// `found_vocab` gets each value of model.vocab when its end is known, before the rest of the file is looked through; the last
// one counts.
JsonLists take_lists(std::string_view file, const std::function<void(std::string_view)>& found_vocab = {});

// Each error is malformed and says at which byte of the list. What they give are views into the list, or into `decoded` for
// strings that have escapes.
// {"token": id, ...}
using ListedIds = HugeVector<std::pair<std::string_view, int64_t>>;
Result<ListedIds> read_ids(std::string_view list, std::deque<std::string>& decoded);
// [["token", score], ...]
using ListedScores = HugeVector<std::pair<std::string_view, double>>;
Result<ListedScores> read_scores(std::string_view list, std::deque<std::string>& decoded);
// ["left right", ...] or [["left", "right"], ...]
using Merges = HugeVector<std::pair<std::string_view, std::string_view>>;
Result<Merges> read_merges(std::string_view list, std::deque<std::string>& decoded);

}  // namespace headrace::text

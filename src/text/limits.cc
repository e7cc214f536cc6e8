#include "text/limits.h"

#include <algorithm>
#include <utility>

namespace headrace::text {
namespace {

Status keep(const Truncation& rule, size_t length, Encoding& encoding) {
  const size_t had = encoding.ids.size();
  if (length >= had) return {};
  if (length > 0 && rule.stride >= length) {
    return make_status(Code::invalid_argument, "tokenizer.json: truncation: want a stride below the {} ids that stay, got {}",
                       length, rule.stride);
  }
  const auto cut = static_cast<ptrdiff_t>(had - length);
  if (rule.side == Side::left) {
    encoding.ids.erase(encoding.ids.begin(), encoding.ids.begin() + cut);
    encoding.offsets.erase(encoding.offsets.begin(), encoding.offsets.begin() + cut);
  } else {
    encoding.ids.resize(length);
    encoding.offsets.resize(length);
  }
  return {};
}

// How much of each text stays when the longer one is cut first.
std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t length) {
  size_t shorter = std::min(first, second);
  size_t longer = shorter > length ? shorter : std::max(shorter, length - shorter);
  if (shorter + longer > length) {
    shorter = length / 2;
    longer = shorter + length % 2;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace

Status truncate(const Truncation& rule, size_t num_added, Encoding& first, Encoding* second) {
  if (num_added > rule.max_length) {
    return make_status(Code::invalid_argument, "tokenizer.json: truncation: max_length {} leaves no place for {} added ids",
                       rule.max_length, num_added);
  }
  const size_t length = rule.max_length - num_added;
  if (length == 0) {
    HR_RETURN_IF_ERROR(keep(rule, 0, first));
    return second != nullptr ? keep(rule, 0, *second) : Status();
  }
  const size_t total = first.ids.size() + (second != nullptr ? second->ids.size() : 0);
  if (total <= length) return {};
  if (rule.strategy == Truncation::Strategy::longest_first) {
    if (second == nullptr) return keep(rule, length, first);
    const auto [of_first, of_second] = longest_first(first.ids.size(), second->ids.size(), length);
    HR_RETURN_IF_ERROR(keep(rule, of_first, first));
    return keep(rule, of_second, *second);
  }
  Encoding* const target = rule.strategy == Truncation::Strategy::only_first ? &first : second;
  if (target == nullptr) {
    return make_status(Code::invalid_argument, "tokenizer.json: truncation: OnlySecond wants a pair of texts, got one");
  }
  if (target->ids.size() <= total - length) {
    return make_status(Code::invalid_argument, "tokenizer.json: truncation: the text to cut has {} ids, {} must go",
                       target->ids.size(), total - length);
  }
  return keep(rule, target->ids.size() - (total - length), *target);
}

void pad(const Padding& rule, Encoding& encoding) {
  const size_t had = encoding.ids.size();
  size_t length = std::max(had, rule.fixed.value_or(had));
  if (const size_t multiple = std::max<size_t>(rule.multiple, 1); length % multiple > 0) {
    length += multiple - length % multiple;
  }
  if (length == had) return;
  const auto at = rule.side == Side::left ? 0 : static_cast<ptrdiff_t>(had);
  encoding.type_ids.resize(had);
  encoding.ids.insert(encoding.ids.begin() + at, length - had, rule.id);
  encoding.offsets.insert(encoding.offsets.begin() + at, length - had, ByteRange{});
  encoding.type_ids.insert(encoding.type_ids.begin() + at, length - had, rule.type_id);
}

}  // namespace headrace::text

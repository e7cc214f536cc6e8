#include "server/logprobs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/utf8.h"

namespace headrace::server {
namespace {

double clean(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<double>::infinity() : static_cast<double>(logit);
}

}  // namespace

TokenLogprob score_token(std::span<const float> logits, int32_t chosen, int n) {
  double max = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) max = std::max(max, clean(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(clean(logit) - max);
  const double norm = max + std::log(sum);

  // The front of the heap is its worst entry, the first to go.
  using Entry = std::pair<int32_t, double>;
  const auto better = [](const Entry& a, const Entry& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  TokenLogprob result{.id = chosen, .logprob = clean(logits[chosen]) - norm};
  std::vector<Entry>& top = result.top;
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()) && n > 0; ++id) {
    const Entry entry{id, clean(logits[id]) - norm};
    if (top.size() == static_cast<size_t>(n)) {
      if (!better(entry, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), better);
      top.pop_back();
    }
    top.push_back(entry);
    std::push_heap(top.begin(), top.end(), better);
  }
  std::sort(top.begin(), top.end(), better);
  const bool listed =
      std::any_of(top.begin(), top.end(), [&](const Entry& entry) { return entry.first == chosen; });
  if (!listed) top.emplace_back(chosen, result.logprob);
  return result;
}

double finite_logprob(double logprob) {
  return logprob >= -9999.0 ? logprob : -9999.0;
}

std::string token_label(std::string_view bytes) {
  if (text::is_valid_utf8(bytes)) return std::string(bytes);
  std::string label = "bytes:";
  for (const char byte : bytes) label += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return label;
}

int64_t TextOffsets::next(std::string_view bytes) {
  const int64_t start = position_;
  position_ += std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
  return start;
}

}  // namespace headrace::server

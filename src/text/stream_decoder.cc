// Each byte passes once through the UTF-8 decoder and once through each stop string's matcher, so a stream
// costs time linear in its length, however the tokens cut it and whatever the stop strings are.
#include "text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace headrace::text {

StreamDecoder::StreamDecoder(Options options) : include_stop_(options.include_stop) {
  for (std::string& word : options.stop) {
    if (word.empty()) continue;
    Matcher matcher{std::move(word), {0}};
    for (size_t i = 1, border = 0; i < matcher.word.size(); ++i) {
      while (border > 0 && matcher.word[i] != matcher.word[border]) border = matcher.fallback[border - 1];
      if (matcher.word[i] == matcher.word[border]) ++border;
      matcher.fallback.push_back(border);
    }
    stops_.push_back(std::move(matcher));
  }
}

bool StreamDecoder::Matcher::push(char c) {
  while (matched > 0 && (matched == word.size() || word[matched] != c)) matched = fallback[matched - 1];
  if (word[matched] == c) ++matched;
  return matched == word.size();
}

std::string StreamDecoder::push(std::string_view bytes) {
  if (stopped_) return {};
  return release(take_valid(bytes, false), false);
}

std::string StreamDecoder::finish() {
  if (stopped_) return {};
  return release(take_valid({}, true), true);
}

std::string StreamDecoder::take_valid(std::string_view bytes, bool at_end) {
  std::string joined;
  if (!bytes_.empty()) {
    joined = std::move(bytes_);
    joined += bytes;
    bytes = joined;
    bytes_.clear();
  }
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    if (c.state == Utf8State::incomplete && !at_end) {
      bytes_ = bytes;
      break;
    }
    out += c.state == Utf8State::valid ? bytes.substr(0, c.length) : kReplacementUtf8;
    bytes.remove_prefix(c.length);
  }
  return out;
}

std::string StreamDecoder::release(std::string_view text, bool at_end) {
  const size_t held_before = held_.size();
  held_ += text;
  // Of the stop strings that this text completes, the one that begins first wins, the longest of those.
  size_t best_begin = std::string::npos;
  const Matcher* best = nullptr;
  size_t keep = 0;
  for (Matcher& stop : stops_) {
    for (size_t i = held_before; i < held_.size(); ++i) {
      if (!stop.push(held_[i]) || ignore_stops_) continue;
      const size_t begin = i + 1 - stop.word.size();
      const bool wins = best == nullptr || begin < best_begin ||
                        (begin == best_begin && stop.word.size() > best->word.size());
      if (wins) {
        best = &stop;
        best_begin = begin;
      }
      break;
    }
    keep = std::max(keep, stop.matched);
  }
  if (best != nullptr) {
    stopped_ = true;
    matched_ = best->word;
    const size_t end = include_stop_ ? best_begin + best->word.size() : best_begin;
    return held_.substr(sent_, end - sent_);
  }
  const size_t end = at_end ? held_.size() : held_.size() - keep;
  std::string out = held_.substr(sent_, end - sent_);
  sent_ = end;
  // Moving the rest down only when more than half was sent keeps a byte's share of the copies constant.
  if (sent_ > held_.size() / 2) {
    held_.erase(0, sent_);
    sent_ = 0;
  }
  return out;
}

}  // namespace headrace::text

#include "text/scored_bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/utf8.h"

namespace headrace::text {

ScoredBpe::ScoredBpe(const Vocabulary& vocabulary, const std::vector<float>& scores, int32_t unk_id)
    : vocabulary_(vocabulary), unk_id_(unk_id), rank_(scores.size(), kNoRank) {
  std::vector<int32_t> order;
  order.reserve(scores.size());
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!std::isnan(scores[id])) order.push_back(id);
  }
  const auto higher = [&](int32_t a, int32_t b) { return scores[a] > scores[b]; };
  if (!std::is_sorted(order.begin(), order.end(), higher)) std::sort(order.begin(), order.end(), higher);
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    rank_[order[i]] = rank;
    const std::string_view text = vocabulary_.text(order[i]);
    longest_ = std::max(longest_, text.size());
    stretches_.add(text);
  }
  for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  for (int code = 0; code < 128; ++code) {
    const char c = static_cast<char>(code);
    ascii_ids_[code] = find(std::string_view(&c, 1));
  }
  spells_all_ = std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
}

Result<std::unique_ptr<ScoredBpe>> ScoredBpe::make(const Vocabulary& vocabulary,
                                                   const std::vector<float>& scores, int32_t unk_id) {
  if (scores.size() != static_cast<size_t>(vocabulary.size())) {
    return error(Code::malformed, "vocabulary: want {} scores, got {}", vocabulary.size(), scores.size());
  }
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const size_t length = std::isnan(scores[id]) ? 0 : vocabulary.text(id).size();
    if (length > kMaxToken) {
      return error(Code::malformed, "vocabulary: token {}: want at most {} bytes, got {}", id, kMaxToken,
                   length);
    }
  }
  return std::unique_ptr<ScoredBpe>(new ScoredBpe(vocabulary, scores, unk_id));
}

int32_t ScoredBpe::find(std::string_view text) const {
  if (text.size() > longest_) return -1;
  const int32_t id = vocabulary_.find(text);
  return id >= 0 && rank_[id] != kNoRank ? id : -1;
}

Status ScoredBpe::tokenize(std::string_view text, std::vector<Token>& out) const {
  WordCache& cache = WordCache::of_thread();
  const size_t before = out.size();
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = stretches_.end(text, begin);
    const auto first = static_cast<uint32_t>(begin);
    const std::string_view word = text.substr(begin, end - begin);
    if (cache.find(owner_, word, first, out)) continue;
    const size_t count = out.size();
    HR_RETURN_IF_ERROR(join(text, first, static_cast<uint32_t>(end), out));
    if (out.size() > count) cache.keep(owner_, word, first, &out[count], out.size() - count);
  }
  if (!spells_all_) fuse_unknown(before, out);
  return {};
}

// Neighbouring characters that cannot be spelled are one unknown token.
void ScoredBpe::fuse_unknown(size_t from, std::vector<Token>& out) const {
  size_t kept = from;
  for (size_t i = from; i < out.size(); ++i) {
    if (kept > from && out[i].id == unk_id_ && out[kept - 1].id == unk_id_) {
      out[kept - 1].end = out[i].end;
    } else {
      out[kept++] = out[i];
    }
  }
  out.resize(kept);
}

Status ScoredBpe::join(std::string_view text, uint32_t begin, uint32_t end, std::vector<Token>& out) const {
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  for (uint32_t at = begin; at < end;) {
    const uint32_t next = at + decode_utf8(text.substr(at)).length;
    const auto byte = static_cast<uint8_t>(text[at]);
    symbols.push_back({byte < 128 ? ascii_ids_[byte] : find(text.substr(at, next - at)), at, next});
    at = next;
  }
  merge_symbols(symbols, static_cast<uint32_t>(rank_.size()), [&](const Symbol& left, const Symbol& right) {
    const int32_t id = find(text.substr(left.begin, right.end - left.begin));
    return Merge{id >= 0 ? rank_[id] : kNoRank, id};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) {
      out.push_back({symbol.id, symbol.begin, symbol.end});
    } else {
      HR_RETURN_IF_ERROR(spell(text, symbol, out));
    }
  }
  if (symbols.capacity() > 1 << 16) symbols = {};
  return {};
}

// A character that is no token.
Status ScoredBpe::spell(std::string_view text, const Symbol& unknown, std::vector<Token>& out) const {
  const std::string_view bytes = text.substr(unknown.begin, unknown.end - unknown.begin);
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id_of(byte) >= 0; })) {
    for (uint32_t i = 0; i < bytes.size(); ++i) {
      out.push_back({id_of(bytes[i]), unknown.begin + i, unknown.begin + i + 1});
    }
  } else if (unk_id_ < 0) {
    return make_status(Code::malformed, "encode: \"{}\" is not in the vocabulary, which has no unknown token",
                       bytes);
  } else {
    out.push_back({unk_id_, unknown.begin, unknown.end});
  }
  return {};
}

}  // namespace headrace::text

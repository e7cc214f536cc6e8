#include "text/unigram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "text/utf8.h"

namespace headrace::text {

Unigram::Trie::Trie(size_t num_edges) : edges_(std::bit_ceil(num_edges * 2 + 16)) {}

size_t Unigram::Trie::slot_of(int64_t key) const {
  const uint64_t mixed = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15;
  size_t slot = (mixed ^ mixed >> 32) & (edges_.size() - 1);
  while (edges_[slot].key != key && edges_[slot].key >= 0) slot = (slot + 1) & (edges_.size() - 1);
  return slot;
}

void Unigram::Trie::insert(std::string_view text, int32_t id) {
  int32_t node = 0;
  for (const char byte : text) {
    const int64_t key = static_cast<int64_t>(node) << 8 | static_cast<uint8_t>(byte);
    Edge& edge = edges_[slot_of(key)];
    if (edge.key < 0) {
      edge = {key, static_cast<int32_t>(ids_.size())};
      ids_.push_back(-1);
    }
    node = edge.node;
  }
  ids_[node] = id;
}

int32_t Unigram::Trie::child(int32_t node, char byte) const {
  return edges_[slot_of(static_cast<int64_t>(node) << 8 | static_cast<uint8_t>(byte))].node;
}

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, Options options, size_t num_bytes)
    : vocabulary_(vocabulary), scores_(std::move(scores)), options_(options), trie_(num_bytes) {
  constexpr double kUnknownPenalty = 10;  // the library's
  double lowest = 0;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.has(id) || std::isnan(scores_[id])) continue;
    trie_.insert(vocabulary_.text(id), id);
    lowest = std::min(lowest, scores_[id]);
  }
  unknown_score_ = lowest - kUnknownPenalty;
}

Result<std::unique_ptr<Unigram>> Unigram::make(const Vocabulary& vocabulary, std::vector<double> scores,
                                               Options options) {
  if (scores.size() != static_cast<size_t>(vocabulary.size())) {
    return error(Code::malformed, "unigram: want {} scores, got {}", vocabulary.size(), scores.size());
  }
  size_t num_bytes = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view token = vocabulary.text(id);
    if (token.size() > kMaxToken) {
      return error(Code::malformed, "unigram: token {}: want at most {} bytes, got {}", id, kMaxToken,
                   token.size());
    }
    num_bytes += token.size();
  }
  return std::unique_ptr<Unigram>(new Unigram(vocabulary, std::move(scores), options, num_bytes));
}

Status Unigram::tokenize(std::string_view word, std::vector<Token>& out) const {
  struct Best {  // of the ways that end here
    double score = 0;
    uint32_t begin = UINT32_MAX;  // of the last token; UINT32_MAX: no way yet
    int32_t id = -1;
  };
  const auto n = static_cast<uint32_t>(word.size());
  std::vector<Best> best(n + 1);
  for (uint32_t begin = 0; begin < n;) {
    const uint32_t char_end = begin + decode_utf8(word.substr(begin)).length;
    const auto offer = [&](uint32_t end, double score, int32_t id) {
      score += best[begin].score;
      if (best[end].begin == UINT32_MAX || score > best[end].score) best[end] = {score, begin, id};
    };
    bool has_char = false;
    int32_t node = 0;
    for (uint32_t end = begin; end < n;) {
      node = trie_.child(node, word[end++]);
      if (node < 0) break;
      const int32_t id = trie_.id_at(node);
      if (id < 0) continue;
      offer(end, scores_[id], id);
      has_char |= end == char_end;
    }
    if (!has_char) offer(char_end, unknown_score_, options_.unk_id);
    begin = char_end;
  }
  // Back from the end; neighbouring unknown characters are one unknown piece.
  std::vector<ByteRange> pieces;
  bool last_unknown = false;
  for (uint32_t end = n; end > 0; end = best[end].begin) {
    const bool unknown = best[end].id == options_.unk_id;
    if (unknown && last_unknown) {
      pieces.back().begin = best[end].begin;
    } else {
      pieces.push_back({best[end].begin, end});
    }
    last_unknown = unknown;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    HR_RETURN_IF_ERROR(emit(word, piece->begin, piece->end, out));
  }
  return {};
}

Status Unigram::emit(std::string_view word, uint32_t begin, uint32_t end, std::vector<Token>& out) const {
  const std::string_view piece = word.substr(begin, end - begin);
  int32_t id = vocabulary_.find(piece);
  if (id >= 0 && std::isnan(scores_[id])) id = -1;
  if (id < 0 && options_.byte_fallback) {
    const size_t first = out.size();
    for (size_t i = 0; i < piece.size(); ++i) {
      const int32_t byte = vocabulary_.find(fmt::format("<0x{:02X}>", static_cast<uint8_t>(piece[i])));
      if (byte < 0) {
        out.resize(first);
        break;
      }
      out.push_back({byte, begin + static_cast<uint32_t>(i), begin + static_cast<uint32_t>(i) + 1});
    }
    if (out.size() > first) return {};
  }
  if (id < 0) id = options_.unk_id;
  if (id < 0) {
    return make_status(Code::malformed, "encode: \"{}\" is not in the vocabulary, which has no unknown token",
                       piece.substr(0, 80));
  }
  out.push_back({id, begin, end});
  return {};
}

}  // namespace headrace::text

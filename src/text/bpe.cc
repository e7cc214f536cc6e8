#include "text/bpe.h"

#include <algorithm>
#include <bit>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace headrace::text {

Bpe::MergeTable::MergeTable(size_t num_merges) : slots_(std::bit_ceil(num_merges * 2 + 16)) {}

size_t Bpe::MergeTable::first_slot(uint64_t key) const {
  const uint64_t mixed = key * 0x9E3779B97F4A7C15;
  return (mixed ^ mixed >> 32) & (slots_.size() - 1);
}

void Bpe::MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t slot = first_slot(key);
  while (slots_[slot].key != UINT64_MAX && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {key, merge};
}

Merge Bpe::MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  size_t slot = first_slot(key);
  while (slots_[slot].key != key) {
    if (slots_[slot].key == UINT64_MAX) return {kNoRank, -1};
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slots_[slot].merge;
}

Bpe::Bpe(const Vocabulary& vocabulary, size_t num_merges, Options options)
    : vocabulary_(vocabulary), options_(std::move(options)), merges_(num_merges) {
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.find(options_.byte_level ? spell_bytes(std::string_view(&raw, 1))
                                                           : fmt::format("<0x{:02X}>", byte));
  }
  const bool spells_all = options_.byte_fallback &&
                          std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  const bool by_place = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  if (!options_.byte_level && spells_all && !by_place && !options_.ignore_merges) stretches_.emplace();
  if (!options_.byte_level || !options_.ignore_merges) return;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.has(id)) continue;
    if (const auto bytes = spelled_bytes(vocabulary_.text(id))) words_.insert(*bytes, id);
  }
}

Result<std::unique_ptr<Bpe>> Bpe::make(
    const Vocabulary& vocabulary, const std::vector<std::pair<std::string_view, std::string_view>>& merges,
    Options options) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocabulary, merges.size(), std::move(options)));
  const std::string& prefix = bpe->options_.continuing_subword_prefix;
  constexpr size_t kBatch = 64;
  std::array<std::string, kBatch> joined;
  std::array<std::string_view, 3 * kBatch> tokens;
  std::array<int32_t, 3 * kBatch> ids;
  for (size_t begin = 0; begin < merges.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, merges.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      const auto& [left, right] = merges[begin + i];
      joined[i] = left;
      joined[i] += right.starts_with(prefix) ? right.substr(prefix.size()) : right;
      tokens[3 * i] = left;
      tokens[3 * i + 1] = right;
      tokens[3 * i + 2] = joined[i];
    }
    vocabulary.find_each({tokens.data(), 3 * n}, {ids.data(), 3 * n});
    for (size_t i = 0; i < n; ++i) bpe->merges_.prefetch(ids[3 * i], ids[3 * i + 1]);
    for (size_t i = 0; i < n; ++i) {
      const auto missing = std::find_if(&ids[3 * i], &ids[3 * i] + 3, [](int32_t id) { return id < 0; });
      if (missing != &ids[3 * i] + 3) {
        return error(Code::malformed, "merge {}, \"{}\" + \"{}\": \"{}\" is not in the vocabulary", begin + i,
                     tokens[3 * i], tokens[3 * i + 1], tokens[static_cast<size_t>(missing - ids.data())]);
      }
      if (bpe->stretches_) bpe->stretches_->add(joined[i]);
      bpe->merges_.insert(ids[3 * i], ids[3 * i + 1], {static_cast<uint32_t>(begin + i), ids[3 * i + 2]});
    }
  }
  return bpe;
}

void Bpe::symbols_of_bytes(std::string_view word, std::vector<Symbol>& out) const {
  for (uint32_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    const int32_t id = byte_ids_[byte] >= 0 ? byte_ids_[byte] : options_.unk_id;
    // As in the library, what a vocabulary without an unknown token cannot spell is dropped.
    if (id >= 0) out.push_back({id, i, i + 1});
  }
}

// Follows the library where it is odd: a symbol begins where the last one ended, so dropped characters shift
// what follows, and a pending unknown token waits for the next character that is in the vocabulary.
void Bpe::symbols_of_chars(std::string_view word, std::vector<Symbol>& out) const {
  uint32_t cursor = 0, unknown_length = 0;
  const auto add = [&](int32_t id, uint32_t length) {
    out.push_back({id, cursor, cursor + length});
    cursor += length;
  };
  const auto flush_unknown = [&] {
    if (unknown_length > 0) add(options_.unk_id, unknown_length);
    unknown_length = 0;
  };
  std::string spelling;
  for (uint32_t at = 0, end = 0; at < word.size(); at = end) {
    end = at + decode_utf8(word.substr(at)).length;
    spelling.clear();
    if (at > 0) spelling += options_.continuing_subword_prefix;
    spelling += word.substr(at, end - at);
    if (end == word.size()) spelling += options_.end_of_word_suffix;
    const auto has_byte = [&](char b) { return byte_ids_[static_cast<uint8_t>(b)] >= 0; };
    if (const int32_t id = vocabulary_.find(spelling); id >= 0) {
      flush_unknown();
      add(id, end - at);
    } else if (options_.byte_fallback && std::all_of(spelling.begin(), spelling.end(), has_byte)) {
      for (const char b : spelling) add(byte_ids_[static_cast<uint8_t>(b)], 1);
    } else if (options_.unk_id >= 0) {
      if (!options_.fuse_unk) flush_unknown();
      unknown_length += end - at;
    }
  }
  flush_unknown();
}

Status Bpe::tokenize(std::string_view word, std::vector<Token>& out) const {
  WordCache& cache = WordCache::of_thread();
  for (size_t begin = 0, end; begin < word.size(); begin = end) {
    end = stretches_ ? stretches_->end(word, begin) : word.size();
    const auto first = static_cast<uint32_t>(begin);
    const std::string_view stretch = word.substr(begin, end - begin);
    if (cache.find(owner_, stretch, first, out)) continue;
    const size_t count = out.size();
    HR_RETURN_IF_ERROR(tokenize_stretch(stretch, out));
    for (size_t i = count; i < out.size(); ++i) {
      out[i].begin += first;
      out[i].end += first;
    }
    if (out.size() > count) cache.keep(owner_, stretch, first, &out[count], out.size() - count);
  }
  return {};
}

Status Bpe::tokenize_stretch(std::string_view word, std::vector<Token>& out) const {
  const auto length = static_cast<uint32_t>(word.size());
  if (options_.ignore_merges) {
    const int32_t id = options_.byte_level ? words_.find(word) : vocabulary_.find(word);
    if (id >= 0) {
      out.push_back({id, 0, length});
      return {};
    }
  }
  if (options_.byte_level && length == 1 && byte_ids_[static_cast<uint8_t>(word[0])] >= 0) {
    out.push_back({byte_ids_[static_cast<uint8_t>(word[0])], 0, 1});
    return {};
  }
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  if (options_.byte_level) {
    symbols_of_bytes(word, symbols);
  } else {
    symbols_of_chars(word, symbols);
  }
  merge_symbols(symbols,
                [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  for (const Symbol& s : symbols) out.push_back({s.id, s.begin, s.end});
  if (symbols.capacity() > 1 << 16) symbols = {};
  return {};
}

}  // namespace headrace::text

#include "text/bpe.h"

#include <algorithm>
#include <tuple>

#include "text/both.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace headrace::text {

Bpe::Bpe(const Vocabulary& vocabulary, size_t num_merges, Options options)
    : vocabulary_(vocabulary),
      options_(std::move(options)),
      merges_(num_merges, vocabulary.size()),
      num_ranks_(static_cast<uint32_t>(num_merges)) {
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.find(options_.byte_level ? spell_bytes(std::string_view(&raw, 1))
                                                           : fmt::format("<0x{:02X}>", byte));
  }
  const bool spells_all = options_.byte_fallback &&
                          std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  by_place_ = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  if (!options_.byte_level && spells_all && !by_place_ && !options_.ignore_merges) stretches_.emplace();
  for (int code = 0; code < 128; ++code) {
    const char c = static_cast<char>(code);
    ascii_ids_[code] = vocabulary_.find(std::string_view(&c, 1));
  }
  if (!options_.byte_level || !options_.ignore_merges) return;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.has(id)) continue;
    if (const auto bytes = spelled_bytes(vocabulary_.text(id))) words_.insert(*bytes, id);
  }
}

Result<std::unique_ptr<Bpe>> Bpe::make(
    const Vocabulary& vocabulary, std::span<const std::pair<std::string_view, std::string_view>> merges,
    Options options) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocabulary, merges.size(), std::move(options)));
  const std::string& prefix = bpe->options_.continuing_subword_prefix;
  const auto part_of_token = [&](std::string_view right) { return right.starts_with(prefix) ? right.substr(prefix.size()) : right; };
  // The ids of each merge's two parts, and of what it makes; -1: there is none.
  HugeVector<int32_t> parts(2 * merges.size()), made(merges.size());
  const auto find_parts = [&](size_t begin, size_t end) {
    constexpr size_t kBatch = 64;
    std::array<std::string_view, 2 * kBatch> texts;
    for (; begin < end; begin += kBatch) {
      const size_t n = std::min(kBatch, end - begin);
      for (size_t i = 0; i < n; ++i) std::tie(texts[2 * i], texts[2 * i + 1]) = merges[begin + i];
      vocabulary.find_each({texts.data(), 2 * n}, {&parts[2 * begin], 2 * n});
    }
  };
  // Published lists are in the order of the tokens that they make: the last one or the next one, mostly.
  const auto find_made = [&](size_t begin, size_t end) {
    int32_t id = -1;
    const auto is_joined = [&](std::string_view left, std::string_view right) {
      const std::string_view token = vocabulary.text(id);
      return token.size() == left.size() + right.size() && token.starts_with(left) && token.ends_with(right);
    };
    std::string joined;
    for (size_t i = begin; i < end; ++i) {
      const std::string_view left = merges[i].first, right = part_of_token(merges[i].second);
      if (!is_joined(left, right) && !(++id, is_joined(left, right))) {
        joined = left;
        joined += right;
        id = vocabulary.find(joined);
      }
      made[i] = id;
    }
  };
  const bool many = merges.size() > 1 << 16;
  const auto find_all = [&](size_t begin, size_t end) {
    find_parts(begin, end);
    find_made(begin, end);
  };
  const size_t half = merges.size() / 2;
  run_both(
      many, [&] { find_all(0, half); }, [&] { find_all(half, merges.size()); });
  for (size_t i = 0; i < merges.size(); ++i) {
    if (parts[2 * i] >= 0 && parts[2 * i + 1] >= 0 && made[i] >= 0) continue;
    const auto& [left, right] = merges[i];
    const std::string joined = std::string(left).append(part_of_token(right));
    return error(Code::malformed, "merge {}, \"{}\" + \"{}\": \"{}\" is not in the vocabulary", i, left, right,
                 parts[2 * i] < 0 ? left : parts[2 * i + 1] < 0 ? right : std::string_view(joined));
  }

  size_t num_inserted = 0;
  const auto insert_all = [&] {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < merges.size(); ++i, ++num_inserted) {
      if (i + kAhead < merges.size()) bpe->merges_.prefetch(parts[2 * (i + kAhead)], parts[2 * (i + kAhead) + 1]);
      if (!bpe->merges_.insert(parts[2 * i], parts[2 * i + 1], {static_cast<uint32_t>(i), made[i]})) break;
    }
  };
  const auto add_stretches = [&] {
    for (size_t i = 0; bpe->stretches_ && i < merges.size(); ++i) {
      if (i == 0 || made[i] != made[i - 1]) bpe->stretches_->add(vocabulary.text(made[i]));
    }
  };
  run_both(many && bpe->stretches_, insert_all, add_stretches);
  if (num_inserted < merges.size()) {
    const auto& [left, right] = merges[num_inserted];
    return error(Code::malformed, "merge {}, \"{}\" + \"{}\": too many merges before it were chosen to collide with it", num_inserted,
                 left, right);
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
    if (const auto byte = static_cast<uint8_t>(word[at]); byte < 128 && !by_place_ && ascii_ids_[byte] >= 0) {
      end = at + 1;
      flush_unknown();
      add(ascii_ids_[byte], 1);
      continue;
    }
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

// Where long stretches are joined as one, windows take turns (bpe_merge.h), which takes less time. Where two short ones stand
// side by side, the cache does better.
size_t Bpe::end_of_run(std::string_view word, size_t begin, size_t end) const {
  constexpr size_t kLong = 48;  // bytes
  bool was_long = end - begin > kLong;
  if (!was_long) return end;
  while (end < word.size()) {
    const size_t next = stretches_->end(word, end);
    const bool is_long = next - end > kLong;
    if (!was_long && !is_long) break;
    was_long = is_long;
    end = next;
  }
  return end;
}

Status Bpe::tokenize(std::string_view word, std::vector<Token>& out) const {
  WordCache& cache = WordCache::of_thread();
  for (size_t begin = 0, end; begin < word.size(); begin = end) {
    end = stretches_ ? stretches_->end(word, begin) : word.size();
    const auto first = static_cast<uint32_t>(begin);
    if (cache.find(owner_, word.substr(begin, end - begin), first, out)) continue;
    end = end_of_run(word, begin, end);
    const std::string_view run = word.substr(begin, end - begin);
    const size_t count = out.size();
    HR_RETURN_IF_ERROR(tokenize_stretch(run, out));
    for (size_t i = count; i < out.size(); ++i) {
      out[i].begin += first;
      out[i].end += first;
    }
    if (out.size() > count) cache.keep(owner_, run, first, &out[count], out.size() - count);
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
  struct LookUp {
    const MergeTable& merges;
    Merge operator()(const Symbol& left, const Symbol& right) const { return merges.find(left.id, right.id); }
    [[gnu::always_inline]] void prefetch(const Symbol& left, const Symbol& right) const {
      merges.prefetch(left.id, right.id);
    }
  };
  merge_symbols(symbols, num_ranks_, LookUp{merges_});
  for (const Symbol& s : symbols) out.push_back({s.id, s.begin, s.end});
  if (symbols.capacity() > 1 << 16) symbols = {};
  return {};
}

}  // namespace headrace::text

#include "text/pipeline_tokenizer.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;

bool is_word_char(char32_t c) {
  return (properties(c) & kWordChar) != 0;
}

// The code point that ends at `end`; `text` is valid UTF-8 and `end` > 0.
Utf8Char char_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(text.substr(begin));
}

bool is_whole_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_char(char_before(text, begin).code)) return false;
  return end == text.size() || !is_word_char(decode_utf8(text.substr(end)).code);
}

size_t skip_space_backward(std::string_view text, size_t at) {
  while (at > 0) {
    const Utf8Char c = char_before(text, at);
    if (!is_white_space(c.code)) break;
    at -= c.length;
  }
  return at;
}

size_t skip_space_forward(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text.substr(at));
    if (!is_white_space(c.code)) break;
    at += c.length;
  }
  return at;
}

// Source text that is not UTF-8, made valid; each byte knows the whole character it belongs to.
void append_valid(std::string_view source, AlignedText& out) {
  for (uint32_t at = 0; at < source.size();) {
    const Utf8Char c = decode_utf8(source.substr(at));
    const uint32_t end = at + c.length;
    out.append(c.state == Utf8State::valid ? source.substr(at, c.length) : kReplacementUtf8, {at, end});
    at = end;
  }
}

}  // namespace

struct PipelineTokenizer::Run {
  const PipelineTokenizer& tokenizer;
  const EncodeOptions& options;
  std::string_view source;
  Encoding& out;
  PieceArena arena;
  std::vector<Piece> pieces, next_pieces;
  std::vector<Token> tokens;
  std::vector<size_t> matched;  // places in `out` of tokens that were found in the text before the model saw it

  Status text(const Piece& whole) {
    return split_added(tokenizer.raw_finder_, whole, [&](const Piece& rest) -> Status {
      Piece piece = rest;
      HR_RETURN_IF_ERROR(normalize(piece));
      return split_added(tokenizer.normalized_finder_, piece, [&](const Piece& plain) { return words(plain); });
    });
  }

  // A special token counts only where the options let it; what it covers is text then, and the search goes on
  // behind it (or at the next trusted range that begins inside it).
  bool allowed(const AddedToken& token, ByteRange range, uint32_t* resume) const {
    if (!token.special || options.special == SpecialTokens::everywhere) return true;
    if (options.special == SpecialTokens::nowhere) return false;
    const auto next = std::upper_bound(options.trusted.begin(), options.trusted.end(), range.begin,
                                       [](uint32_t at, const ByteRange& r) { return at < r.begin; });
    if (next != options.trusted.begin() && std::prev(next)->end >= range.end) return true;
    if (next != options.trusted.end() && next->begin < range.end) *resume = next->begin;
    return false;
  }

  template <class Plain>
  Status split_added(const TokenFinder& finder, const Piece& piece, Plain plain) {
    const std::string_view text = piece.text;
    size_t done = 0;
    for (size_t from = 0; !finder.empty() && from < text.size();) {
      TokenFinder::Match match = finder.find(text, from);
      if (match.index < 0) break;
      from = match.end;
      const AddedToken& token = tokenizer.parts_.added[match.index];
      const ByteRange range = piece.source(match.begin, match.end);
      uint32_t resume = 0;
      if (!allowed(token, range, &resume)) {
        if (resume > range.begin) {
          from = match.begin + 1;
          while (from < match.end && piece.source(from, from + 1).begin < resume) ++from;
        }
        continue;
      }
      if (token.single_word && !is_whole_word(text, match.begin, match.end)) continue;
      if (token.lstrip) match.begin = std::max(skip_space_backward(text, match.begin), done);
      if (token.rstrip) match.end = skip_space_forward(text, match.end);
      if (done < match.begin) HR_RETURN_IF_ERROR(plain(piece.sub(done, match.begin)));
      matched.push_back(out.ids.size());
      emit(token.id, piece.source(match.begin, match.end));
      done = match.end;
    }
    if (done < text.size()) return plain(piece.sub(done, text.size()));
    return {};
  }

  Status normalize(Piece& piece) {
    const Normalizer* normalizer = tokenizer.parts_.normalizer.get();
    if (normalizer == nullptr || normalizer->leaves(piece.text)) return {};
    AlignedText& changed = arena.add();
    changed.text = piece.text;
    changed.origin.reserve(piece.text.size());
    for (size_t i = 0; i < piece.text.size(); ++i) changed.origin.push_back(piece.source(i, i + 1));
    HR_RETURN_IF_ERROR(normalizer->apply(changed));
    piece = changed.piece();
    return {};
  }

  Status words(const Piece& piece) {
    pieces.assign(1, piece);
    for (const auto& step : tokenizer.parts_.pre_tokenizers) {
      next_pieces.clear();
      for (const Piece& word : pieces) HR_RETURN_IF_ERROR(step->split(word, arena, next_pieces));
      pieces.swap(next_pieces);
    }
    for (const Piece& word : pieces) {
      tokens.clear();
      HR_RETURN_IF_ERROR(tokenizer.parts_.model->tokenize(word.text, tokens));
      for (const Token& token : tokens) emit(token.id, whole_chars(word.source(token.begin, token.end)));
    }
    return {};
  }

  // A token of part of a character stands for the character.
  ByteRange whole_chars(ByteRange range) const {
    const auto continues = [&](uint32_t at) {
      return at < source.size() && (static_cast<uint8_t>(source[at]) & 0xC0) == 0x80;
    };
    while (range.begin > 0 && continues(range.begin)) --range.begin;
    while (continues(range.end)) ++range.end;
    return range;
  }

  void emit(int32_t id, ByteRange range) {
    out.ids.push_back(id);
    out.offsets.push_back(range);
  }
};

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::make(Parts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  HR_RETURN_IF_ERROR(tokenizer->index_added_tokens());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status PipelineTokenizer::index_added_tokens() {
  vocab_size_ = parts_.vocabulary->size();
  for (size_t i = 0; i < parts_.added.size(); ++i) {
    const AddedToken& token = parts_.added[i];
    if (token.id < 0 || token.id > Vocabulary::kMaxId) {
      return make_status(Code::malformed, "added token \"{}\": want an id from 0 to {}, got {}",
                         token.content, Vocabulary::kMaxId, token.id);
    }
    vocab_size_ = std::max(vocab_size_, token.id + 1);
    TokenFinder& finder = token.normalized ? normalized_finder_ : raw_finder_;
    AlignedText content;
    content.append(token.content, {0, 0});
    if (token.normalized && parts_.normalizer) HR_RETURN_IF_ERROR(parts_.normalizer->apply(content));
    HR_RETURN_IF_ERROR(finder.add(content.text, static_cast<int32_t>(i)));
    added_ids_.insert(token.content, token.id);
  }
  added_of_.assign(vocab_size_, -1);
  for (size_t i = 0; i < parts_.added.size(); ++i) added_of_[parts_.added[i].id] = static_cast<int32_t>(i);
  return {};
}

Status PipelineTokenizer::encode_text(std::string_view text, const EncodeOptions& options,
                                      Encoding& out) const {
  if (text.size() > kMaxText) {
    return make_status(Code::resource_exhausted, "encode: want at most {} bytes of text, got {}", kMaxText,
                       text.size());
  }
  Run run{*this, options, text, out, {}, {}, {}, {}, {}};
  if (is_valid_utf8(text)) {
    HR_RETURN_IF_ERROR(run.text({text}));
  } else {
    AlignedText& valid = run.arena.add();
    append_valid(text, valid);
    HR_RETURN_IF_ERROR(run.text(valid.piece()));
  }
  if (parts_.post.trim) trim_offsets(text, run.matched, out);
  return {};
}

void PipelineTokenizer::append(const PostProcessor::Item& item, const Encoding* text, Encoding& out) const {
  if (text != nullptr) {
    out.ids.insert(out.ids.end(), text->ids.begin(), text->ids.end());
    out.offsets.insert(out.offsets.end(), text->offsets.begin(), text->offsets.end());
  } else {
    out.ids.insert(out.ids.end(), item.ids.begin(), item.ids.end());
    out.offsets.insert(out.offsets.end(), item.ids.size(), ByteRange{});
  }
  out.type_ids.resize(out.ids.size(), item.type_id);
}

Result<Encoding> PipelineTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding first, second;
  HR_RETURN_IF_ERROR(encode_text(text, options, first));
  if (options.pair) {
    EncodeOptions pair_options = options;
    pair_options.trusted = {};
    if (pair_options.special == SpecialTokens::in_trusted) pair_options.special = SpecialTokens::nowhere;
    HR_RETURN_IF_ERROR(encode_text(*options.pair, pair_options, second));
  }
  static const std::vector<PostProcessor::Item> plain_single = {{{}, 0, 0}}, plain_pair = {{{}, 0, 0}, {{}, 1, 1}};
  const auto& given = options.pair ? parts_.post.pair : parts_.post.single;
  const auto& items = !given.empty() ? given : options.pair ? plain_pair : plain_single;
  if (options.limits && parts_.truncation) {
    size_t num_added = 0;
    for (const PostProcessor::Item& item : items) num_added += options.add_special_tokens && item.text < 0 ? item.ids.size() : 0;
    HR_RETURN_IF_ERROR(truncate(*parts_.truncation, num_added, first, options.pair ? &second : nullptr));
  }
  Encoding out;
  if (items.size() == 1 && items[0].text == 0 && items[0].type_id == 0) {
    out = std::move(first);
  } else {
    for (const PostProcessor::Item& item : items) {
      if (item.text < 0 && !options.add_special_tokens) continue;
      append(item, item.text == 0 ? &first : item.text == 1 ? &second : nullptr, out);
    }
  }
  if (options.limits && parts_.padding) pad(*parts_.padding, out);
  const bool all_zero =
      std::all_of(out.type_ids.begin(), out.type_ids.end(), [](uint8_t t) { return t == 0; });
  if (all_zero) out.type_ids.clear();
  return out;
}

// White space at the ends of a token, spelled as "Ġ" in the byte alphabet, is left out of its offsets.
void PipelineTokenizer::trim_offsets(std::string_view text, std::span<const size_t> matched, Encoding& encoding) const {
  const auto is_space = [](char32_t c) { return c == U'\u0120' || is_white_space(c); };
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    ByteRange& range = encoding.offsets[i];
    // A token that was found in the text is what it matched, with the white space that it took.
    const bool found = !matched.empty() && matched.front() == i;
    if (found) matched = matched.subspan(1);
    const std::string token =
        found ? std::string(text.substr(range.begin, range.end - range.begin)) : token_text(encoding.ids[i]);
    uint32_t leading = 0, trailing = 0;
    bool only_space = true;
    for (size_t at = 0; at < token.size();) {
      const Utf8Char c = decode_utf8(std::string_view(token).substr(at));
      only_space &= is_space(c.code);
      leading += only_space;
      trailing = is_space(c.code) ? trailing + 1 : 0;
      at += c.length;
    }
    const bool is_first = i == 0 || range.begin == 0;
    if (leading > 0 && is_first && parts_.post.trim->add_prefix_space) --leading;
    // As many characters of the source, whatever the token spells for them.
    for (; leading > 0 && range.begin < range.end; --leading) {
      range.begin += decode_utf8(text.substr(range.begin)).length;
    }
    for (; trailing > 0 && range.end > range.begin; --trailing) {
      do {
        --range.end;
      } while (range.end > range.begin && (static_cast<uint8_t>(text[range.end]) & 0xC0) == 0x80);
    }
    range.begin = std::min(range.begin, range.end);
  }
}

std::string PipelineTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size_ || (skip_special_tokens && is_special(id))) continue;
    if (added_of_[id] < 0 && !parts_.vocabulary->has(id)) continue;
    pieces.push_back(token_text(id));
  }
  for (const DecoderPtr& step : parts_.decoders) step->apply(pieces);
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && parts_.decoders.empty()) out += ' ';
    out += pieces[i];
  }
  return out;
}

std::string PipelineTokenizer::token_bytes(int32_t id) const {
  if (is_special(id)) return {};
  std::string bytes = token_text(id);
  if (bytes.empty()) return bytes;
  if (parts_.decoders.empty()) return " " + bytes;
  for (const DecoderPtr& step : parts_.decoders) bytes = step->bytes_of(std::move(bytes));
  return bytes;
}

std::string PipelineTokenizer::token_text(int32_t id) const {
  if (id < 0 || id >= vocab_size_) return {};
  if (added_of_[id] >= 0) {
    const AddedToken& token = parts_.added[added_of_[id]];
    return token.spelling.empty() ? token.content : token.spelling;
  }
  return std::string(parts_.vocabulary->text(id));
}

bool PipelineTokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size_ && added_of_[id] >= 0 && parts_.added[added_of_[id]].special;
}

int32_t PipelineTokenizer::token_id(std::string_view token) const {
  const int32_t added = added_ids_.find(token);
  return added >= 0 ? added : parts_.vocabulary->find(token);
}

}  // namespace headrace::text

// Tokenizer::from_tokenizer_json: the file format of the Hugging Face `tokenizers` library.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "text/both.h"
#include "text/bpe.h"
#include "text/json_lists.h"
#include "text/pipeline_tokenizer.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace headrace::text {
namespace {

using nlohmann::json;
using Parts = PipelineTokenizer::Parts;

// The file's own mistakes (a key that is missing, a value of another type) reach us as exceptions of the JSON
// library; the one catch is in from_tokenizer_json.

std::string type_of(const json& component) {
  return component.at("type").get<std::string>();
}

// The JSON library turns numbers that do not fit, or are not whole, into others without a word.
template <class Int>
Int whole(const json& value) {
  const bool fits = value.is_number_unsigned() ? std::in_range<Int>(value.get<uint64_t>())
                                               : value.is_number_integer() && std::in_range<Int>(value.get<int64_t>());
  if (!fits) throw json::out_of_range::create(406, "no whole number of this range: " + value.dump(), &value);
  return value.get<Int>();
}
template <class Int>
Int whole(const json& object, const char* key, Int otherwise) {
  const auto found = object.find(key);
  return found == object.end() ? otherwise : whole<Int>(*found);
}

Status unsupported(std::string_view what, std::string_view type) {
  return make_status(Code::unsupported, "tokenizer.json: {} \"{}\" is not implemented", what, type);
}

void read_added_tokens(const json& file, const Vocabulary& vocabulary, Parts& parts) {
  const auto found = file.find("added_tokens");
  if (found == file.end() || found->is_null()) return;
  for (const json& row : *found) {
    AddedToken token{.id = whole<int32_t>(row.at("id")),
                     .content = row.at("content").get<std::string>(),
                     .single_word = row.value("single_word", false),
                     .lstrip = row.value("lstrip", false),
                     .rstrip = row.value("rstrip", false),
                     .special = row.value("special", false)};
    token.normalized = row.value("normalized", !token.special);
    // A token of the model keeps the model's id, as in the library.
    if (const int32_t id = vocabulary.find(token.content); id >= 0) token.id = id;
    parts.added.push_back(std::move(token));
  }
}

std::string string_or_empty(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? std::string() : found->get<std::string>();
}

// The id of the token that `key` names; -1 when it names none, or one that is not in the vocabulary.
int32_t token_or_none(const json& model, const char* key, const Vocabulary& vocabulary) {
  const std::string token = string_or_empty(model, key);
  return token.empty() ? -1 : vocabulary.find(token);
}

// --- models ---

// Older files do not name the type; the parts that only one model has do.
std::string model_type(const json& model) {
  return model.value("type", model.contains("merges")                     ? "BPE"
                             : model.contains("max_input_chars_per_word") ? "WordPiece"
                                                                          : "WordLevel");
}

Result<std::unique_ptr<Bpe>> read_bpe(const json& model, const Merges& merges, const Vocabulary& vocabulary, bool byte_level) {
  Bpe::Options options{.byte_level = byte_level,
                       .ignore_merges = model.value("ignore_merges", false),
                       .byte_fallback = model.value("byte_fallback", false),
                       .fuse_unk = model.value("fuse_unk", false),
                       .unk_id = token_or_none(model, "unk_token", vocabulary),
                       .continuing_subword_prefix = string_or_empty(model, "continuing_subword_prefix"),
                       .end_of_word_suffix = string_or_empty(model, "end_of_word_suffix")};
  return Bpe::make(vocabulary, merges, std::move(options));
}

// Its vocabulary is a list of [token, score]; the place in the list is the id.
Status read_unigram(const json& file, const json& model, std::string_view list, Parts& parts) {
  auto vocabulary = std::make_unique<Vocabulary>();
  std::deque<std::string> decoded;
  HR_ASSIGN_OR_RETURN(const ListedScores listed, read_scores(list, decoded));
  std::vector<double> scores;
  vocabulary->reserve(listed.size(), list.size());
  for (const auto& [token, score] : listed) {
    HR_RETURN_IF_ERROR(vocabulary->add(token, static_cast<int64_t>(scores.size())));
    scores.push_back(score);
  }
  const json& unk = model.value("unk_id", json());
  const Unigram::Options options{.unk_id = unk.is_null() ? -1 : whole<int32_t>(unk),
                                 .byte_fallback = model.value("byte_fallback", false)};
  if (options.unk_id >= vocabulary->size()) {
    return make_status(Code::malformed, "tokenizer.json: unk_id: want an id below {}, got {}",
                       vocabulary->size(), options.unk_id);
  }
  HR_ASSIGN_OR_RETURN(parts.model, Unigram::make(*vocabulary, std::move(scores), options));
  read_added_tokens(file, *vocabulary, parts);
  parts.vocabulary = std::move(vocabulary);
  return {};
}

// Of a list this long (bytes), the time it takes to read is above that of starting a thread.
constexpr size_t kLargeList = size_t{1} << 18;

Result<std::unique_ptr<Vocabulary>> read_vocabulary(std::string_view list) {
  auto vocabulary = std::make_unique<Vocabulary>();
  std::deque<std::string> decoded;
  HR_ASSIGN_OR_RETURN(const ListedIds ids, read_ids(list, decoded));
  size_t num_bytes = 0;
  for (const auto& [token, id] : ids) num_bytes += token.size();
  vocabulary->reserve(ids.size(), num_bytes);
  HR_RETURN_IF_ERROR(vocabulary->add_all(ids));
  return vocabulary;
}

// Reads a large list of token -> id beside the rest of the file.
class VocabularyReader {
 public:
  void begin(std::string_view list) {
    if (thread_) return;
    list_ = list;
    thread_ = start_beside(list.size() > kLargeList && list.starts_with('{'), [this] { vocabulary_ = read_vocabulary(list_); });
  }
  // Of the list that counts, whether it was begun or not.
  Result<std::unique_ptr<Vocabulary>> finish(std::string_view list) {
    const bool begun = thread_ && list.data() == list_.data();
    thread_.reset();
    return begun ? std::move(vocabulary_) : read_vocabulary(list);
  }

 private:
  std::string_view list_;
  Result<std::unique_ptr<Vocabulary>> vocabulary_;
  std::optional<std::jthread> thread_;  // the last member: it is waited for before the others go
};

Status read_model(const json& file, const JsonLists& lists, VocabularyReader& reader, bool byte_level, Parts& parts) {
  const json& model = file.at("model");
  const std::string type = model_type(model);
  if (type == "Unigram") return read_unigram(file, model, lists.vocab, parts);
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel") return unsupported("model", type);
  std::deque<std::string> decoded;
  Result<Merges> merges;
  if (type == "BPE") merges = read_merges(lists.merges, decoded);
  HR_ASSIGN_OR_RETURN(auto vocabulary, reader.finish(lists.vocab));
  if (type == "BPE") {
    if (!merges) return merges.error();
    HR_ASSIGN_OR_RETURN(parts.model, read_bpe(model, *merges, *vocabulary, byte_level));
  } else if (type == "WordPiece") {
    WordPiece::Options options{.max_chars = whole(model, "max_input_chars_per_word", size_t{100}),
                               .unk_id = token_or_none(model, "unk_token", *vocabulary)};
    options.continuing_prefix = model.value("continuing_subword_prefix", std::string("##"));
    parts.model = std::make_unique<WordPiece>(*vocabulary, std::move(options));
  } else {
    parts.model = std::make_unique<WordLevel>(*vocabulary, token_or_none(model, "unk_token", *vocabulary));
  }
  read_added_tokens(file, *vocabulary, parts);
  parts.vocabulary = std::move(vocabulary);
  return {};
}

// --- normalizers ---

Result<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = digits.find(text[i]);
    if (digit == digits.npos) {
      return error(Code::malformed, "tokenizer.json: precompiled_charsmap: byte {} is not of base64", i);
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 > 0) out.push_back(static_cast<char>(bits >> (6 - i % 4 * 2)));
  }
  return out;
}

Result<NormalizerPtr> read_normalizer(const json& component) {
  const std::string type = type_of(component);
  if (type == "Sequence") {
    std::vector<NormalizerPtr> steps;
    for (const json& part : component.at("normalizers")) {
      HR_ASSIGN_OR_RETURN(NormalizerPtr step, read_normalizer(part));
      steps.push_back(std::move(step));
    }
    return normalize_in_sequence(std::move(steps));
  }
  if (type == "NFC") return to_form(UnicodeForm::nfc);
  if (type == "NFD") return to_form(UnicodeForm::nfd);
  if (type == "NFKC") return to_form(UnicodeForm::nfkc);
  if (type == "NFKD") return to_form(UnicodeForm::nfkd);
  if (type == "Lowercase") return lowercase_all();
  if (type == "StripAccents") return strip_accents();
  if (type == "Strip")
    return strip_ends(component.value("strip_left", true), component.value("strip_right", true));
  if (type == "Prepend") return prepend_text(component.at("prepend").get<std::string>());
  if (type == "Replace") {
    const json& pattern = component.at("pattern");
    auto content = component.at("content").get<std::string>();
    const bool text = pattern.contains("String");
    std::string from = pattern.at(text ? "String" : "Regex").get<std::string>();
    // Nothing is found everywhere, as the regular expression is.
    if (text && !from.empty()) return replace_text(std::move(from), std::move(content));
    HR_ASSIGN_OR_RETURN(Regex regex, Regex::compile(from));
    return replace_regex(std::move(regex), std::move(content));
  }
  if (type == "Nmt") return clean_for_translation();
  if (type == "ByteLevel") return spell_in_byte_alphabet();
  if (type == "Precompiled") {
    HR_ASSIGN_OR_RETURN(const std::string blob,
                        from_base64(component.at("precompiled_charsmap").get_ref<const std::string&>()));
    HR_ASSIGN_OR_RETURN(Charsmap map, Charsmap::parse(blob));
    return apply_charsmap(std::move(map), CharsmapRule::graphemes);
  }
  if (type == "BertNormalizer") {
    BertOptions options{.clean_text = component.value("clean_text", true),
                        .chinese_chars = component.value("handle_chinese_chars", true),
                        .lowercase = component.value("lowercase", true)};
    // Not said: accents go when letters become small.
    const json& accents = component.value("strip_accents", json());
    options.strip_accents = accents.is_null() ? options.lowercase : accents.get<bool>();
    return bert_normalizer(options);
  }
  return tl::unexpected(unsupported("normalizer", type));
}

// --- pre-tokenizers ---

Result<SplitBehavior> read_behavior(const json& component, const char* otherwise) {
  const std::string name = component.value("behavior", otherwise);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return error(Code::malformed, "tokenizer.json: split behavior \"{}\" is not known", name);
}

Result<PreTokenizerPtr> read_split(const json& component) {
  HR_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(component, "Removed"));
  const bool invert = component.value("invert", false);
  const json& pattern = component.at("pattern");
  const bool text = pattern.contains("String");
  const std::string regex = pattern.at(text ? "String" : "Regex").get<std::string>();
  if (text && !regex.empty()) return split_by_string(regex, behavior, invert);
  const auto known = find_split_pattern(regex);
  // The published patterns match everything, so that keeping matches and keeping all is the same.
  const bool keeps_all =
      behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert);
  if (known && keeps_all) return split_by_pattern(*known);
  return split_by_regex(regex, behavior, invert);
}

Result<PreTokenizerPtr> read_metaspace(const json& component) {
  std::string scheme = component.value("prepend_scheme", "always");
  if (!component.contains("prepend_scheme") && !component.value("add_prefix_space", true)) scheme = "never";
  const PrependScheme prepend = scheme == "always"  ? PrependScheme::always
                                : scheme == "first" ? PrependScheme::first
                                                    : PrependScheme::never;
  return metaspace(component.value("replacement", std::string("\u2581")), prepend,
                   component.value("split", true));
}

// A Sequence's parts, and theirs, in order.
void flatten(const json& component, std::vector<const json*>& out) {
  if (component.is_null()) return;
  if (type_of(component) != "Sequence") {
    out.push_back(&component);
    return;
  }
  for (const json& part : component.at("pretokenizers")) flatten(part, out);
}

// `spells`: its words come out in the byte alphabet.
Status read_pre_tokenizer(const json& component, bool spells, PreTokenizers& steps) {
  const std::string type = type_of(component);
  if (type == "ByteLevel") {
    if (component.value("add_prefix_space", true)) steps.push_back(add_prefix_space());
    if (component.value("use_regex", true)) steps.push_back(split_by_pattern(SplitPattern::gpt2));
    if (spells) steps.push_back(spell_bytes_of_words());
  } else if (type == "Split") {
    HR_ASSIGN_OR_RETURN(PreTokenizerPtr step, read_split(component));
    steps.push_back(std::move(step));
  } else if (type == "Metaspace") {
    HR_ASSIGN_OR_RETURN(PreTokenizerPtr step, read_metaspace(component));
    steps.push_back(std::move(step));
  } else if (type == "Punctuation") {
    HR_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(component, "Isolated"));
    steps.push_back(split_punctuation(behavior));
  } else if (type == "CharDelimiterSplit") {
    steps.push_back(
        split_by_string(component.at("delimiter").get<std::string>(), SplitBehavior::removed, false));
  } else if (type == "Digits") {
    steps.push_back(split_digits(component.value("individual_digits", false)));
  } else if (type == "Whitespace") {
    steps.push_back(split_words());
  } else if (type == "WhitespaceSplit") {
    steps.push_back(split_white_space());
  } else if (type == "BertPreTokenizer") {
    steps.push_back(split_as_bert());
  } else if (type == "UnicodeScripts") {
    steps.push_back(split_scripts());
  } else if (type == "FixedLength") {
    const auto length = whole(component, "length", size_t{5});
    if (length == 0) return make_status(Code::malformed, "tokenizer.json: FixedLength: want a length above 0");
    steps.push_back(split_fixed_length(length));
  } else {
    return unsupported("pre-tokenizer", type);
  }
  return {};
}

// True when the model sees raw bytes: a ByteLevel step is the last one and the model's tokens can be spelled byte by byte. Any
// other ByteLevel step spells its words out.
Result<bool> read_pre_tokenizers(const json& component, const json& model, PreTokenizers& steps) {
  std::vector<const json*> parts;
  flatten(component, parts);
  const bool plain_bpe = model_type(model) == "BPE" && string_or_empty(model, "continuing_subword_prefix").empty() &&
                         string_or_empty(model, "end_of_word_suffix").empty();
  const bool raw_bytes = plain_bpe && !parts.empty() && type_of(*parts.back()) == "ByteLevel";
  for (const json* part : parts) {
    HR_RETURN_IF_ERROR(read_pre_tokenizer(*part, !(raw_bytes && part == parts.back()), steps));
  }
  return raw_bytes;
}

// --- post-processors ---

// `texts`: how many there are, A or A and B.
Status read_template(const json& items, const json& special_tokens, int texts, std::vector<PostProcessor::Item>& out) {
  out.clear();
  for (const json& item : items) {
    if (item.contains("Sequence")) {
      const json& text = item.at("Sequence");
      const int which = text.at("id") == "A" ? 0 : text.at("id") == "B" ? 1 : texts;
      if (which >= texts) {
        return make_status(Code::malformed, "tokenizer.json: template for {} text(s): there is no text {}", texts,
                           text.at("id").dump());
      }
      out.push_back({{}, which, whole(text, "type_id", uint8_t{0})});
      continue;
    }
    const json& special = item.at("SpecialToken");
    const json& ids = special_tokens.at(special.at("id").get<std::string>()).at("ids");
    PostProcessor::Item added{{}, -1, whole(special, "type_id", uint8_t{0})};
    for (const json& id : ids) added.ids.push_back(whole<int32_t>(id));
    out.push_back(std::move(added));
  }
  return {};
}

Status read_post_processor(const json& component, PostProcessor& post) {
  if (component.is_null()) return {};
  const std::string type = type_of(component);
  if (type == "Sequence") {
    for (const json& part : component.at("processors")) HR_RETURN_IF_ERROR(read_post_processor(part, post));
    return {};
  }
  if ((type == "ByteLevel" || type == "RobertaProcessing") && component.value("trim_offsets", true)) {
    post.trim = PostProcessor::Trim{component.value("add_prefix_space", true)};
  }
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") {
    const json& special = component.value("special_tokens", json::object());
    HR_RETURN_IF_ERROR(read_template(component.at("single"), special, 1, post.single));
    return read_template(component.at("pair"), special, 2, post.pair);
  }
  if (type != "BertProcessing" && type != "RobertaProcessing") return unsupported("post-processor", type);
  const PostProcessor::Item cls{{whole<int32_t>(component.at("cls").at(1))}};
  const int32_t sep = whole<int32_t>(component.at("sep").at(1));
  const bool bert = type == "BertProcessing";
  const uint8_t second = bert ? 1 : 0;
  post.single = {cls, {{}, 0}, {{sep}}};
  post.pair = {
      cls, {{}, 0}, {bert ? std::vector{sep} : std::vector{sep, sep}}, {{}, 1, second}, {{sep}, -1, second}};
  return {};
}

// --- decoders ---

Status read_decoder(const json& component, std::vector<DecoderPtr>& steps) {
  if (component.is_null()) return {};
  const std::string type = type_of(component);
  if (type == "Sequence") {
    for (const json& part : component.at("decoders")) HR_RETURN_IF_ERROR(read_decoder(part, steps));
  } else if (type == "ByteLevel") {
    steps.push_back(decode_byte_level());
  } else if (type == "Replace") {
    const json& pattern = component.at("pattern");
    auto content = component.at("content").get<std::string>();
    const bool text = pattern.contains("String");
    std::string from = pattern.at(text ? "String" : "Regex").get<std::string>();
    if (text && !from.empty()) {
      steps.push_back(decode_replace(std::move(from), std::move(content)));
    } else {
      HR_ASSIGN_OR_RETURN(Regex regex, Regex::compile(from));
      steps.push_back(decode_replace_regex(std::move(regex), std::move(content)));
    }
  } else if (type == "ByteFallback") {
    steps.push_back(decode_byte_fallback());
  } else if (type == "Fuse") {
    steps.push_back(decode_fuse());
  } else if (type == "Strip") {
    steps.push_back(decode_strip(component.value("content", " "), whole(component, "start", size_t{0}),
                                 whole(component, "stop", size_t{0})));
  } else if (type == "Metaspace") {
    const bool prefix = component.contains("prepend_scheme") ? component.at("prepend_scheme") != "never"
                                                             : component.value("add_prefix_space", true);
    steps.push_back(decode_metaspace(component.value("replacement", std::string("\u2581")), prefix));
  } else if (type == "WordPiece") {
    steps.push_back(
        decode_wordpiece(component.value("prefix", std::string("##")), component.value("cleanup", true)));
  } else if (type == "BPEDecoder") {
    steps.push_back(decode_bpe(component.value("suffix", std::string("</w>"))));
  } else if (type == "CTC") {
    steps.push_back(decode_ctc(component.value("pad_token", std::string("<pad>")),
                               component.value("word_delimiter_token", std::string("|")), component.value("cleanup", true)));
  } else {
    return unsupported("decoder", type);
  }
  return {};
}

// --- truncation and padding ---

Result<Side> read_side(const json& component) {
  const std::string side = component.value("direction", "Right");
  if (side == "Right") return Side::right;
  if (side == "Left") return Side::left;
  return error(Code::malformed, "tokenizer.json: direction \"{}\" is not Left or Right", side);
}

Result<size_t> read_length(const json& value, const char* name) {
  const auto length = whole<int64_t>(value);
  if (length < 0 || length > static_cast<int64_t>(Padding::kMaxLength)) {
    return error(Code::malformed, "tokenizer.json: padding: {}: want 0 to {}, got {}", name, Padding::kMaxLength, length);
  }
  return static_cast<size_t>(length);
}

Result<Truncation> read_truncation(const json& component) {
  Truncation rule{.max_length = whole<size_t>(component.at("max_length")), .stride = whole(component, "stride", size_t{0})};
  const std::string strategy = component.value("strategy", "LongestFirst");
  if (strategy == "OnlyFirst") {
    rule.strategy = Truncation::Strategy::only_first;
  } else if (strategy == "OnlySecond") {
    rule.strategy = Truncation::Strategy::only_second;
  } else if (strategy != "LongestFirst") {
    return error(Code::malformed, "tokenizer.json: truncation: strategy \"{}\" is not known", strategy);
  }
  HR_ASSIGN_OR_RETURN(rule.side, read_side(component));
  return rule;
}

Result<Padding> read_padding(const json& component) {
  Padding rule{.id = whole(component, "pad_id", 0)};
  const json& strategy = component.at("strategy");
  if (strategy.is_object()) {
    HR_ASSIGN_OR_RETURN(rule.fixed, read_length(strategy.at("Fixed"), "Fixed"));
  } else if (strategy != "BatchLongest") {
    return error(Code::malformed, "tokenizer.json: padding: strategy {} is not known", strategy.dump());
  }
  if (const json multiple = component.value("pad_to_multiple_of", json()); !multiple.is_null()) {
    HR_ASSIGN_OR_RETURN(rule.multiple, read_length(multiple, "pad_to_multiple_of"));
  }
  HR_ASSIGN_OR_RETURN(const size_t type_id, read_length(component.value("pad_type_id", json(0)), "pad_type_id"));
  if (type_id > UINT8_MAX) return error(Code::unsupported, "tokenizer.json: padding: pad_type_id {}", type_id);
  rule.type_id = static_cast<uint8_t>(type_id);
  HR_ASSIGN_OR_RETURN(rule.side, read_side(component));
  return rule;
}

Result<std::unique_ptr<Tokenizer>> load(const json& file, const JsonLists& lists, VocabularyReader& reader) {
  const auto part = [&](const char* name) { return file.value(name, json()); };
  Parts parts;
  if (const json normalizer = part("normalizer"); !normalizer.is_null()) {
    HR_ASSIGN_OR_RETURN(parts.normalizer, read_normalizer(normalizer));
  }
  const json pre_tokenizer = part("pre_tokenizer");
  HR_ASSIGN_OR_RETURN(const bool byte_level, read_pre_tokenizers(pre_tokenizer, file.at("model"), parts.pre_tokenizers));
  HR_RETURN_IF_ERROR(read_model(file, lists, reader, byte_level, parts));
  if (parts.normalizer) {
    // The library decodes a token that it looks for in the normalized text to what it looks for.
    for (AddedToken& token : parts.added) {
      if (!token.normalized) continue;
      AlignedText content;
      content.append(token.content, {0, 0});
      HR_RETURN_IF_ERROR(parts.normalizer->apply(content));
      token.spelling = std::move(content.text);
    }
  }
  HR_RETURN_IF_ERROR(read_post_processor(part("post_processor"), parts.post));
  HR_RETURN_IF_ERROR(read_decoder(part("decoder"), parts.decoders));
  if (const json truncation = part("truncation"); !truncation.is_null()) {
    HR_ASSIGN_OR_RETURN(parts.truncation, read_truncation(truncation));
  }
  if (const json padding = part("padding"); !padding.is_null()) {
    HR_ASSIGN_OR_RETURN(parts.padding, read_padding(padding));
  }
  return PipelineTokenizer::make(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tokenizer_json(std::string_view text) {
  try {
    VocabularyReader reader;
    const JsonLists lists = take_lists(text, [&](std::string_view vocab) { reader.begin(vocab); });
    return load(json::parse(lists.rest), lists, reader);
  } catch (const json::exception& e) {
    return error(Code::malformed, "tokenizer.json: {}", e.what());
  }
}

}  // namespace headrace::text

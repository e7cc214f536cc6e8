#include "text/vocab_export.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/json_lists.h"
#include "text/named_split.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

using nlohmann::json;

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Where tokenizers part ways: contractions, numbers, white space, line breaks, scripts, marks, emoji, punctuation.
constexpr std::string_view kTrial =
    "Hello, World! It's 12345.678 o'clock; they'LL say WE'VE 1 2 33 444 5555.  Two   spaces\tand\ttabs \n\n and\r\nlines  \n"
    "  indented()\n\n\n{\"key\": [1, -2e10, null]} // a_b-c/d\\e @x #y $z% ^&* <|x|> ~`'\"?!...---===\n"
    "na\xC3\xAFve caf\xC3\xA9 \xC3\x9F \xCE\xA9 \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97\xE7\xAC\xA6"
    "\xE3\x80\x82\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 \xD8\xA7\xD9\x84\xD8\xB9\xD8\xB1\xD8\xA8\xD9\x8A\xD8\xA9 "
    "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80 \xF0\x9F\x99\x82\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xE2\x82\xAC\xC2\xBD\xC2\xB2 "
    "x\xC2\xA0y CamelCase HTTPServer end ";

Status cannot(std::string_view what) {
  return make_status(Code::unsupported, "tokenizer.json: {}: the vocabulary of a GGUF file cannot say this", what);
}

std::string type_of(const json& component) { return component.at("type").get<std::string>(); }
bool empty_or_absent(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() || *found == "";
}

// --- byte-level BPE ---

void flatten(const json& component, std::vector<const json*>& out) {
  if (component.is_null()) return;
  if (type_of(component) != "Sequence") {
    out.push_back(&component);
    return;
  }
  for (const json& part : component.at("pretokenizers")) flatten(part, out);
}

Result<std::string> pre_tokenizer_name(const std::vector<const json*>& parts, bool ignore_merges) {
  SplitSteps steps{.ignore_merges = ignore_merges};
  for (const json* part : parts) {
    const std::string type = type_of(*part);
    if (type == "ByteLevel" && part == parts.back() && !part->value("add_prefix_space", true)) {
      if (part->value("use_regex", true)) steps.pattern = SplitPattern::gpt2;
      continue;
    }
    // Steps stand in this order in every name; a pattern is the last.
    if (type == "Digits" && part->value("individual_digits", false) && !steps.pattern) {
      steps.digits_apart = true;
      continue;
    }
    const bool keeps_all = type == "Split" && (part->value("behavior", "") == "Isolated"
                                                   ? !part->value("invert", false)
                                                   : part->value("behavior", "") == "Removed" && part->value("invert", false));
    if (!keeps_all || !part->at("pattern").contains("Regex") || steps.pattern || steps.digits_apart) {
      return tl::unexpected(cannot(fmt::format("pre-tokenizer {}", part->dump().substr(0, 200))));
    }
    const std::string regex = part->at("pattern").at("Regex");
    steps.pattern = find_split_pattern(regex);
    if (!steps.pattern) steps.regexes.push_back(regex);
  }
  const std::string_view name = find_split_name(steps);
  if (!name.empty()) return std::string(name);
  return error(Code::unsupported,
               "tokenizer.json: this pre-tokenizer is none of those that GGUF files have names for (tokenizer.ggml.pre){}",
               steps.regexes.empty() ? std::string() : fmt::format(": \"{}\"", steps.regexes.front().substr(0, 200)));
}

Status say_byte_level(const json& file, const std::vector<const json*>& parts, const Merges& merges, VocabSpec& spec) {
  const json& normalizer = file.value("normalizer", json());
  if (!normalizer.is_null() && type_of(normalizer) != "NFC") return cannot(fmt::format("normalizer {}", type_of(normalizer)));
  spec.model = "gpt2";
  HR_ASSIGN_OR_RETURN(spec.pre, pre_tokenizer_name(parts, file.at("model").value("ignore_merges", false)));
  for (const auto& [left, right] : merges) spec.merges.push_back(fmt::format("{} {}", left, right));
  return {};
}

// --- SentencePiece's BPE ---

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

// Token ids that merges make, in the order of the merges; -1 for one outside the vocabulary of the file.
std::vector<int32_t> made_by(const Merges& merges, const Tokenizer& tokenizer, size_t num_tokens) {
  std::vector<int32_t> made;
  for (const auto& [left, right] : merges) {
    const int32_t id = tokenizer.token_id(std::string(left) + std::string(right));
    made.push_back(id < static_cast<int32_t>(num_tokens) ? id : -1);
  }
  return made;
}

// How many merges at the front of the list belong to tokens whose merges do not stand together: what SentencePiece was told to
// keep whole (runs of spaces and line breaks), which it finds before its model. The library's merges stand in for that.
size_t merges_of_whole_tokens(const std::vector<int32_t>& made, size_t num_tokens) {
  std::vector<size_t> first(num_tokens, made.size()), count(num_tokens);
  size_t end = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i] < 0) continue;
    first[made[i]] = std::min(first[made[i]], i);
    if (i - first[made[i]] != count[made[i]]++) end = i + 1;
  }
  return end;
}

// A score is the rank of a token among those that merges make. SentencePiece joins any two neighbours whose text is a token: the
// list must hold every way to make a token of two others, as one that was made of SentencePiece's vocabulary does.
Status say_scores(const Tokenizer& tokenizer, const Merges& merges, VocabSpec& spec) {
  spec.scores.assign(spec.tokens.size(), -1000.0f);  // the value that files give to what is never joined
  const std::vector<int32_t> made = made_by(merges, tokenizer, spec.tokens.size());
  const size_t whole = merges_of_whole_tokens(made, spec.tokens.size());
  for (size_t i = 0; i < whole; ++i) {
    if (made[i] >= 0) spec.types[made[i]] = kUserDefined;
  }
  int32_t last = -1, rank = 0;
  for (size_t i = whole; i < made.size(); ++i) {
    if (made[i] < 0 || made[i] == last || spec.types[made[i]] != kNormal) continue;
    last = made[i];
    spec.scores[last] = -static_cast<float>(rank++);
  }
  std::vector<std::pair<std::string_view, std::string_view>> known(merges.begin(), merges.end());
  std::ranges::sort(known);
  const auto joins = [&](std::string_view part) {
    const int32_t id = tokenizer.token_id(part);
    return id >= 0 && id < static_cast<int32_t>(spec.types.size()) && spec.types[id] == kNormal;
  };
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.types[id] != kNormal) continue;
    const std::string_view token = spec.tokens[id];
    for (size_t at = decode_utf8(token).length; at < token.size(); at += decode_utf8(token.substr(at)).length) {
      const std::pair split(token.substr(0, at), token.substr(at));
      if (joins(split.first) && joins(split.second) && !std::ranges::binary_search(known, split)) {
        return cannot(fmt::format("no merge of \"{}\" and \"{}\"", split.first, split.second));
      }
    }
  }
  // Such tokens are looked for in the text itself.
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.types[id] == kUserDefined) replace_all(spec.tokens[id], kSpace, " ");
  }
  return {};
}

// --- both ---

Status say_tokens(const json& file, const Tokenizer& tokenizer, const ExportIds& ids, VocabSpec& spec) {
  const bool byte_fallback = file.at("model").value("byte_fallback", false);
  for (int32_t id = 0; id < ids.num_tokens; ++id) {
    std::string token = tokenizer.token_text(id);
    spec.types.push_back(token.empty() ? kUnused : kNormal);
    if (byte_fallback && token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) spec.types.back() = kByte;
    if (token.empty()) {
      token = fmt::format("[PAD{}]", id);
      if (tokenizer.token_id(token) >= 0) return cannot(fmt::format("a token \"{}\" beside ids without one", token));
    }
    spec.tokens.push_back(std::move(token));
  }
  for (int32_t id = ids.num_tokens; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.token_text(id).empty() && !tokenizer.is_special(id)) {
      return make_status(Code::malformed, "tokenizer.json: token {} \"{}\": the embedding has {} rows", id, tokenizer.token_text(id),
                         ids.num_tokens);
    }
  }
  const json added = file.value("added_tokens", json::array());
  for (const json& token : added) {
    const int32_t id = tokenizer.token_id(token.at("content").get<std::string>());
    if (id < 0 || id >= ids.num_tokens) continue;
    spec.types[id] = token.value("special", false) ? kControl : kUserDefined;
  }
  const json unknown = file.at("model").value("unk_token", json());
  if (unknown.is_string()) {
    spec.unk_id = tokenizer.token_id(unknown.get<std::string>());
    if (spec.unk_id >= ids.num_tokens) spec.unk_id = -1;
    if (spec.unk_id >= 0) spec.types[spec.unk_id] = kUnknown;
  }
  return {};
}

// What stands around a text: nothing, or BOS before it, EOS after it.
Status say_frame(const Tokenizer& tokenizer, VocabSpec& spec) {
  HR_ASSIGN_OR_RETURN(const Encoding framed, tokenizer.encode("a"));
  HR_ASSIGN_OR_RETURN(const Encoding plain, tokenizer.encode("a", {.add_special_tokens = false}));
  const auto begin = std::search(framed.ids.begin(), framed.ids.end(), plain.ids.begin(), plain.ids.end());
  if (begin == framed.ids.end()) return cannot("post-processor");
  const std::vector<int32_t> before(framed.ids.begin(), begin);
  const std::vector<int32_t> after(begin + static_cast<int64_t>(plain.ids.size()), framed.ids.end());
  if ((!before.empty() && before != std::vector{spec.bos_id}) || (!after.empty() && after != std::vector{spec.eos_id})) {
    return cannot("a post-processor that adds other tokens than BOS before a text and EOS after it");
  }
  spec.add_bos = !before.empty();
  spec.add_eos = !after.empty();
  return {};
}

// Whether the specification gives the ids of the original.
Result<bool> agrees(const Tokenizer& original, const VocabSpec& spec) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> copy, Tokenizer::from_vocab(spec));
  HR_ASSIGN_OR_RETURN(const Encoding want, original.encode(kTrial));
  HR_ASSIGN_OR_RETURN(const Encoding got, copy->encode(kTrial));
  return want.ids == got.ids;
}

Result<VocabSpec> say(const JsonLists& lists, const Tokenizer& tokenizer, const ExportIds& ids) {
  const json file = json::parse(lists.rest);
  const json& model = file.at("model");
  const std::string type = model.value("type", "BPE");
  if (type != "BPE") return tl::unexpected(cannot(fmt::format("model {}", type)));
  if (!empty_or_absent(model, "continuing_subword_prefix") || !empty_or_absent(model, "end_of_word_suffix")) {
    return tl::unexpected(cannot("a prefix or suffix of words"));
  }
  VocabSpec spec;
  spec.bos_id = ids.bos_id;
  spec.eos_id = ids.eos_id;
  spec.pad_id = ids.pad_id;
  HR_RETURN_IF_ERROR(say_tokens(file, tokenizer, ids, spec));
  HR_RETURN_IF_ERROR(say_frame(tokenizer, spec));
  std::deque<std::string> decoded;
  HR_ASSIGN_OR_RETURN(const Merges merges, read_merges(lists.merges, decoded));
  const json pre_tokenizer = file.value("pre_tokenizer", json());
  std::vector<const json*> parts;
  flatten(pre_tokenizer, parts);
  std::vector<bool> prefixes = {false};
  if (!parts.empty() && type_of(*parts.back()) == "ByteLevel") {
    HR_RETURN_IF_ERROR(say_byte_level(file, parts, merges, spec));
  } else if (model.value("byte_fallback", false)) {
    spec.model = "llama";
    HR_RETURN_IF_ERROR(say_scores(tokenizer, merges, spec));
    prefixes = {false, true};  // Whether a space goes in front is written in one of several places.
  } else {
    return tl::unexpected(cannot("BPE that is neither byte-level nor falls back to bytes"));
  }
  for (const bool prefix : prefixes) {
    spec.add_space_prefix = prefix;
    HR_ASSIGN_OR_RETURN(const bool same, agrees(tokenizer, spec));
    if (same) return spec;
  }
  return error(Code::unsupported, "tokenizer.json: written as a GGUF vocabulary ({}{}{}) it gives other ids for a trial text", spec.model,
               spec.pre.empty() ? "" : ", ", spec.pre);
}

}  // namespace

Result<VocabSpec> export_vocab(std::string_view text, const Tokenizer& tokenizer, const ExportIds& ids) {
  try {
    return say(take_lists(text), tokenizer, ids);
  } catch (const json::exception& e) {
    return error(Code::malformed, "tokenizer.json: {}", e.what());
  }
}

}  // namespace headrace::text

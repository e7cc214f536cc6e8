// Tokenizer::from_tokenizer_json: the file format of the Hugging Face `tokenizers` library.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "text/bpe.h"
#include "text/pipeline_tokenizer.h"

namespace headrace::text {
namespace {

using nlohmann::json;
using Parts = PipelineTokenizer::Parts;

// The file's own mistakes (a key that is missing, a value of another type) reach us as exceptions of the JSON
// library; the one catch is in from_tokenizer_json.

std::string type_of(const json& component) {
  return component.at("type").get<std::string>();
}

Status unsupported(std::string_view what, std::string_view type) {
  return make_status(Code::unsupported, "tokenizer.json: {} \"{}\" is not implemented", what, type);
}

void read_added_tokens(const json& file, const Vocabulary& vocabulary, Parts& parts) {
  const auto found = file.find("added_tokens");
  if (found == file.end() || found->is_null()) return;
  for (const json& row : *found) {
    AddedToken token{.id = row.at("id").get<int32_t>(),
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

Status read_vocabulary(const json& model, Vocabulary& vocabulary) {
  const auto& entries = model.at("vocab").get_ref<const json::object_t&>();
  size_t num_bytes = 0;
  for (const auto& [token, id] : entries) num_bytes += token.size();
  vocabulary.reserve(entries.size(), num_bytes);
  for (const auto& [token, id] : entries) HR_RETURN_IF_ERROR(vocabulary.add(token, id.get<int64_t>()));
  return {};
}

Result<std::vector<std::pair<std::string_view, std::string_view>>> read_merges(const json& model) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const json& merge : model.at("merges")) {
    if (merge.is_array() && merge.size() == 2) {
      pairs.emplace_back(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
      continue;
    }
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return error(Code::malformed, "tokenizer.json: merge {}: want \"left right\", got \"{}\"", pairs.size(),
                   text);
    }
    pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return pairs;
}

std::string string_or_empty(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? std::string() : found->get<std::string>();
}

Status read_model(const json& file, bool byte_level, Parts& parts) {
  const json& model = file.at("model");
  const std::string type = model.value("type", "BPE");
  if (type != "BPE" || !byte_level)
    return unsupported("model", byte_level ? type : type + " without ByteLevel");
  auto vocabulary = std::make_unique<Vocabulary>();
  HR_RETURN_IF_ERROR(read_vocabulary(model, *vocabulary));
  HR_ASSIGN_OR_RETURN(const auto merges, read_merges(model));
  Bpe::Options options{.byte_level = true,
                       .ignore_merges = model.value("ignore_merges", false),
                       .byte_fallback = model.value("byte_fallback", false),
                       .fuse_unk = model.value("fuse_unk", false)};
  if (const std::string unk = string_or_empty(model, "unk_token"); !unk.empty())
    options.unk_id = vocabulary->find(unk);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!string_or_empty(model, key).empty()) return unsupported("byte-level BPE with", key);
  }
  HR_ASSIGN_OR_RETURN(parts.model, Bpe::make(*vocabulary, merges, std::move(options)));
  read_added_tokens(file, *vocabulary, parts);
  parts.vocabulary = std::move(vocabulary);
  return {};
}

Status read_split(const json& component, Parts& parts) {
  const json& pattern = component.at("pattern");
  const std::string regex = string_or_empty(pattern, "Regex");
  const auto known = find_split_pattern(regex);
  if (!known || component.at("behavior") != "Isolated" || component.value("invert", false)) {
    return unsupported("Split with", pattern.dump());
  }
  parts.pre_tokenizers.push_back(split_by_pattern(*known));
  return {};
}

// `byte_level` becomes true at a ByteLevel component, which must be the last one.
Status read_pre_tokenizer(const json& component, Parts& parts, bool& byte_level) {
  if (component.is_null()) return {};
  const std::string type = type_of(component);
  if (byte_level) return unsupported("after ByteLevel, the pre-tokenizer", type);
  if (type == "Sequence") {
    for (const json& part : component.at("pretokenizers")) {
      HR_RETURN_IF_ERROR(read_pre_tokenizer(part, parts, byte_level));
    }
    return {};
  }
  if (type == "Split") return read_split(component, parts);
  if (type == "Digits") {
    parts.pre_tokenizers.push_back(split_digits(component.value("individual_digits", false)));
    return {};
  }
  if (type == "ByteLevel") {
    if (component.value("add_prefix_space", true)) parts.pre_tokenizers.push_back(add_prefix_space());
    if (component.value("use_regex", true))
      parts.pre_tokenizers.push_back(split_by_pattern(SplitPattern::gpt2));
    byte_level = true;
    return {};
  }
  return unsupported("pre-tokenizer", type);
}

Status read_post_processor(const json& component, Parts& parts) {
  if (component.is_null()) return {};
  const std::string type = type_of(component);
  if (type == "ByteLevel") return {};
  if (type == "Sequence") {
    for (const json& part : component.at("processors")) HR_RETURN_IF_ERROR(read_post_processor(part, parts));
    return {};
  }
  if (type != "TemplateProcessing") return unsupported("post-processor", type);
  const json& special = component.at("special_tokens");
  bool after = false;
  for (const json& item : component.at("single")) {
    if (item.contains("Sequence")) {
      after = true;
      continue;
    }
    for (const json& id : special.at(item.at("SpecialToken").at("id").get<std::string>()).at("ids")) {
      (after ? parts.frame.after : parts.frame.before).push_back(id.get<int32_t>());
    }
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> load(const json& file) {
  Parts parts;
  bool byte_level = false;
  if (const json& normalizer = file.value("normalizer", json()); !normalizer.is_null()) {
    return tl::unexpected(unsupported("normalizer", type_of(normalizer)));
  }
  HR_RETURN_IF_ERROR(read_pre_tokenizer(file.value("pre_tokenizer", json()), parts, byte_level));
  HR_RETURN_IF_ERROR(read_model(file, byte_level, parts));
  HR_RETURN_IF_ERROR(read_post_processor(file.value("post_processor", json()), parts));
  const json& decoder = file.value("decoder", json());
  if (decoder.is_null() || type_of(decoder) != "ByteLevel") {
    return tl::unexpected(unsupported("decoder", decoder.is_null() ? "null" : type_of(decoder)));
  }
  parts.byte_level_decoder = true;
  return PipelineTokenizer::make(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tokenizer_json(std::string_view text) {
  try {
    return load(json::parse(text));
  } catch (const json::exception& e) {
    return error(Code::malformed, "tokenizer.json: {}", e.what());
  }
}

}  // namespace headrace::text

#include "engine/text_parts.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "engine/vocab_spec.h"
#include "io/mapped_file.h"
#include "io/model_source.h"
#include "text/vocab_export.h"

namespace headrace::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The names that transformers hands to a template, beside the lists of further tokens.
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

fs::path folder_of(const io::ModelSource& source) {
  const fs::path path(source.path());
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path : path.parent_path();
}

Result<TextParts> from_metadata(io::VocabMetadata vocab) {
  TextParts parts;
  for (const int32_t id : {vocab.eos_id, vocab.eot_id}) {
    if (id >= 0) parts.end_ids.push_back(id);
  }
  if (!vocab.chat_template.empty()) {
    HR_ASSIGN_OR_RETURN(parts.chat_template, text::ChatTemplate::parse(vocab.chat_template));
  }
  HR_ASSIGN_OR_RETURN(parts.tokenizer, text::Tokenizer::from_vocab(to_spec(std::move(vocab))));
  for (const auto& [name, id] : {std::pair("bos_token", parts.tokenizer->bos_id()), std::pair("eos_token", parts.tokenizer->eos_id())}) {
    parts.special_tokens[name] = id >= 0 ? parts.tokenizer->token_text(id) : std::string();
  }
  return parts;
}

// An object, empty where the file is missing.
Result<Json> read_object(const fs::path& path) {
  const auto text = io::read_file(path);
  if (!text) return Json::object();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return error(Code::malformed, "{}: not a JSON object", path.string());
  return json;
}

// A token is written as its text or as an object with `content`.
Status add_special_tokens(const Json& json, const fs::path& path, TextParts& parts) {
  for (const char* name : kSpecialTokens) {
    const auto found = json.find(name);
    if (found == json.end() || found->is_null() || parts.special_tokens.contains(name)) continue;
    const auto content = found->is_object() ? found->find("content") : found;
    if ((found->is_object() && content == found->end()) || !content->is_string()) {
      return make_status(Code::malformed, "{}: {}: want a text, or an object with a text `content`", path.string(), name);
    }
    parts.special_tokens[name] = *content;
  }
  return {};
}

// The text under "chat_template", or the one named "default" of a list of {name, template}; empty where there is none.
Result<std::string> template_of(const Json& config, const fs::path& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  const auto text_of = [](const Json& item, const char* key) {
    const auto at = item.is_object() ? item.find(key) : item.end();
    return item.is_object() && at != item.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  for (const Json& item : *found) {
    if (text_of(item, "name") == "default") return text_of(item, "template");
  }
  return error(Code::malformed, "{}: chat_template: want a text, or a list of {{name, template}} with one named default",
               path.string());
}

struct TemplateText {
  std::string text;  // empty where the folder has none
  fs::path path;
};
Result<TemplateText> folder_template(const fs::path& folder) {
  const fs::path separate = folder / "chat_template.jinja", config_path = folder / "tokenizer_config.json";
  if (auto text = io::read_file(separate)) return TemplateText{std::move(*text), separate};
  HR_ASSIGN_OR_RETURN(const Json config, read_object(config_path));
  HR_ASSIGN_OR_RETURN(std::string text, template_of(config, config_path));
  return TemplateText{std::move(text), config_path};
}

Result<TextParts> from_folder(const fs::path& folder) {
  TextParts parts;
  const fs::path tokenizer = folder / "tokenizer.json", config_path = folder / "tokenizer_config.json",
                 map_path = folder / "special_tokens_map.json";
  const auto json = io::read_file(tokenizer);
  if (!json) {
    std::error_code ignored;
    if (!fs::exists(folder / "tokenizer.model", ignored)) return parts;
    return error(Code::unsupported,
                 "{}: holds a tokenizer.model and no tokenizer.json: write one with transformers "
                 "(AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))", folder.string());
  }
  auto opened = text::Tokenizer::from_tokenizer_json(*json);
  if (!opened) return tl::unexpected(opened.error().with_context(tokenizer.string()));
  parts.tokenizer = std::move(*opened);

  HR_ASSIGN_OR_RETURN(const Json map, read_object(map_path));
  HR_RETURN_IF_ERROR(add_special_tokens(map, map_path, parts));
  HR_ASSIGN_OR_RETURN(const Json config, read_object(config_path));
  HR_RETURN_IF_ERROR(add_special_tokens(config, config_path, parts));

  HR_ASSIGN_OR_RETURN(const TemplateText source, folder_template(folder));
  if (source.text.empty()) return parts;
  auto parsed = text::ChatTemplate::parse(source.text);
  if (!parsed) return tl::unexpected(parsed.error().with_context(source.path.string()));
  parts.chat_template = std::move(*parsed);
  return parts;
}

// The ids under `key` of a configuration: one, a list, or none.
std::vector<int32_t> configured_ids(const io::ConfigMap& config, std::string_view key) {
  const auto found = config.values().find(key);
  if (found == config.values().end()) return {};
  if (const auto* id = std::get_if<int64_t>(&found->second)) return {static_cast<int32_t>(*id)};
  const auto* ids = std::get_if<std::vector<int64_t>>(&found->second);
  return ids == nullptr ? std::vector<int32_t>() : std::vector<int32_t>(ids->begin(), ids->end());
}

// The special token that the tokenizer's files name, else the configuration's; -1 for none.
int32_t special_id(const TextParts& parts, const io::ConfigMap& config, const std::string& name) {
  if (const auto named = parts.special_tokens.find(name); named != parts.special_tokens.end()) {
    return parts.tokenizer->token_id(named->second);
  }
  const std::vector<int32_t> ids = configured_ids(config, name + "_id");
  return ids.empty() ? -1 : ids.front();
}

}  // namespace

Result<TextParts> open_text_parts(const io::ModelSource& source) {
  auto vocab = source.vocab();
  if (vocab) return from_metadata(std::move(*vocab));
  if (vocab.error().code() != Code::not_found) return tl::unexpected(vocab.error());
  return from_folder(folder_of(source));
}

Result<io::VocabMetadata> export_text_parts(const io::ModelSource& source) {
  const fs::path folder = folder_of(source);
  HR_ASSIGN_OR_RETURN(const TextParts parts, from_folder(folder));
  if (parts.tokenizer == nullptr) return error(Code::not_found, "{}: there is no tokenizer.json", folder.string());
  const io::SourceTensor* embedding = source.find("model.embed_tokens.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[0] > std::numeric_limits<int32_t>::max()) {
    return error(Code::malformed, "{}: want a token embedding with two dimensions", source.path());
  }
  const text::ExportIds ids{.num_tokens = static_cast<int32_t>(embedding->shape[0]),
                            .bos_id = special_id(parts, source.config(), "bos_token"),
                            .eos_id = special_id(parts, source.config(), "eos_token"),
                            .pad_id = special_id(parts, source.config(), "pad_token")};
  const std::string tokenizer_path = (folder / "tokenizer.json").string();
  HR_ASSIGN_OR_RETURN(const std::string json, io::read_file(tokenizer_path));
  auto spec = text::export_vocab(json, *parts.tokenizer, ids);
  if (!spec) return tl::unexpected(spec.error().with_context(folder.string()));
  io::VocabMetadata vocab = to_metadata(std::move(*spec));
  for (const int32_t id : configured_ids(source.config(), "eos_token_id")) {
    if (id == vocab.eos_id || id < 0 || id >= ids.num_tokens) continue;
    // GGUF has a key for the end of a turn beside that for the end of a text, and for no third.
    if (vocab.eot_id >= 0) log_warning("token {} ends an answer too; the file cannot say so", id);
    if (vocab.eot_id < 0) vocab.eot_id = id;
  }
  HR_ASSIGN_OR_RETURN(TemplateText chat, folder_template(folder));
  vocab.chat_template = std::move(chat.text);
  return vocab;
}

}  // namespace headrace::engine

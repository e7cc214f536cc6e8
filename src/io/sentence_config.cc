#include "io/sentence_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/mapped_file.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kModules = "modules.json";
constexpr const char* kLengths = "sentence_bert_config.json";
constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxModules = 64;

struct Module {
  std::string type;  // without the Python package before it
  std::string path;  // a folder's name, or ""
};

Result<std::string> read_small(const fs::path& path) {
  HR_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path.string()));
  if (file.bytes().size() > kMaxBytes) {
    return error(Code::malformed, "a file of {} bytes; want at most {}", file.bytes().size(), kMaxBytes);
  }
  return std::string(file.text());
}

Result<std::vector<Module>> parse_modules(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array() || json.size() > kMaxModules) {
    return error(Code::malformed, "want a JSON list of at most {} modules", kMaxModules);
  }
  std::vector<Module> modules;
  for (const Json& item : json) {
    const auto string_of = [&](const char* key) {
      const auto found = item.is_object() ? item.find(key) : item.end();
      return item.is_object() && found != item.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    Module module{string_of("type"), string_of("path")};
    module.type = module.type.substr(module.type.rfind('.') + 1);
    const std::string& path = module.path;
    if (module.type.empty() || module.type.size() > 100) {
      return error(Code::malformed, "module {}: want a type such as sentence_transformers.models.Pooling", modules.size());
    }
    if (path.find_first_of(std::string_view("/\\\0", 3)) != path.npos || path.starts_with('.') || path.size() > 255) {
      return error(Code::malformed, "module {}: path '{}': want the plain name of a folder beside the weights",
                   modules.size(), shown_name(path));
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

Result<ConfigMap> read_config(const fs::path& path) {
  HR_ASSIGN_OR_RETURN(const std::string text, read_small(path));
  return ConfigMap::from_json(text);
}

// One name as it is, or a flag for each way; several set mean that their vectors are joined.
Result<std::string> pooling_mode(const ConfigMap& config) {
  if (config.has("pooling_mode")) return config.get_string("pooling_mode");
  constexpr std::pair<const char*, const char*> kFlags[] = {
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"},
      {"pooling_mode_lasttoken", "last"}};
  std::string mode;
  for (const auto& [flag, name] : kFlags) {
    HR_ASSIGN_OR_RETURN(const bool set, config.get_bool_or(flag, false));
    if (set) mode += fmt::format("{}{}", mode.empty() ? "" : "+", name);
  }
  if (mode.empty()) return error(Code::malformed, "no pooling_mode_* is true: want one");
  return mode;
}

Status read_pooling(const fs::path& path, ConfigMap& config) {
  HR_ASSIGN_OR_RETURN(const ConfigMap pooling, read_config(path));
  HR_ASSIGN_OR_RETURN(std::string mode, pooling_mode(pooling));
  config.set("pooling_mode", std::move(mode));
  return {};
}

Status read_modules(const fs::path& folder, ConfigMap& config) {
  HR_ASSIGN_OR_RETURN(const std::string text, read_small(folder / kModules));
  HR_ASSIGN_OR_RETURN(const std::vector<Module> modules, parse_modules(text));
  std::vector<std::string> types;
  for (const Module& module : modules) {
    types.push_back(module.type);
    if (module.type != "Pooling") continue;
    const fs::path path = folder / module.path / "config.json";
    if (Status status = read_pooling(path, config); !status.ok()) {
      return status.with_context(fmt::format("{}/config.json", module.path));
    }
  }
  config.set("sentence_modules", std::move(types));
  return {};
}

Status read_lengths(const fs::path& folder, ConfigMap& config) {
  HR_ASSIGN_OR_RETURN(const ConfigMap lengths, read_config(folder / kLengths));
  if (lengths.has("max_seq_length")) {
    HR_ASSIGN_OR_RETURN(const int64_t length, lengths.get_int("max_seq_length", 1, 1 << 30));
    config.set("max_seq_length", length);
  }
  HR_ASSIGN_OR_RETURN(const bool lower, lengths.get_bool_or("do_lower_case", false));
  config.set("sentence_lower_case", lower);
  return {};
}

}  // namespace

Status read_sentence_config(const std::string& folder, ConfigMap& config) {
  constexpr std::pair<const char*, Status (*)(const fs::path&, ConfigMap&)> kFiles[] = {{kModules, read_modules},
                                                                                        {kLengths, read_lengths}};
  for (const auto& [name, read] : kFiles) {
    std::error_code ignored;
    if (!fs::exists(fs::path(folder) / name, ignored)) continue;
    if (Status status = read(folder, config); !status.ok()) {
      return status.with_context((fs::path(folder) / name).string());
    }
  }
  return {};
}

}  // namespace headrace::io

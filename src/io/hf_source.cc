// Opens the folder's files and presents them as one checkpoint.
#include "io/hf_source.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "io/sentence_config.h"
#include "io/shown_name.h"
#include "io/indexed_source.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxIndexBytes = size_t{32} << 20;
constexpr size_t kMaxShards = 9999;

Status check_shard_name(std::string_view name) {
  const bool plain = name.find_first_of(std::string_view("/\\\0", 3)) == name.npos && !name.starts_with('.');
  if (plain && name.ends_with(".safetensors")) return Status();
  return make_status(Code::malformed,
                     "shard '{}': want the plain name of a .safetensors file in the same folder",
                     shown_name(name));
}

// A checkpoint that wraps a language model in one with pictures or sound (model_type gemma3) keeps the model's keys in
// text_config and its tensors under a prefix. Headrace runs the language model: its keys and names are lifted, the rest stays
// where it is and is not read.
void lift_text_config(ConfigMap& config) {
  constexpr std::string_view kPrefix = "text_config.";
  if (config.get_string_or("model_type", "").value_or("") != "gemma3") return;
  std::vector<std::pair<std::string, ConfigMap::Value>> lifted;
  for (auto at = config.values().lower_bound(kPrefix); at != config.values().end() && at->first.starts_with(kPrefix); ++at) {
    lifted.emplace_back(at->first.substr(kPrefix.size()), at->second);
  }
  if (!lifted.empty()) config.set("model_type", std::string("gemma3_text"));
  for (auto& [key, value] : lifted) config.set(std::move(key), std::move(value));
}

// "language_model.model.norm.weight" and "model.language_model.norm.weight" are both "model.norm.weight".
std::string lift_tensor_name(const std::string& name) {
  constexpr std::string_view kOlder = "language_model.", kNewer = "model.language_model.";
  if (name.starts_with(kOlder)) return name.substr(kOlder.size());
  return name.starts_with(kNewer) ? "model." + name.substr(kNewer.size()) : name;
}

// generation_config.json often knows more ids that end an answer than config.json does (end of turn beside end of text): both count.
Status add_generation_config(const std::string& path, ConfigMap& config) {
  constexpr const char* kKey = "eos_token_id";
  HR_ASSIGN_OR_RETURN(const std::string json, read_file(path));
  HR_ASSIGN_OR_RETURN(const ConfigMap generation, ConfigMap::from_json(json));
  std::vector<int64_t> ids;
  for (const ConfigMap* map : {static_cast<const ConfigMap*>(&config), &generation}) {
    const auto found = map->values().find(kKey);
    if (found == map->values().end()) continue;
    const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
    std::vector<int64_t> more;
    if (list != nullptr) {
      more = *list;
    } else {
      HR_ASSIGN_OR_RETURN(const int64_t id, map->get_int(kKey, 0, std::numeric_limits<int32_t>::max()));
      more = {id};
    }
    for (const int64_t id : more) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  if (!ids.empty()) config.set(kKey, std::move(ids));
  return {};
}

class HfSource : public IndexedSource {
 public:
  explicit HfSource(std::string folder) : folder_(std::move(folder)) {}

  Status load() {
    HR_ASSIGN_OR_RETURN(const std::string json, read_file(join("config.json")));
    Result<ConfigMap> config = ConfigMap::from_json(json);
    if (!config) return config.error().with_context(join("config.json"));
    config_ = std::move(*config);
    lift_text_config(config_);
    if (has("generation_config.json")) {
      const Status status = add_generation_config(join("generation_config.json"), config_);
      if (!status.ok()) return status.with_context(join("generation_config.json"));
    }
    HR_RETURN_IF_ERROR(read_sentence_config(folder_, config_));
    std::map<std::string, std::string> index;
    HR_ASSIGN_OR_RETURN(const std::vector<std::string> names, shard_names(index));
    files_.reserve(names.size());
    for (const std::string& name : names) {
      HR_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(join(name)));
      files_.push_back(std::move(file));
      for (const SafetensorsTensor& tensor : files_.back().tensors()) {
        tensors_.push_back({lift_tensor_name(tensor.name), tensor.format, tensor.shape, tensor.bytes});
        places_.push_back({&files_.back(), &tensor});
        // What is left of the index afterwards is what no shard held.
        if (const auto at = index.find(tensor.name); at != index.end() && at->second == name) index.erase(at);
      }
    }
    if (!index.empty()) {
      return make_status(Code::malformed, "{}: tensor '{}' should lie in {}, which does not hold it",
                         join("model.safetensors.index.json"), shown_name(index.begin()->first),
                         shown_name(index.begin()->second));
    }
    return index_.build(tensors_);
  }

  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                          std::vector<std::byte>&) const override {
    const int64_t at = index_.find(tensor.name);
    if (at < 0) return error(Code::not_found, "{}: no tensor '{}'", folder_, tensor.name);
    return places_[at].file->data(*places_[at].tensor).subspan(begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
  }
  void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const override {
    const int64_t at = index_.find(tensor.name);
    if (at >= 0) places_[at].file->drop(*places_[at].tensor, begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
  }
  const std::string& path() const override { return folder_; }

 private:
  struct Place {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };

  std::string join(std::string_view name) const { return (fs::path(folder_) / name).string(); }
  bool has(std::string_view name) const {
    std::error_code ignored;
    return fs::exists(join(name), ignored);
  }

  // The weight files, each once; `index` receives the index file's map where there is one.
  Result<std::vector<std::string>> shard_names(std::map<std::string, std::string>& index) const {
    constexpr std::string_view kWhole = "model.safetensors", kIndex = "model.safetensors.index.json";
    if (has(kIndex)) {
      HR_ASSIGN_OR_RETURN(const std::string json, read_file(join(kIndex)));
      Result<std::map<std::string, std::string>> parsed = parse_shard_index(json);
      if (!parsed) return tl::unexpected<Status>(parsed.error().with_context(join(kIndex)));
      index = std::move(*parsed);
      std::set<std::string> names;
      for (const auto& [tensor, shard] : index) names.insert(shard);
      return std::vector<std::string>(names.begin(), names.end());
    }
    if (has(kWhole)) return std::vector<std::string>{std::string(kWhole)};
    if (has("pytorch_model.bin") || has("pytorch_model.bin.index.json")) {
      return error(Code::unsupported, "{} holds pickled PyTorch weights only; save the model as safetensors",
                   folder_);
    }
    return error(Code::not_found, "{} holds no weights: want {} or {}", folder_, kWhole, kIndex);
  }

  std::string folder_;
  std::vector<SafetensorsFile> files_;  // filled once: places_ points into it
  std::vector<Place> places_;
};

}  // namespace

Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text) {
  if (text.size() > kMaxIndexBytes) {
    return error(Code::malformed, "an index of {} bytes; want at most {}", text.size(), kMaxIndexBytes);
  }
  // nlohmann-json reports errors by exception only where asked; this call returns a discarded value instead.
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return error(Code::malformed, "the index is not valid JSON");
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty()) {
    return error(Code::malformed, "the index holds no weight_map (an object: tensor name -> file name)");
  }
  std::map<std::string, std::string> out;
  std::set<std::string_view> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      return error(Code::malformed, "weight_map['{}'] is not a string", shown_name(tensor));
    const std::string& name = shard.get_ref<const std::string&>();
    HR_RETURN_IF_ERROR(check_shard_name(name));
    out.emplace(tensor, name);
    shards.insert(name);
    if (shards.size() > kMaxShards)
      return error(Code::malformed, "the index names more than {} files", kMaxShards);
  }
  return out;
}

Result<std::unique_ptr<ModelSource>> open_hf_folder(const std::string& folder) {
  auto source = std::make_unique<HfSource>(folder);
  HR_RETURN_IF_ERROR(source->load());
  return source;
}

}  // namespace headrace::io

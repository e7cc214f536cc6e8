// Which files make a model, and whether they come from the cache or from the hub.
#include "io/hub.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "io/hf_source.h"
#include "io/hub_cache.h"
#include "io/hub_fetcher.h"
#include "io/mapped_file.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxFiles = 100'000;
constexpr std::string_view kWeights = "model.safetensors", kIndex = "model.safetensors.index.json";

// What a folder model is read from beside its weights. Missing ones are not missed: not every model has each.
constexpr std::string_view kCompanions[] = {
    "config.json",        "generation_config.json",  "tokenizer.json",      "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json", "added_tokens.json",   "vocab.json",
    "vocab.txt",          "merges.txt",              "chat_template.jinja", "chat_template.json",
    "modules.json",       "sentence_bert_config.json", "config_sentence_transformers.json",
    "1_Pooling/config.json"};

bool contains(const std::vector<std::string>& files, std::string_view file) {
  return std::find(files.begin(), files.end(), file) != files.end();
}

// Projectors and calibration data are kept beside models and are none.
bool is_gguf_model(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return name.ends_with(".gguf") && !name.starts_with("mmproj") && name.find("imatrix") == name.npos;
}

// All shards of `file` when it is one of a split GGUF; else the file alone.
std::vector<std::string> with_shards(const std::string& file) {
  const std::optional<SplitName> split = parse_split_name(file);
  if (!split) return {file};
  std::vector<std::string> files;
  for (int i = 1; i <= split->count; ++i) files.push_back(split->shard(i));
  return files;
}

// The one GGUF model among `files` (a split one by its first shard). Errors: invalid_argument for several, unsupported for none.
Result<std::string> only_gguf(const std::string& repo, const std::vector<std::string>& files) {
  std::set<std::string> models;
  for (const std::string& file : files) {
    if (!is_gguf_model(file)) continue;
    const std::optional<SplitName> split = parse_split_name(file);
    models.insert(split ? split->shard(1) : file);
  }
  if (models.size() == 1) return *models.begin();
  if (models.empty()) {
    const bool pickled = std::any_of(files.begin(), files.end(), [](const std::string& file) { return file.ends_with(".bin"); });
    return error(Code::unsupported, "{}: want {} or a .gguf file, it holds {}", repo, kWeights,
                 pickled ? "pickled PyTorch weights, which Headrace does not read" : "neither");
  }
  constexpr size_t kShown = 20;
  std::string list;
  size_t count = 0;
  for (const std::string& model : models) {
    if (++count > kShown) break;
    list += fmt::format("\n  {}/{}", repo, shown_name(model));
  }
  if (models.size() > kShown) list += fmt::format("\n  and {} more", models.size() - kShown);
  return error(Code::invalid_argument, "{} holds {} GGUF files; name one:{}", repo, models.size(), list);
}

// The shards that a fetched index names, each checked to be one of `files`.
Result<std::vector<std::string>> indexed_shards(const std::string& folder, const std::vector<std::string>* files) {
  const std::string path = folder + "/" + std::string(kIndex);
  HR_ASSIGN_OR_RETURN(const MappedFile index, MappedFile::open(path));
  const auto map = parse_shard_index(index.text());
  if (!map) return tl::unexpected(map.error().with_context(path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *map) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (files == nullptr || contains(*files, shard)) continue;
    return error(Code::malformed, "{} names {}, which the repository does not hold", path, shown_name(shard));
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (files.size() < kMaxFiles && at->is_regular_file(ignored)) {
      files.push_back(fs::path(at->path()).lexically_relative(folder).string());
    }
  }
  return files;
}

// The model's path when the snapshot of `commit` holds all of it; "" otherwise.
std::string whole_in_cache(const HubName& name, const HubCache& cache, const std::string& commit) {
  if (commit.empty()) return "";
  const std::string folder = cache.snapshot(commit);
  const auto holds = [&](const std::string& file) { return cache.holds(commit, file); };
  const auto file_model = [&](const std::string& file) {
    const std::vector<std::string> shards = with_shards(file);
    return std::all_of(shards.begin(), shards.end(), holds) ? folder + "/" + file : std::string();
  };
  if (!name.file.empty()) return file_model(name.file);
  if (holds("config.json")) {
    if (holds(std::string(kIndex))) {
      const auto shards = indexed_shards(folder, nullptr);
      if (shards && std::all_of(shards->begin(), shards->end(), holds)) return folder;
    } else if (holds(std::string(kWeights))) {
      return folder;
    }
  }
  const auto gguf = only_gguf(name.repo, files_below(folder));
  return gguf ? file_model(*gguf) : "";
}

// Fetches what of `name` is missing; the model's path.
Result<std::string> fetch_model(const HubName& name, const HubCache& cache, const HubListing& listing, HubFetcher& fetcher) {
  const std::string folder = cache.snapshot(listing.commit);
  const bool is_folder = contains(listing.files, "config.json") &&
                         (contains(listing.files, kWeights) || contains(listing.files, kIndex));
  std::string file = name.file;
  if (file.empty() && !is_folder) {
    HR_ASSIGN_OR_RETURN(file, only_gguf(name.repo, listing.files));
  }
  if (!file.empty()) {
    const std::vector<std::string> shards = with_shards(file);
    for (const std::string& shard : shards) {
      if (contains(listing.files, shard)) continue;
      const auto others = only_gguf(name.repo, listing.files);
      return error(Code::not_found, "{} at {} holds no {}{}", name.repo, name.revision, shown_name(shard),
                   others ? fmt::format("; it holds {}", shown_name(*others))
                          : (others.error().code() == Code::invalid_argument ? ". " + others.error().message() : ""));
    }
    HR_RETURN_IF_ERROR(fetcher.fetch(listing.commit, shards));
    return folder + "/" + file;
  }
  std::vector<std::string> files;
  for (const std::string_view companion : kCompanions) {
    if (contains(listing.files, companion)) files.emplace_back(companion);
  }
  const bool sharded = contains(listing.files, kIndex);
  if (sharded) files.emplace_back(kIndex);
  HR_RETURN_IF_ERROR(fetcher.fetch(listing.commit, files));
  files = {std::string(kWeights)};
  if (sharded) {
    HR_ASSIGN_OR_RETURN(files, indexed_shards(folder, &listing.files));
  }
  HR_RETURN_IF_ERROR(fetcher.fetch(listing.commit, files));
  return folder;
}

}  // namespace

Result<HubListing> parse_hub_listing(std::string_view text) {
  // What is read stands three levels deep; deeper values are passed over, so that a nest of brackets costs no memory.
  constexpr int kMaxDepth = 4;
  const Json json = Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; }, /*allow_exceptions=*/false);
  if (!json.is_object()) return error(Code::malformed, "want a JSON object, got {}", json.is_discarded() ? "no JSON" : json.type_name());
  HubListing listing;
  if (const auto sha = json.find("sha"); sha != json.end() && sha->is_string()) listing.commit = sha->get_ref<const std::string&>();
  if (!is_commit(listing.commit)) {
    return error(Code::malformed, "sha: want a commit of 40 hexadecimal digits, got '{}'", shown_name(listing.commit));
  }
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array()) return error(Code::malformed, "siblings: want a list of files");
  if (siblings->size() > kMaxFiles) return error(Code::malformed, "siblings: want at most {} files, got {}", kMaxFiles, siblings->size());
  for (const Json& sibling : *siblings) {
    const auto name = sibling.is_object() ? sibling.find("rfilename") : sibling.end();
    if (!sibling.is_object() || name == sibling.end() || !name->is_string()) {
      return error(Code::malformed, "siblings: want objects with an rfilename");
    }
    const std::string& file = name->get_ref<const std::string&>();
    if (!is_safe_repo_path(file)) {
      return error(Code::malformed, "siblings: '{}' is no path inside a repository", shown_name(file));
    }
    listing.files.push_back(file);
  }
  return listing;
}

Result<std::string> resolve_hub_model(const HubName& name, const HubOptions& options) {
  const HubCache cache(options.cache, name.repo);
  const std::string cached = whole_in_cache(name, cache, cache.commit_of(name.revision));
  if (!cached.empty() && options.offline) return cached;
  // A commit never changes, so what is whole needs no question. A folder that another tool fetched may lack its tokenizer.
  const bool complete = !name.file.empty() || cache.holds(name.revision, "tokenizer.json");
  if (!cached.empty() && is_commit(name.revision) && complete) return cached;
  const std::string wanted = name.file.empty() ? std::string("a whole model") : name.file;
  if (options.offline) {
    return error(Code::not_found, "HF_HUB_OFFLINE is set, and {} does not hold {} of revision {}", cache.folder(), wanted,
                 name.revision);
  }
  HubFetcher fetcher(name, options, cache);
  const Result<HubListing> listing = fetcher.list(cached.empty() ? options.tries : 1);
  if (!listing) {
    if (listing.error().code() != Code::unavailable || cached.empty()) return tl::unexpected(listing.error());
    log_warning("{}; using the copy in {}", listing.error().message(), cache.folder());
    return cached;
  }
  HR_ASSIGN_OR_RETURN(std::string path, fetch_model(name, cache, *listing, fetcher));
  HR_RETURN_IF_ERROR(cache.set_commit(name.revision, listing->commit));
  return path;
}

}  // namespace headrace::io

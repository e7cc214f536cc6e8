#pragma once
// Models from a hub that speaks Hugging Face's protocol, kept in the cache that its tools share (hub_cache.h). A file is there
// whole and checked, or not at all; what a stopped download has brought is continued by the next one. Everything that a server
// says is checked before it is used: names, sizes, ranges, digests.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/hub_name.h"

namespace headrace::io {

struct HubProgress {
  enum class Phase { asking, waiting, downloading, checking };
  Phase phase = Phase::asking;     // waiting: another process downloads the same file
  std::string_view file;
  uint64_t done = 0, total = 0;    // bytes of all files that this call fetches, as far as known
};

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;          // sent to the endpoint's host alone
  std::string cache;          // the folder of models--org--name
  bool offline = false;       // never touch the network
  int tries = 5;              // of a request that brings nothing; one that brings data starts the count again
  double backoff_seconds = 0.5;  // before the second try; doubled before each further one
  int64_t connect_ms = 10'000;
  int64_t stall_ms = 20'000;
  // Called on every piece of news, and at least once a second while a transfer is under way; false stops with `cancelled`.
  // May be null.
  std::function<bool(const HubProgress&)> progress;
};

// HF_ENDPOINT, HF_TOKEN (or the file that HF_TOKEN_PATH or HF_HOME/token names), HF_HUB_OFFLINE, HF_HUB_CACHE, HF_HOME,
// XDG_CACHE_HOME. Errors: invalid_argument, by the variable's name.
Result<HubOptions> hub_options_from_environment();

// What lies at a revision.
struct HubListing {
  std::string commit;
  std::vector<std::string> files;  // each is_safe_repo_path
};
// The answer of /api/models/REPO/revision/REVISION. Errors: malformed.
Result<HubListing> parse_hub_listing(std::string_view json);

// The path of the model that `name` names: a GGUF file (with the other shards of a split one beside it), or a folder with
// config.json, safetensors and tokenizer. What is missing is downloaded. A hub that cannot be reached is made up for by what the
// cache holds. Errors: not_found (repository, revision, file, or offline and not in the cache), unauthenticated (it wants a
// token), unsupported (no weights that Headrace reads), invalid_argument (several GGUF files and none named), malformed (a
// digest, a size or an answer that is wrong), resource_exhausted (no room on the disk), unavailable, cancelled.
Result<std::string> resolve_hub_model(const HubName& name, const HubOptions& options);

}  // namespace headrace::io

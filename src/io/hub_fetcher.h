#pragma once
// The network side of hub.h: what a revision holds, and its files brought into the cache, each whole and checked.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/http_client.h"
#include "io/hub.h"
#include "io/hub_cache.h"

namespace headrace::io {

class HubFetcher {
 public:
  // `name`, `options` and `cache` must outlive it.
  HubFetcher(const HubName& name, const HubOptions& options, const HubCache& cache);

  // `tries`: how often the hub is asked before it counts as away.
  Result<HubListing> list(int tries);
  // Returns with every file of `files` in the snapshot of `commit`.
  Status fetch(std::string_view commit, const std::vector<std::string>& files);

 private:
  // One file as the hub describes it.
  struct Remote {
    std::string file, etag;
    uint64_t size = 0;
  };

  Result<Remote> describe(std::string_view commit, const std::string& file);
  Status download(const std::string& url, const Remote& remote);
  // Appends to the open file `fd`, which holds `have` bytes; `have` follows what lies there.
  Status transfer(const std::string& url, const Remote& remote, int fd, uint64_t& have);
  Status check_digest(const Remote& remote);
  // Runs `attempt` until it no longer fails as unavailable, `tries` times at most; `gained` says how many bytes have come, so
  // that a try which brought data starts the count again. May be null.
  Status with_retries(int tries, const std::function<Status()>& attempt, const std::function<uint64_t()>& gained = nullptr);
  // The refusal that `reply` is, as a status. `what`: "revision main", "file x.gguf".
  Status refusal(const HttpReply& reply, const std::string& what);
  bool report(HubProgress::Phase phase);
  std::string file_url(std::string_view commit, const std::string& file) const;

  const HubName& name_;
  const HubOptions& options_;
  const HubCache& cache_;
  HubProgress progress_;
  HttpClient http_;
  double retry_after_ = 0;  // what the last refusal asked for
};

}  // namespace headrace::io

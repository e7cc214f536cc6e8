#pragma once
// One repository in the cache that Hugging Face tools share:
//   HUB/models--org--name/blobs/ETAG                the bytes; ETAG.incomplete while they come
//   HUB/models--org--name/snapshots/COMMIT/file     a relative link to its blob
//   HUB/models--org--name/refs/REVISION             the commit that a branch or tag named last
//   HUB/.locks/models--org--name/ETAG.lock          held by whoever writes the blob
// Copies that other tools fetched are found here, and ours by them. Everything appears by renaming.

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

// An advisory lock on a file, across processes and threads; released when destroyed.
class FileLock {
 public:
  // Waits for the holder; `keep_going` is asked ten times a second meanwhile. Errors: cancelled, and those of make_folders.
  static Result<FileLock> take(const std::string& path, const std::function<bool()>& keep_going);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

class HubCache {
 public:
  // `hub`: the folder of all repositories; `repo`: "org/name", checked by parse_hub_name.
  HubCache(std::string hub, std::string_view repo);

  const std::string& folder() const { return folder_; }
  std::string snapshot(std::string_view commit) const { return folder_ + "/snapshots/" + std::string(commit); }
  std::string blob(std::string_view etag) const { return folder_ + "/blobs/" + std::string(etag); }
  std::string partial(std::string_view etag) const { return blob(etag) + ".incomplete"; }
  std::string lock(std::string_view etag) const { return locks_ + "/" + std::string(etag) + ".lock"; }

  bool holds(std::string_view commit, std::string_view file) const;
  // The commit that `revision` names as far as this machine knows; "" when it does not.
  std::string commit_of(std::string_view revision) const;

  // Errors: resource_exhausted (no room), not_found (no permission, a folder in the way).
  Status set_commit(std::string_view revision, std::string_view commit) const;
  Status link(std::string_view commit, std::string_view file, std::string_view etag) const;

 private:
  std::string folder_, locks_;
};

// The folder that `path` lies in, with those above it. Errors: as above.
Status make_folders_for(const std::string& path);
// What errno `number` means for work on `path`.
Status disk_error(std::string_view what, const std::string& path, int number);

}  // namespace headrace::io

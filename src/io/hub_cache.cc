// Paths, links, references and locks of the cache.
#include "io/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "io/hub_name.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

// A name beside `path` that no other process or thread uses.
std::string temporary_beside(const std::string& path) {
  static std::atomic<uint64_t> count = 0;
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), count++);
}

Status rename_over(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const int number = errno;
  ::unlink(from.c_str());
  return disk_error("write", to, number);
}

}  // namespace

Status disk_error(std::string_view what, const std::string& path, int number) {
  const bool room = number == ENOSPC || number == EDQUOT || number == EFBIG || number == EMFILE || number == ENFILE;
  return make_status(room ? Code::resource_exhausted : Code::not_found, "cannot {} {}: {}", what, path, std::strerror(number));
}

Status make_folders_for(const std::string& path) {
  std::error_code failed;
  const fs::path folder = fs::path(path).parent_path();
  fs::create_directories(folder, failed);
  return failed ? disk_error("create", folder.string(), failed.value()) : Status();
}

Result<FileLock> FileLock::take(const std::string& path, const std::function<bool()>& keep_going) {
  HR_RETURN_IF_ERROR(make_folders_for(path));
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return tl::unexpected(disk_error("open", path, errno));
  FileLock lock(fd);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return tl::unexpected(disk_error("lock", path, errno));
    if (keep_going && !keep_going()) return error(Code::cancelled, "stopped");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

HubCache::HubCache(std::string hub, std::string_view repo) {
  std::string name = "models--" + std::string(repo);
  name.replace(name.find('/'), 1, "--");
  folder_ = hub + "/" + name;
  locks_ = hub + "/.locks/" + name;
}

bool HubCache::holds(std::string_view commit, std::string_view file) const {
  std::error_code ignored;
  return fs::is_regular_file(snapshot(commit) + "/" + std::string(file), ignored);
}

std::string HubCache::commit_of(std::string_view revision) const {
  if (is_commit(revision)) return std::string(revision);
  const std::string path = folder_ + "/refs/" + std::string(revision);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  char text[64];
  const ssize_t got = ::read(fd, text, sizeof text);
  ::close(fd);
  std::string_view commit(text, got > 0 ? static_cast<size_t>(got) : 0);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.remove_suffix(1);
  return is_commit(commit) ? std::string(commit) : "";
}

Status HubCache::set_commit(std::string_view revision, std::string_view commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) return {};
  const std::string path = folder_ + "/refs/" + std::string(revision);
  HR_RETURN_IF_ERROR(make_folders_for(path));
  const std::string temporary = temporary_beside(path);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return disk_error("create", temporary, errno);
  const ssize_t put = ::write(fd, commit.data(), commit.size());
  const int number = errno;
  ::close(fd);
  if (put != static_cast<ssize_t>(commit.size())) {
    ::unlink(temporary.c_str());
    return disk_error("write", path, put < 0 ? number : ENOSPC);
  }
  return rename_over(temporary, path);
}

Status HubCache::link(std::string_view commit, std::string_view file, std::string_view etag) const {
  const std::string path = snapshot(commit) + "/" + std::string(file);
  HR_RETURN_IF_ERROR(make_folders_for(path));
  std::string target = "../../";  // out of snapshots/COMMIT, and out of each folder inside it
  for (auto depth = std::count(file.begin(), file.end(), '/'); depth > 0; --depth) target += "../";
  target += "blobs/" + std::string(etag);
  const std::string temporary = temporary_beside(path);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) return disk_error("link", path, errno);
  return rename_over(temporary, path);
}

}  // namespace headrace::io

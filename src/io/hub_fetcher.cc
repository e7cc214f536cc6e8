// Requests, retries, resumed transfers and their checks.
#include "io/hub_fetcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "io/digest.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr size_t kMaxListingBytes = size_t{8} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
constexpr double kMaxBackoffSeconds = 30;

struct Descriptor {
  int value;
  ~Descriptor() { ::close(value); }
};

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value > kMaxFileBytes) return std::nullopt;
  return value;
}

// W/"abc" and "abc" are abc.
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

// It becomes a file's name.
bool is_safe_etag(std::string_view etag) {
  return !etag.empty() && etag.size() <= 128 && etag.front() != '.' &&
         std::all_of(etag.begin(), etag.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
         });
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; }

bool exists_with_size(const std::string& path, uint64_t size) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == size;
}

Status write_all(int fd, std::string_view bytes, const std::string& path, uint64_t& have, uint64_t want) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      return disk_error(fmt::format("write more than {} of {} bytes to", have, want), path, put < 0 ? errno : ENOSPC);
    }
    have += static_cast<uint64_t>(put);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

Status check_room(const std::string& path, uint64_t need) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return {};  // a file system that does not say: the writes will
  const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (free >= need) return {};
  return make_status(Code::resource_exhausted, "no room for {}: want {} bytes, the file system has {} free", path, need, free);
}

// "bytes 100-199/200" must continue at `have` and agree on the whole.
Status check_content_range(std::string_view header, uint64_t have, uint64_t size) {
  const std::string want = fmt::format("bytes {}-{}/{}", have, size - 1, size);
  if (header == want) return {};
  return make_status(Code::malformed, "the server sent another part: want Content-Range '{}', got '{}'", want, shown_name(header));
}

}  // namespace

HubFetcher::HubFetcher(const HubName& name, const HubOptions& options, const HubCache& cache)
    : name_(name),
      options_(options),
      cache_(cache),
      http_({.token = options.token,
             .token_url = options.endpoint,
             .connect_ms = options.connect_ms,
             .stall_ms = options.stall_ms,
             .keep_going = [this] { return report(progress_.phase); }}) {}

bool HubFetcher::report(HubProgress::Phase phase) {
  progress_.phase = phase;
  return !options_.progress || options_.progress(progress_);
}

std::string HubFetcher::file_url(std::string_view commit, const std::string& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", options_.endpoint, name_.repo, commit, encode_path(file));
}

Status HubFetcher::with_retries(int tries, const std::function<Status()>& attempt, const std::function<uint64_t()>& gained) {
  // So much makes a try a success even if it failed later: a transfer that never ends is impossible, since files are finite.
  constexpr uint64_t kWorthwhileBytes = uint64_t{1} << 20;
  double backoff = options_.backoff_seconds;
  int failures = 0;
  while (true) {
    const uint64_t before = gained ? gained() : 0;
    retry_after_ = 0;
    Status status = attempt();
    if (status.code() != Code::unavailable) return status;
    if (gained && gained() >= before + kWorthwhileBytes) {
      failures = 0;
      backoff = options_.backoff_seconds;
    }
    if (++failures >= tries) return status;
    log_info("{}; trying again", status.message());
    const TimePoint start = Clock::now();
    const double wait = std::min(std::max(backoff, retry_after_), kMaxBackoffSeconds);
    while (seconds_between(start, Clock::now()) < wait) {
      if (!report(progress_.phase)) return make_status(Code::cancelled, "stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    backoff *= 2;
  }
}

Status HubFetcher::refusal(const HttpReply& reply, const std::string& what) {
  const std::string_view code = reply.header("x-error-code");
  const std::string where = fmt::format("{} at {}", name_.repo, options_.endpoint);
  switch (reply.status) {
    case 401:
    case 403:
      if (code == "GatedRepo") {
        return make_status(Code::unauthenticated, "{} is gated: accept its terms on its page, then set HF_TOKEN to a token of "
                           "that account", where);
      }
      return make_status(Code::unauthenticated, "{}: refused with status {}{}", where, reply.status,
                         options_.token.empty() ? ": there is no such repository, or it is private: set HF_TOKEN"
                                                : ": HF_TOKEN does not give access to it");
    case 404:
      if (code == "RevisionNotFound") return make_status(Code::not_found, "{} has no {}", where, what);
      return make_status(Code::not_found, "{}: no {}", where, what);
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      retry_after_ = reply.retry_after_seconds;
      return make_status(Code::unavailable, "{}: busy or broken, status {} for {}", where, reply.status, what);
    default:
      return make_status(Code::malformed, "{}: status {} for {}; want 200", where, reply.status, what);
  }
}

Result<HubListing> HubFetcher::list(int tries) {
  std::string encoded = encode_path(name_.revision);
  for (size_t at = 0; (at = encoded.find('/', at)) != encoded.npos; at += 3) encoded.replace(at, 1, "%2F");
  const std::string url = fmt::format("{}/api/models/{}/revision/{}", options_.endpoint, name_.repo, encoded);
  std::string body;
  HttpRequest request{.url = url};
  request.on_head = [&](const HttpReply&) {
    body.clear();
    return Status();
  };
  request.on_body = [&](std::string_view bytes) {
    body += bytes;
    return body.size() <= kMaxListingBytes
               ? Status()
               : make_status(Code::malformed, "{}: more than {} bytes", url, kMaxListingBytes);
  };
  report(HubProgress::Phase::asking);
  HR_RETURN_IF_ERROR(with_retries(tries, [&]() -> Status {
    HR_ASSIGN_OR_RETURN(const HttpReply reply, http_.perform(request));
    return reply.status == 200 ? Status() : refusal(reply, fmt::format("revision {}", name_.revision));
  }));
  Result<HubListing> listing = parse_hub_listing(body);
  if (!listing) return tl::unexpected(listing.error().with_context(url));
  if (is_commit(name_.revision) && listing->commit != name_.revision) {
    return error(Code::malformed, "{}: want commit {}, got {}", url, name_.revision, listing->commit);
  }
  return listing;
}

Result<HubFetcher::Remote> HubFetcher::describe(std::string_view commit, const std::string& file) {
  const std::string url = file_url(commit, file);
  // The hub itself knows the digest of a file in its large storage; it says so in the answer that redirects there.
  const HttpRequest request{.url = url, .head = true, .stop_at_header = "x-linked-etag"};
  HttpReply reply;
  HR_RETURN_IF_ERROR(with_retries(options_.tries, [&]() -> Status {
    HR_ASSIGN_OR_RETURN(reply, http_.perform(request));
    return reply.status < 400 ? Status() : refusal(reply, fmt::format("file {} at {}", file, name_.revision));
  }));
  const auto either = [&](std::string_view first, std::string_view second) {
    return reply.header(first).empty() ? reply.header(second) : reply.header(first);
  };
  Remote remote{.file = file, .etag = plain_etag(either("x-linked-etag", "etag"))};
  if (!is_safe_etag(remote.etag)) {
    return error(Code::malformed, "{}: want an ETag of letters and digits, got '{}'", url, shown_name(remote.etag));
  }
  const std::string_view size = either("x-linked-size", "content-length");
  const std::optional<uint64_t> parsed = parse_size(size);
  if (!parsed) return error(Code::malformed, "{}: want the file's size, got '{}'", url, shown_name(size));
  remote.size = *parsed;
  const std::string_view named = reply.header("x-repo-commit");
  if (!named.empty() && named != commit) {
    return error(Code::malformed, "{}: want commit {}, got {}", url, commit, shown_name(named));
  }
  return remote;
}

Status HubFetcher::fetch(std::string_view commit, const std::vector<std::string>& files) {
  std::vector<Remote> missing;
  for (const std::string& file : files) {
    if (cache_.holds(commit, file)) continue;
    progress_.file = file;
    HR_ASSIGN_OR_RETURN(Remote remote, describe(commit, file));
    missing.push_back(std::move(remote));
  }
  for (const Remote& remote : missing) progress_.total += remote.size;
  for (const Remote& remote : missing) {
    progress_.file = remote.file;
    const uint64_t before = progress_.done;
    if (!exists_with_size(cache_.blob(remote.etag), remote.size)) {
      Status status = download(file_url(commit, remote.file), remote);
      if (!status.ok()) return status.with_context(fmt::format("{}/{}", name_.repo, remote.file));
    }
    HR_RETURN_IF_ERROR(cache_.link(commit, remote.file, remote.etag));
    progress_.done = before + remote.size;
  }
  return {};
}

Status HubFetcher::download(const std::string& url, const Remote& remote) {
  const std::string blob = cache_.blob(remote.etag), partial = cache_.partial(remote.etag);
  HR_RETURN_IF_ERROR(make_folders_for(blob));
  HR_ASSIGN_OR_RETURN(const FileLock lock, FileLock::take(cache_.lock(remote.etag), [this] {
                        return report(HubProgress::Phase::waiting);
                      }));
  if (exists_with_size(blob, remote.size)) return {};  // who held the lock fetched it

  for (bool second = false;; second = true) {
    const Descriptor file{::open(partial.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644)};
    if (file.value < 0) return disk_error("open", partial, errno);
    struct stat info {};
    if (::fstat(file.value, &info) != 0) return disk_error("read", partial, errno);
    uint64_t have = static_cast<uint64_t>(info.st_size);
    if (have > remote.size) {
      if (::ftruncate(file.value, 0) != 0) return disk_error("empty", partial, errno);
      have = 0;
    }
    const bool resumed = have > 0;
    HR_RETURN_IF_ERROR(check_room(partial, remote.size - have));
    if (have < remote.size) {
      HR_RETURN_IF_ERROR(with_retries(
          options_.tries, [&] { return transfer(url, remote, file.value, have); }, [&] { return have; }));
    }
    if (!report(HubProgress::Phase::checking)) return make_status(Code::cancelled, "stopped");
    Status checked = check_digest(remote);
    if (checked.ok()) {
      if (::fsync(file.value) != 0) return disk_error("write", partial, errno);
      if (::rename(partial.c_str(), blob.c_str()) != 0) return disk_error("rename", partial, errno);
      return {};
    }
    ::unlink(partial.c_str());
    // What an earlier process left may be the wrong part: once more from the start.
    if (!resumed || second || checked.code() != Code::malformed) return checked;
    log_info("{}; starting again", checked.message());
  }
}

Status HubFetcher::transfer(const std::string& url, const Remote& remote, int fd, uint64_t& have) {
  const std::string partial = cache_.partial(remote.etag);
  const uint64_t base = progress_.done;  // the files before this one
  const auto restart = [&]() -> Status {
    if (::ftruncate(fd, 0) != 0) return disk_error("empty", partial, errno);
    have = 0;
    return {};
  };
  HttpRequest request{.url = url, .range_begin = have};
  request.on_head = [&](const HttpReply& reply) -> Status {
    if (reply.status == 206) return check_content_range(reply.header("content-range"), have, remote.size);
    if (reply.status != 200) return make_status(Code::malformed, "{}: status {}; want 200 or 206", url, reply.status);
    // A server that does not do ranges sends the whole file.
    const std::string_view length = reply.header("content-length");
    if (!length.empty() && parse_size(length) != remote.size) {
      return make_status(Code::malformed, "{}: want {} bytes, the server announces {}", url, remote.size, shown_name(length));
    }
    return have > 0 ? restart() : Status();
  };
  request.on_body = [&](std::string_view bytes) -> Status {
    if (bytes.size() > remote.size - have) {
      return make_status(Code::malformed, "{}: more than the announced {} bytes", url, remote.size);
    }
    HR_RETURN_IF_ERROR(write_all(fd, bytes, partial, have, remote.size));
    progress_.done = base + have;
    return report(HubProgress::Phase::downloading) ? Status() : make_status(Code::cancelled, "stopped");
  };
  progress_.phase = HubProgress::Phase::downloading;
  const auto reply = http_.perform(request);
  progress_.done = base;
  if (!reply) return reply.error();
  if (reply->status == 416) {  // the partial file is not a part of this one
    HR_RETURN_IF_ERROR(restart());
    return make_status(Code::unavailable, "{}: the server does not continue at the byte asked for", url);
  }
  if (reply->status >= 300) return refusal(*reply, fmt::format("file {} at {}", remote.file, name_.revision));
  if (have == remote.size) return {};
  return make_status(Code::unavailable, "{}: the connection ended after {} of {} bytes", url, have, remote.size);
}

Status HubFetcher::check_digest(const Remote& remote) {
  const std::string partial = cache_.partial(remote.etag);
  const bool sha256 = remote.etag.size() == 64 && is_hex(remote.etag);
  const bool git = remote.etag.size() == 40 && is_hex(remote.etag);
  if (!sha256 && !git) return {};  // an ETag that is no digest: the size was right
  HR_ASSIGN_OR_RETURN(const std::string got,
                      digest_of_file(partial, sha256 ? DigestKind::sha256 : DigestKind::git_blob_sha1));
  if (got == remote.etag) return {};
  return make_status(Code::malformed, "the bytes that came are not the file's: want {} {}, got {}; nothing of it was kept",
                     sha256 ? "SHA-256" : "git blob SHA-1", remote.etag, got);
}

}  // namespace headrace::io

#include "io/write_tensors.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

namespace headrace::io {
namespace {

constexpr int64_t kBytesAtOnce = int64_t{1} << 20;

struct Job {
  size_t tensor;
  int64_t begin, end;  // rows
};

std::vector<Job> jobs_of(std::span<const SourceTensor> tensors) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes == 0) continue;
    const int64_t rows_at_once = std::max<int64_t>(1, kBytesAtOnce / static_cast<int64_t>(tensors[i].row_bytes()));
    for (int64_t row = 0; row < tensors[i].rows(); row += rows_at_once) {
      jobs.push_back({i, row, std::min(tensors[i].rows(), row + rows_at_once)});
    }
  }
  return jobs;
}

}  // namespace

Status write_tensors(const ModelSource& source, std::string_view what, const OnTeam& on_team, const WriteProgress& progress,
                     const PutBytes& put) {
  const std::vector<Job> jobs = jobs_of(source.tensors());
  std::mutex mutex;  // guards first_error, done and progress
  Status first_error;
  size_t done = 0;
  std::atomic<bool> failed{false};
  on_team([&](Team& team) {
    std::vector<std::byte> scratch;
    const auto write_rows = [&](const Job& job) -> Status {
      const SourceTensor& tensor = source.tensors()[job.tensor];
      HR_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source.rows(tensor, job.begin, job.end, scratch));
      HR_RETURN_IF_ERROR(put(job.tensor, static_cast<uint64_t>(job.begin) * tensor.row_bytes(), bytes));
      source.drop(tensor, job.begin, job.end);
      return Status();
    };
    for (int64_t i = team.claim(int64_t(jobs.size())); i >= 0 && !failed; i = team.claim(int64_t(jobs.size()))) {
      Status status = write_rows(jobs[i]);
      const std::lock_guard lock(mutex);
      ++done;
      if (status.ok() && progress && !progress(double(done) / double(jobs.size()))) {
        status = make_status(Code::cancelled, "{} was not written", what);
      }
      if (status.ok()) continue;
      if (first_error.ok()) first_error = std::move(status);
      failed = true;
    }
  });
  return first_error;
}

bool write_at(int file, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace headrace::io

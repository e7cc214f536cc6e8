// mmap and madvise behind MappedFile.
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace headrace::io {
namespace {

Status open_error(const std::string& path, int number) {
  const bool resources = number == EMFILE || number == ENFILE || number == ENOMEM;
  return make_status(resources ? Code::resource_exhausted : Code::not_found, "cannot open {}: {}", path,
                     std::strerror(number));
}

struct Descriptor {
  int value;
  ~Descriptor() { ::close(value); }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must fail the check below, not hang.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return tl::unexpected<Status>(open_error(path, errno));
  const Descriptor file{opened};
  struct stat info {};
  if (::fstat(file.value, &info) != 0) return tl::unexpected<Status>(open_error(path, errno));
  if (S_ISDIR(info.st_mode)) return error(Code::malformed, "{} is a directory; want a file", path);
  if (!S_ISREG(info.st_mode)) return error(Code::malformed, "{} is not a regular file", path);

  MappedFile mapped;
  if (info.st_size == 0) return mapped;
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (data == MAP_FAILED) {
    return error(Code::resource_exhausted, "cannot map {} ({} bytes): {}", path, size, std::strerror(errno));
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_file(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return std::string(file.text());
}

void MappedFile::drop(uint64_t offset, uint64_t bytes) const {
  if (offset >= size_) return;
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t end = offset + std::min<uint64_t>(bytes, size_ - offset);
  const uint64_t first = (offset + page - 1) / page * page;
  // The file's last page is whole as far as the mapping goes.
  const uint64_t last = end == size_ ? end : end / page * page;
  if (first >= last) return;
  ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace headrace::io

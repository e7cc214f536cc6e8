#include "core/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace headrace {
namespace {
constexpr uint64_t kHugePage = 2u << 20;
constexpr uint64_t kOwnMapping = 64u << 10;
}

uint64_t physical_memory() { return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (ledger_->memory() != nullptr) {
    ledger_->memory()->release(data_);
  } else {
    munmap(data_, bytes_);
  }
  ledger_->release(account_, model_, bytes_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(account_, other.account_);
  std::swap(model_, other.model_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

Result<Buffer> Buffer::allocate(MemoryLedger& ledger, Account account, std::string model, uint64_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  HR_ASSIGN_OR_RETURN(buffer.data_, ledger.memory() != nullptr ? on_device(ledger, account, model, bytes) : on_host(ledger, account, model, bytes));
  buffer.ledger_ = &ledger;
  buffer.account_ = account;
  buffer.model_ = std::move(model);
  buffer.bytes_ = bytes;
  return buffer;
}

Result<std::byte*> Buffer::on_device(MemoryLedger& ledger, Account account, const std::string& model, uint64_t bytes) {
  HR_RETURN_IF_ERROR(ledger.charge(account, model, bytes));
  const Result<void*> data = ledger.memory()->allocate(bytes);
  if (!data) {
    ledger.release(account, model, bytes);
    return tl::unexpected(Status(data.error()).with_context(std::string(account_name(account))));
  }
  return static_cast<std::byte*>(*data);
}

Result<std::byte*> Buffer::on_host(MemoryLedger& ledger, Account account, const std::string& model, uint64_t bytes) {
  // The system may grant more than it has, and end the process when that is written.
  if (bytes > physical_memory()) {
    return error(Code::resource_exhausted, "{}: {} bytes, the machine has {}", account_name(account), bytes, physical_memory());
  }
  HR_RETURN_IF_ERROR(ledger.charge(account, model, bytes));
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    ledger.release(account, model, bytes);
    return error(Code::resource_exhausted, "{}: cannot allocate {} bytes: {}", account_name(account), bytes,
                 std::strerror(errno));
  }
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

std::shared_ptr<std::byte[]> host_bytes(uint64_t bytes) {
  if (bytes < kOwnMapping) return std::shared_ptr<std::byte[]>(new std::byte[bytes == 0 ? 1 : bytes]);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(data), [bytes](std::byte* mapped) { munmap(mapped, bytes); }};
}

}  // namespace headrace

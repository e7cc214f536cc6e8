#pragma once
// A long-lived block of memory, charged to a ledger for as long as it lives and lying where the ledger says: on the host, page-aligned and
// zero-filled by the kernel on first touch (large blocks ask for huge pages), or on a device, where it starts as zeros and the host cannot
// read it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "core/memory_ledger.h"

namespace headrace {

// Bytes of memory that the machine has.
uint64_t physical_memory();

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  // `ledger` must outlive the buffer. Errors: resource_exhausted, for more than the machine's memory too.
  static Result<Buffer> allocate(MemoryLedger& ledger, Account account, std::string model, uint64_t bytes);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept;
  static Result<std::byte*> on_device(MemoryLedger& ledger, Account account, const std::string& model, uint64_t bytes);
  static Result<std::byte*> on_host(MemoryLedger& ledger, Account account, const std::string& model, uint64_t bytes);

  MemoryLedger* ledger_ = nullptr;
  Account account_ = Account::arena;
  std::string model_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Host memory that a plan is made with, charged to nobody: not zeroed, 16-byte aligned, and large ones are mappings of their own (of huge
// pages where they can), which go back to the system with their last holder (a heap keeps what was freed inside of it). Never null. Out of memory throws as new does.
std::shared_ptr<std::byte[]> host_bytes(uint64_t bytes);

}  // namespace headrace

#pragma once
// Who holds how much memory of a device. Every long-lived buffer is charged to an account and a model; `--memory`,
// peak_device_bytes and the check that "memory comes back" read it. Thread-safe.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/device_memory.h"

namespace headrace {

enum class Account : uint8_t { weights, kv, arena, graphs, host_tier };
inline constexpr int kNumAccounts = 5;
std::string_view account_name(Account account);

class MemoryLedger {
 public:
  // limit_bytes 0: no limit. `memory`: where buffers lie, and it outlives them; null: on the host.
  explicit MemoryLedger(uint64_t limit_bytes = 0, DeviceMemory* memory = nullptr) : limit_(limit_bytes), memory_(memory) {}
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Errors: resource_exhausted past the limit; the message says what is held by which account.
  Status charge(Account account, std::string_view model, uint64_t bytes);
  void release(Account account, std::string_view model, uint64_t bytes);

  uint64_t limit() const { return limit_; }
  DeviceMemory* memory() const { return memory_; }
  uint64_t total() const;
  uint64_t peak() const;
  uint64_t held(Account account) const;
  uint64_t held_by(std::string_view model) const;

 private:
  const uint64_t limit_;
  DeviceMemory* const memory_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  uint64_t total_ = 0;
  uint64_t peak_ = 0;
  std::array<uint64_t, kNumAccounts> by_account_{};
  std::map<std::string, uint64_t, std::less<>> by_model_;
};

}  // namespace headrace

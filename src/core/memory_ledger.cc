#include "core/memory_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace headrace {

std::string_view account_name(Account account) {
  constexpr std::array<std::string_view, kNumAccounts> names{"weights", "kv", "arena", "graphs", "host_tier"};
  return names[static_cast<size_t>(account)];
}

Status MemoryLedger::charge(Account account, std::string_view model, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (limit_ != 0 && (bytes > limit_ || total_ > limit_ - bytes)) {
    std::string held;
    for (int i = 0; i < kNumAccounts; ++i) {
      if (by_account_[i] != 0) {
        held += fmt::format("{}{} {}", held.empty() ? "" : ", ", account_name(static_cast<Account>(i)), by_account_[i]);
      }
    }
    return make_status(Code::resource_exhausted,
                       "memory: {} wants {} bytes for {}, the limit is {} and {} are held ({}); raise --memory or lower "
                       "the context or the number of sequences",
                       account_name(account), bytes, model, limit_, total_, held.empty() ? "nothing" : held);
  }
  total_ += bytes;
  peak_ = std::max(peak_, total_);
  by_account_[static_cast<size_t>(account)] += bytes;
  by_model_[std::string(model)] += bytes;
  return Status();
}

void MemoryLedger::release(Account account, std::string_view model, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto entry = by_model_.find(model);
  CHECK(entry != by_model_.end() && entry->second >= bytes);
  CHECK(by_account_[static_cast<size_t>(account)] >= bytes && total_ >= bytes);
  entry->second -= bytes;
  if (entry->second == 0) by_model_.erase(entry);
  by_account_[static_cast<size_t>(account)] -= bytes;
  total_ -= bytes;
}

uint64_t MemoryLedger::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}
uint64_t MemoryLedger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}
uint64_t MemoryLedger::held(Account account) const {
  const std::lock_guard lock(mutex_);
  return by_account_[static_cast<size_t>(account)];
}
uint64_t MemoryLedger::held_by(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  const auto entry = by_model_.find(model);
  return entry == by_model_.end() ? 0 : entry->second;
}

}  // namespace headrace

#pragma once
// Two pieces of work at once, where there is a processor for each. They share nothing that either of them changes.

#include <optional>
#include <system_error>
#include <thread>

namespace headrace::text {

template <class First, class Second>
void run_both(bool worth_a_thread, const First& first, const Second& second) {
  std::optional<std::jthread> other;
  if (worth_a_thread && std::thread::hardware_concurrency() > 1) {
    try {
      other.emplace([&] { second(); });
    } catch (const std::system_error&) {  // no more threads for this process
    }
  }
  first();
  if (!other) second();
}

}  // namespace headrace::text

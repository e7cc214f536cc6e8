#pragma once
// Two pieces of work at once, where there is a processor for each. They share nothing that either of them
// changes.

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace headrace::text {

// A thread that does `work`, or none where it is not worth one or there is none to have. What `work` refers
// to outlives it.
template <class Work>
std::optional<std::jthread> start_beside(bool worth_a_thread, Work work) {
  if (worth_a_thread && std::thread::hardware_concurrency() > 1) {
    try {
      return std::jthread(std::move(work));
    } catch (const std::system_error&) {  // no more threads for this process
    }
  }
  return std::nullopt;
}

template <class First, class Second>
void run_both(bool worth_a_thread, const First& first, const Second& second) {
  const auto other = start_beside(worth_a_thread, [&] { second(); });
  first();
  if (!other) second();
}

}  // namespace headrace::text

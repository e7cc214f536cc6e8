#pragma once
// Waits for something that another thread is about to make true: three minutes at most, since sanitizers are slow.

#include <chrono>
#include <functional>
#include <thread>

namespace headrace::testing {

inline bool eventually(const std::function<bool()>& condition) {
  using std::chrono_literals::operator""ms;
  for (int i = 0; i < 36000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace headrace::testing

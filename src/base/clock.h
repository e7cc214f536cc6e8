#pragma once
// The monotonic clock that every metric uses (docs/metrics.md says which events start and stop it).

#include <chrono>

namespace headrace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline double seconds_between(TimePoint start, TimePoint stop) {
  return std::chrono::duration<double>(stop - start).count();
}
inline double ms_between(TimePoint start, TimePoint stop) { return seconds_between(start, stop) * 1e3; }

}  // namespace headrace

#pragma once
// When requests are sent: an open loop of independent intervals, of which `rate` come a second in the mean.

#include <cstdint>
#include <limits>
#include <random>

namespace headrace::load {

enum class ArrivalKind : uint8_t {
  poisson,   // exponential intervals: callers who know nothing of each other
  constant,  // equal intervals
  burst,     // gamma intervals of shape `burstiness`, as vLLM's --burstiness: below 1 requests come in bunches
};

class Arrivals {
 public:
  static constexpr double kAtOnce = std::numeric_limits<double>::infinity();

  // `rate` in requests a second, kAtOnce: all at time 0. The same seed gives the same times.
  Arrivals(ArrivalKind kind, double rate, double burstiness, uint64_t seed);
  // Seconds from the start to the next request; never falls.
  double next();

 private:
  double interval();

  const ArrivalKind kind_;
  const double rate_;
  std::mt19937_64 random_;
  std::gamma_distribution<double> gamma_;
  double time_ = 0;
};

}  // namespace headrace::load

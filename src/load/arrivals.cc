#include "load/arrivals.h"

#include <cmath>

namespace headrace::load {

Arrivals::Arrivals(ArrivalKind kind, double rate, double burstiness, uint64_t seed)
    : kind_(kind), rate_(rate), random_(seed), gamma_(burstiness, 1.0 / burstiness) {}

double Arrivals::interval() {
  if (rate_ == kAtOnce) return 0;
  switch (kind_) {
    case ArrivalKind::poisson:
      // 53 bits in (0, 1]: the logarithm is finite.
      return -std::log(static_cast<double>((random_() >> 11) + 1) * 0x1p-53) / rate_;
    case ArrivalKind::constant:
      return 1.0 / rate_;
    case ArrivalKind::burst:
      return gamma_(random_) / rate_;
  }
  return 0;
}

double Arrivals::next() {
  const double now = time_;
  time_ += interval();
  return now;
}

}  // namespace headrace::load

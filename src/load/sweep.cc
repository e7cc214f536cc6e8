#include "load/sweep.h"

#include <limits>

namespace headrace::load {

Result<SweepResult> sweep(const SweepOptions& options, const std::function<Result<Figures>(double rate)>& measure,
                          const std::function<bool()>& stopped) {
  SweepResult out;
  double rate = std::numeric_limits<double>::infinity();
  while (static_cast<int>(out.points.size()) < options.max_points) {
    HR_ASSIGN_OR_RETURN(const Figures figures, measure(rate));
    if (stopped()) break;
    out.points.push_back({rate, figures});
    const bool met = figures.good_share >= options.share;
    const double throughput = out.points.front().figures.requests_per_s;
    if (out.points.size() == 1) {
      if (met) out.best_rate = throughput;  // nothing is faster than all at once
      if (met || throughput <= 0) break;
      rate = throughput;
      continue;
    }
    (met ? out.best_rate : out.failed_rate) = rate;
    // The least rate that is of interest: one request at a time, as far as the first run can say.
    if (out.failed_rate == 0 || out.failed_rate < throughput * 1e-3) break;
    if (out.failed_rate - out.best_rate <= options.precision * out.failed_rate) break;
    rate = (out.best_rate + out.failed_rate) / 2;
  }
  return out;
}

}  // namespace headrace::load

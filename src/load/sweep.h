#pragma once
// The highest rate that a server takes while a share of the requests meets the goal: bisection over rates.

#include <functional>
#include <vector>

#include "base/status.h"
#include "load/statistics.h"

namespace headrace::load {

struct SweepPoint {
  double rate = 0;  // asked; infinity: all at once
  Figures figures;
};

struct SweepResult {
  std::vector<SweepPoint> points;  // in the order of measurement
  double best_rate = 0;            // the highest that met the goal; 0: none did
  double failed_rate = 0;          // the lowest above it that did not; 0: none was found
};

struct SweepOptions {
  double share = 0.99;      // of requests that must meet the goal
  double precision = 0.05;  // ends when best and failed are as close as this, relatively
  int max_points = 10;      // the one with all requests at once included
};

// `measure` runs one load at a rate. The first run sends all at once: what the server does at most bounds the rates that are
// tried. The search ends when `stopped` is true after a run, which does not count then. Errors: those of `measure`.
Result<SweepResult> sweep(const SweepOptions& options, const std::function<Result<Figures>(double rate)>& measure,
                          const std::function<bool()>& stopped);

}  // namespace headrace::load

#pragma once
// What `headrace bench serve` leaves behind: JSON for programs, a page for people.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/statistics.h"
#include "load/sweep.h"

namespace headrace::load {

struct Report {
  std::string date;                                         // as ISO 8601 writes it
  std::vector<std::pair<std::string, std::string>> config;  // what the run was asked, in the order in which it is shown
  std::string note;                                         // what limits the meaning of figures; often empty
  Goal goal;
  LoadRun run;
  Figures figures;                   // of `run`
  std::optional<SweepResult> sweep;  // `run` is the one at its best rate then, or at its lowest where none met the goal
};

// One object; docs/load_testing.md lists the fields.
std::string report_json(const Report& report);
// One file without references to others: figures, and plots as inline SVG, for light and dark screens.
std::string report_html(const Report& report);

}  // namespace headrace::load

#pragma once
// `headrace bench MODEL --requests FILE`: many requests of given lengths, all there at once, through the engine or in static
// batches.

#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/model_options.h"

namespace headrace::cli {

struct RequestsBench {
  std::string file;          // of lengths; load/prompts.h says its form
  int64_t limit = 0;         // the first so many; 0: all
  int64_t static_batch = 0;  // 0: the engine
  bool json = false;
};

// Sets the sizes of the engine that `model` leaves open. Errors: those of read_lengths(), open_model() and of the requests.
Status bench_requests(const RequestsBench& bench, ModelOptions model);

}  // namespace headrace::cli

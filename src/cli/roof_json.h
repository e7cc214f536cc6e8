#pragma once
// The roof as `headrace roof` and `headrace bench` measure and print it. Private to cli/.

#include <string>

#include "runtime/roof.h"

namespace headrace::cli {

// measure_roof with a progress bar. `threads` 0: all.
Result<runtime::RoofReport> measure_roof_with_progress(int threads, int repeats);
std::string roof_row_json(const runtime::RoofRow& row);
// `headrace roof --device cuda`: measures the first device and prints. Errors: those of load_cuda_plugin(), internal from the device.
Status cuda_roof(bool json);

}  // namespace headrace::cli

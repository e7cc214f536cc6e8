#pragma once
// The plan of an accelerator's matrix products: which of the library's algorithms multiplies what. `headrace tune` measures and keeps it, a
// file for each card; whoever opens the device loads it. Only speed depends on it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/device_plugin.h"
#include "runtime/accelerator.h"

namespace headrace::runtime {

// "nvidia-h200.plan" for "NVIDIA H200".
std::string matmul_plan_name(std::string_view card);
// Where the plan of a card is looked for: the file that HEADRACE_PLAN names (nowhere, where it is set and empty), else the cache folder,
// then `plans` beside the program.
std::vector<std::string> matmul_plan_places(std::string_view card);
// The first of them, where a new plan belongs. Errors: invalid_argument where there is no cache folder.
Result<std::string> matmul_plan_to_write(std::string_view card);
// Loads the first of these files that is there and fits. One that does not fit is a warning, which says what to do.
void load_first_matmul_plan(const Accelerator& accelerator);

// The distinct products of a program's linears, in the order of its nodes. `tokens` is the most rows of each when `most` binds the symbols.
std::vector<DeviceMatmul> matmul_products(const Graph& graph, const Bindings& most);
// The numbers of tokens at which a product of at most `tokens` is tuned: from 16 on, closely for few of them.
std::vector<int64_t> tuned_tokens(int64_t tokens);

}  // namespace headrace::runtime

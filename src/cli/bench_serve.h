#pragma once
// `headrace bench serve`: what `headrace bench` hands on when `serve` stands in the place of MODEL.

#include <string>
#include <vector>

#include "base/status.h"

namespace headrace::cli {

Status bench_serve(const std::vector<std::string>& args);

}  // namespace headrace::cli

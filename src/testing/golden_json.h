#pragma once
// tests/golden/NAME as JSON. Apart from golden.h, so that tests without JSON do not compile it.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "testing/golden.h"

namespace headrace::testing {

inline nlohmann::json golden_json(std::string_view name) {
  std::ifstream file(golden_path(name));
  return nlohmann::json::parse(file);
}

}  // namespace headrace::testing

// The files of tests/golden, for the tests. Header alone, so that the tests of the lowest folders can use it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace headrace::testing {

// The path of tests/golden/`name`, relative to the repository's root: where ctest runs the tests, and where a person must.
inline std::string golden_path(std::string_view name) {
  const std::filesystem::path folder = "tests/golden";
  if (!std::filesystem::exists(folder)) {
    std::fputs("tests/golden is not here: run the tests from the root of the repository\n", stderr);
    std::abort();
  }
  return (folder / name).string();
}

}  // namespace headrace::testing

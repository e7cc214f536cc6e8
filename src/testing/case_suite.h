#pragma once
// A suite of input -> expected cases, as cases_runner runs it: a folder with cases.json and expected.json,
// and one function that judges one case. To add a suite: suites/NAME.cc with run_NAME, and a row in
// suites.def.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace headrace::testing {

struct CaseContext {
  const nlohmann::json& input;              // the row of cases.json
  const nlohmann::json& expected;           // its row of expected.json
  const std::filesystem::path& suite_dir;   // where `files/...` are found
  const std::filesystem::path& shared_dir;  // where `data/...` are found
};

struct CaseResult {
  bool passed = false;
  std::string message;  // why it did not pass
  bool covered =
      true;  // false: nothing here judges this kind of case; it counts as neither passed nor failed

  static CaseResult pass() { return {true, {}}; }
  static CaseResult fail(std::string why) { return {false, std::move(why)}; }
  static CaseResult not_covered(std::string why) { return {false, std::move(why), false}; }
};

#define HR_SUITE(name) CaseResult run_##name(const CaseContext& context);
#include "testing/suites.def"
#undef HR_SUITE

}  // namespace headrace::testing

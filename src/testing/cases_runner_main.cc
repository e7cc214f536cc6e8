// cases_runner DIR [SUITE...]: runs the suites of DIR that it knows, prints each failure, and closes with
// "N passed, N failed". Exit 0: something ran and nothing failed; 1: a case failed or none ran; 2: usage or a
// suite that is not known; 3: DIR is not there or holds no readable suite.
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "testing/case_suite.h"

namespace headrace::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using SuiteFunction = CaseResult (*)(const CaseContext&);

const std::map<std::string, SuiteFunction>& known_suites() {
  static const std::map<std::string, SuiteFunction> suites = {
#define HR_SUITE(name) {#name, &run_##name},
#include "testing/suites.def"
#undef HR_SUITE
  };
  return suites;
}

struct Tally {
  int passed = 0;
  int failed = 0;
  int not_covered = 0;
};

json read_json(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path.string()));
  return json::parse(file);
}

CaseResult run_case(SuiteFunction function, const CaseContext& context) {
  try {
    return function(context);
  } catch (const std::exception& e) {
    return CaseResult::fail(fmt::format("exception: {}", e.what()));
  }
}

Tally run_suite(const fs::path& dir, SuiteFunction function) {
  const std::string name = dir.filename().string();
  const json cases = read_json(dir / "cases.json");
  const json expected = read_json(dir / "expected.json");
  const fs::path shared_dir = dir.parent_path().parent_path();
  Tally tally;
  for (const json& input : cases.at("cases")) {
    const std::string id = input.at("id").get<std::string>();
    const CaseResult result = run_case(function, {input, expected.at(id), dir, shared_dir});
    if (!result.covered) {
      ++tally.not_covered;
    } else if (result.passed) {
      ++tally.passed;
    } else {
      ++tally.failed;
      fmt::print("FAILED {}/{}: {}\n", name, id, result.message);
    }
  }
  fmt::print("{}: {} passed, {} failed", name, tally.passed, tally.failed);
  if (tally.not_covered > 0) fmt::print(", {} cases not covered", tally.not_covered);
  fmt::print("\n");
  return tally;
}

std::vector<std::string> suite_folders(const fs::path& root) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "cases.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

int run(const fs::path& root, std::vector<std::string> names) {
  const std::vector<std::string> folders = suite_folders(root);
  if (folders.empty()) {
    fmt::print(stderr, "cases_runner: {}: no folder with a cases.json in it\n", root.string());
    return 3;
  }
  for (const std::string& name : names) {
    if (known_suites().contains(name) && std::binary_search(folders.begin(), folders.end(), name)) continue;
    fmt::print(stderr, "cases_runner: suite {}: {}\n", name,
               known_suites().contains(name) ? "no such folder in " + root.string() : "not known");
    return 2;
  }
  if (names.empty()) names = folders;
  Tally total;
  for (const std::string& name : names) {
    const auto found = known_suites().find(name);
    if (found == known_suites().end()) {
      fmt::print("{}: not covered\n", name);
      continue;
    }
    const Tally tally = run_suite(root / name, found->second);
    total.passed += tally.passed;
    total.failed += tally.failed;
  }
  fmt::print("{} passed, {} failed\n", total.passed, total.failed);
  return total.failed == 0 && total.passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace::testing

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    fmt::print(stderr, "usage: cases_runner DIR [SUITE...]\n");
    return 2;
  }
  try {
    const std::filesystem::path root = std::filesystem::canonical(argv[1]);
    return headrace::testing::run(root, std::vector<std::string>(argv + 2, argv + argc));
  } catch (const std::exception& e) {
    fmt::print(stderr, "cases_runner: {}\n", e.what());
    return 3;
  }
}

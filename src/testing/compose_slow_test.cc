#include "testing/compose.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace headrace::testing {
namespace {

TEST(Composition, EveryPairRunsOrIsRefusedByBothNames) {
  const std::vector<Pair> pairs = run_pairs();
  EXPECT_EQ(pairs.size(), 13u * 12 / 2);
  const std::set<std::pair<std::string, std::string>> meaningless = {{"beam search", "penalties"}, {"beam search", "seed"}};
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.first + " and " + pair.second);
    EXPECT_EQ(pair.failure, "");
    EXPECT_EQ(!pair.refusal.empty(), meaningless.contains({pair.first, pair.second})) << pair.refusal;
    if (!pair.refusal.empty()) {
      EXPECT_NE(pair.refusal.find("beam search"), std::string::npos) << pair.refusal;
      const char* parameter = pair.second == "seed" ? "temperature" : "repetition_penalty";  // the first that the feature sets
      EXPECT_EQ(pair.refusal.find(parameter), 0u) << pair.refusal;
    }
  }
  const std::string page = composition_page(pairs);
  constexpr const char* kPage = "docs/composition.md";
  if (std::getenv("HEADRACE_WRITE_DOCS") != nullptr) std::ofstream(kPage) << page;
  std::stringstream written;
  written << std::ifstream(kPage).rdbuf();
  EXPECT_EQ(written.str(), page) << "write the page again: HEADRACE_WRITE_DOCS=1";
}

}  // namespace
}  // namespace headrace::testing

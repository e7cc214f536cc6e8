#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace headrace::cli {
namespace {

const std::vector<std::string> kCommands{"run", "serve", "bench", "inspect", "tokenize"};

TEST(Suggest, FindsASlipOfTheFingers) {
  EXPECT_EQ(nearest("rnu", kCommands), "run");
  EXPECT_EQ(nearest("inspct", kCommands), "inspect");
  EXPECT_EQ(nearest("tokenise", kCommands), "tokenize");
}

TEST(Suggest, CompletesABeginning) { EXPECT_EQ(nearest("tok", kCommands), "tokenize"); }

TEST(Suggest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("xyzzy", kCommands), "");
  EXPECT_EQ(nearest("", kCommands), "");
  EXPECT_EQ(nearest(std::string(10'000, 'r'), kCommands), "");
}

}  // namespace
}  // namespace headrace::cli

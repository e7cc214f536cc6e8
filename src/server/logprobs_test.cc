// Labels and offsets by the API's rules; the shared cases hold further values.
#include "server/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace::server {
namespace {

TEST(FiniteLogprob, GivesJsonNoInfinity) {
  EXPECT_EQ(finite_logprob(-HUGE_VAL), -9999.0);
  EXPECT_EQ(finite_logprob(-12.5), -12.5);
}

TEST(TokenLabel, SpellsBytesThatAreNoText) {
  EXPECT_EQ(token_label("abc"), "abc");
  EXPECT_EQ(token_label("\xf0\x9f"), "bytes:\\xf0\\x9f");
}

TEST(TextOffsets, CountsCodePointsAcrossTokensThatSplitThem) {
  TextOffsets offsets;
  EXPECT_EQ(offsets.next("a"), 0);
  EXPECT_EQ(offsets.next("\xf0\x9f"), 1);
  EXPECT_EQ(offsets.next("\x98\x80"), 2);
  EXPECT_EQ(offsets.next("b"), 2);
}

}  // namespace
}  // namespace headrace::server

// Log-probabilities against a softmax in long double; the shared cases hold further values from numpy.
#include "server/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headrace::server {
namespace {

TEST(ScoreToken, EqualsASoftmaxInLongDouble) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(static_cast<float>((i * 7919) % 1009) / 97.0f);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  const TokenLogprob got = score_token(logits, 3, 5);
  EXPECT_NEAR(got.logprob, static_cast<double>(logits[3] - std::log(sum)), 1e-9);
  ASSERT_EQ(got.top.size(), 6u);
  EXPECT_EQ(got.top.back().first, 3);
  for (size_t i = 1; i < got.top.size(); ++i) EXPECT_GE(got.top[i - 1].second, got.top[i].second);
}

TEST(ScoreToken, PutsTheLowerIdFirstOnATie) {
  const TokenLogprob got = score_token(std::vector<float>{1, 2, 2, 2, 1}, 2, 2);
  ASSERT_EQ(got.top.size(), 2u);
  EXPECT_EQ(got.top[0].first, 1);
  EXPECT_EQ(got.top[1].first, 2);
}

TEST(ScoreToken, TakesInfiniteAndUndefinedLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  const TokenLogprob got = score_token(std::vector<float>{-inf, std::nanf(""), 0}, 0, 1);
  EXPECT_EQ(finite_logprob(got.logprob), -9999.0);
  EXPECT_EQ(got.top[0].first, 2);
  EXPECT_NEAR(got.top[0].second, 0.0, 1e-12);
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

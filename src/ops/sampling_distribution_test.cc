// Philox against the known answers that its authors publish (Random123, kat_vectors); parameters against
// their ranges. The distribution itself is judged by cases_runner's suite `sampling`.
#include "ops/sampling_distribution.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/sample.h"

namespace headrace::ops {
namespace {

using Counter = std::array<uint32_t, 4>;

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox::block({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::block({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(SamplingParameters, AreRefusedOutsideTheirRangesByName) {
  const auto refusal = [](SamplingParameters p) { return check_sampling_parameters(p, 100).message(); };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.temperature = -0.1}), ::testing::HasSubstr("temperature"));
  EXPECT_THAT(refusal({.temperature = std::nan("")}), ::testing::HasSubstr("temperature"));
  EXPECT_THAT(refusal({.top_k = -2}), ::testing::HasSubstr("top_k"));
  EXPECT_THAT(refusal({.top_p = 1.01}), ::testing::HasSubstr("top_p"));
  EXPECT_THAT(refusal({.min_p = -1}), ::testing::HasSubstr("min_p"));
  EXPECT_THAT(refusal({.typical_p = 1.01}), ::testing::HasSubstr("typical_p"));
  EXPECT_THAT(refusal({.repetition_penalty = 0}), ::testing::HasSubstr("repetition_penalty"));
  EXPECT_THAT(refusal({.logit_bias = {{100, 1.0}}}), ::testing::HasSubstr("token 100"));
  EXPECT_EQ(refusal({.logit_bias = {{1, -HUGE_VAL}}}), "");
  EXPECT_THAT(refusal({.logit_bias = {{1, HUGE_VAL}}}), ::testing::HasSubstr("token 1,"));
}

// By hand: these probabilities carry 1, 2, 3 and 3 bits, 1.75 are to be expected: they lie 0.75, 0.25, 1.25 and 1.25 away.
TEST(SamplingDistribution, TypicalKeepsWhatIsNearestTheExpectedInformation) {
  const double logits[] = {std::log(0.5), std::log(0.25), std::log(0.125), std::log(0.125)};
  const auto kept = [&](double typical_p) { return *sampling_distribution(logits, {.typical_p = typical_p}); };
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  EXPECT_THAT(kept(0), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(kept(0.25), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(kept(0.26), ElementsAre(DoubleNear(2.0 / 3, 1e-12), DoubleNear(1.0 / 3, 1e-12), 0, 0));
  EXPECT_THAT(kept(0.75), ElementsAre(DoubleNear(2.0 / 3, 1e-12), DoubleNear(1.0 / 3, 1e-12), 0, 0));
  // The last two are as far: both stay, as in transformers.
  for (const double p : {0.76, 1.0}) {
    const auto eighth = DoubleNear(0.125, 1e-12);
    EXPECT_THAT(kept(p), ElementsAre(DoubleNear(0.5, 1e-12), DoubleNear(0.25, 1e-12), eighth, eighth));
  }
}

TEST(SamplingDistribution, ABanLeavesTheOthersAndNoneLeftIsAnError) {
  const double logits[] = {3, 2, 2};
  EXPECT_THAT(*sampling_distribution(logits, {.logit_bias = {{0, -HUGE_VAL}}}), ::testing::ElementsAre(0, 0.5, 0.5));
  const SamplingParameters all{.logit_bias = {{0, -HUGE_VAL}, {1, -HUGE_VAL}, {2, -HUGE_VAL}}};
  EXPECT_EQ(sampling_distribution(logits, all).error().code(), Code::internal);
}

TEST(Draw, WalksIdsInOrderAndSkipsImpossibleOnes) {
  const double probabilities[] = {0.25, 0.0, 0.5, 0.25};
  EXPECT_EQ(draw(probabilities, 0.1), 0);
  EXPECT_EQ(draw(probabilities, 0.25), 2);
  EXPECT_EQ(draw(probabilities, 0.74), 2);
  EXPECT_EQ(draw(probabilities, 0.9999999999), 3);
}

}  // namespace
}  // namespace headrace::ops

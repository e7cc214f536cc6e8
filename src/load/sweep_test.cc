#include "load/sweep.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace::load {
namespace {

// A server that does at most `throughput` requests a second and keeps the goal up to `limit`.
struct Model {
  double throughput, limit;
  std::vector<double> asked;
  Result<Figures> operator()(double rate) {
    asked.push_back(rate);
    Figures figures;
    figures.requests_per_s = std::min(rate, throughput);
    figures.good_share = rate <= limit ? 1.0 : 0.5;
    return figures;
  }
};

SweepResult found(Model& model, SweepOptions options = {}) {
  auto result = sweep(
      options, [&](double rate) { return model(rate); }, [] { return false; });
  EXPECT_TRUE(result.has_value());
  return *result;
}

TEST(Sweep, FindsTheHighestRateToWithinThePrecision) {
  for (const double limit : {1.0, 7.3, 31.0, 39.9}) {
    Model model{40, limit, {}};
    const SweepResult result = found(model, {.max_points = 20});
    EXPECT_LE(result.best_rate, limit);
    EXPECT_GT(result.failed_rate, limit);
    EXPECT_LE(result.failed_rate - result.best_rate, 0.05 * result.failed_rate);
    EXPECT_TRUE(std::isinf(model.asked.front()));
    EXPECT_EQ(model.asked[1], 40);
  }
}

TEST(Sweep, AGoalThatIsMetByAllAtOnceIsMetAtWhatTheServerDoes) {
  Model model{40, INFINITY, {}};
  const SweepResult result = found(model);
  EXPECT_EQ(result.best_rate, 40);
  EXPECT_EQ(result.failed_rate, 0);
  EXPECT_EQ(model.asked.size(), 1u);
}

TEST(Sweep, AGoalThatIsNeverMetEndsAfterTheMostPoints) {
  Model model{40, -1, {}};
  const SweepResult result = found(model, {.max_points = 8});
  EXPECT_EQ(result.best_rate, 0);
  EXPECT_EQ(result.points.size(), 8u);
}

TEST(Sweep, AServerThatAnswersNothingEndsIt) {
  Model model{0, -1, {}};
  EXPECT_EQ(found(model).points.size(), 1u);
}

TEST(Sweep, AStoppedRunDoesNotCountAndAnErrorIsReturned) {
  int runs = 0;
  auto result = sweep(
      {}, [&](double) -> Result<Figures> { return ++runs, Figures{.requests_per_s = 5}; }, [&] { return runs == 3; });
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->points.size(), 2u);
  const auto failed = sweep(
      {}, [](double) -> Result<Figures> { return error(Code::unavailable, "gone"); }, [] { return false; });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message(), "gone");
}

}  // namespace
}  // namespace headrace::load

#include "engine/request.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace::engine {
namespace {

Request valid_request() {
  Request request;
  request.prompt = {1, 2, 3};
  return request;
}

TEST(Request, WhatIsOutOfRangeIsNamedWithRangeAndValue) {
  struct Row {
    const char* message;
    void (*spoil)(Request&);
  };
  const Row rows[] = {
      {"prompt: want at least one token, got none", [](Request& r) { r.prompt.clear(); }},
      {"prompt[1]: want a token id from 0 to 99, got 100", [](Request& r) { r.prompt[1] = 100; }},
      {"prompt[0]: want a token id from 0 to 99, got -1", [](Request& r) { r.prompt[0] = -1; }},
      {"stop_token_ids[0]: want a token id from 0 to 99, got 100", [](Request& r) { r.stop_token_ids = {100}; }},
      {"max_tokens: want 1 to 2147483647, got 0", [](Request& r) { r.max_tokens = 0; }},
      {"n: want 1 to 128, got 0", [](Request& r) { r.n = 0; }},
      {"n: want 1 to 128, got 2147483647", [](Request& r) { r.n = 2147483647; }},
      {"temperature: want 0 to 100, got -1", [](Request& r) { r.sampling.temperature = -1; }},
      {"temperature: want 0 to 100, got nan", [](Request& r) { r.sampling.temperature = std::nanf(""); }},
      {"temperature: want 0 to 100, got inf", [](Request& r) { r.sampling.temperature = HUGE_VALF; }},
      {"top_p: want more than 0, got 0", [](Request& r) { r.sampling.top_p = 0; }},
      {"top_p: want 0 to 1, got 2", [](Request& r) { r.sampling.top_p = 2; }},
      {"min_p: want 0 to 1, got -1", [](Request& r) { r.sampling.min_p = -1; }},
      {"top_k: want 0 to 2147483647, got -1", [](Request& r) { r.sampling.top_k = -1; }},
  };
  EXPECT_TRUE(check_request(valid_request(), 100).ok());
  for (const Row& row : rows) {
    Request request = valid_request();
    row.spoil(request);
    const Status status = check_request(request, 100);
    EXPECT_EQ(status.code(), Code::invalid_argument) << row.message;
    EXPECT_EQ(status.message(), row.message);
  }
}

TEST(Request, KindsThatTheEngineDoesNotServeAreUnsupported) {
  Request request = valid_request();
  request.kind = RequestKind::transcribe;
  EXPECT_EQ(check_request(request, 100).code(), Code::unsupported);
}

TEST(RequestTiming, FiguresFollowTheStamps) {
  RequestTiming timing;
  timing.arrived = TimePoint() + std::chrono::seconds(10);
  EXPECT_EQ(timing.ttft_ms(), 0.0);
  EXPECT_EQ(timing.tokens_per_s(), 0.0);
  timing.first_token = timing.arrived + std::chrono::milliseconds(50);
  timing.last_token = timing.first_token + std::chrono::milliseconds(90);
  timing.completion_tokens = 20;  // two choices of ten
  timing.longest_choice = 10;
  EXPECT_DOUBLE_EQ(timing.ttft_ms(), 50.0);
  EXPECT_DOUBLE_EQ(timing.tpot_ms(), 10.0);
  EXPECT_NEAR(timing.tokens_per_s(), 20 / 0.140, 1e-9);
}

TEST(FinishReason, HasTheNamesOfTheInterface) {
  EXPECT_STREQ(finish_reason_name(FinishReason::stop), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::length), "length");
}

}  // namespace
}  // namespace headrace::engine

// Golden values: transformers' beam search in float64 on the tiny checkpoints (tools/golden/beam_search.py).
#include "engine/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "testing/golden_json.h"
#include "testing/tiny_engine.h"

namespace headrace::engine {
namespace {

using headrace::testing::Answer;
using nlohmann::json;

Request request_of(const json& row) {
  Request request;
  request.prompt = row.at("prompt").get<std::vector<int32_t>>();
  request.n = row.at("n");
  request.max_tokens = row.at("max_tokens");
  request.min_tokens = row.at("min_tokens");
  request.stop_token_ids = row.at("stop").get<std::vector<int32_t>>();
  request.beam = {.width = row.at("width"), .length_penalty = row.at("length_penalty"), .early_stopping = row.at("early_stopping")};
  request.logprobs = 0;
  return request;
}

// Alone and all at once, in a pool that lets them take each other's memory.
TEST(BeamSearch, HypothesesAndScoresEqualTheReference) {
  const json golden = testing::golden_json("beam_search.json");
  for (const bool crowded : {false, true}) {
    std::map<std::string, std::unique_ptr<Engine>> engines;
    std::vector<std::shared_ptr<testing::CollectingSink>> sinks;
    uint64_t preemptions = 0;
    for (const json& row : golden.at("cases")) {
      std::unique_ptr<Engine>& engine = engines[row.at("checkpoint")];
      if (!engine) {
        testing::TinyEngineOptions options{.checkpoint = "tiny_decoders/" + row.at("checkpoint").get<std::string>()};
        options.policy = DtypePolicy::exact();
        options.kv_tokens = crowded ? 400 : 4096;
        options.config.max_batched_tokens = crowded ? 16 : 512;
        engine = testing::open_tiny_engine(options);
      }
      Request request = request_of(row);
      request.priority = -static_cast<int32_t>(sinks.size());  // each may take the place of those before it
      sinks.push_back(std::make_shared<testing::CollectingSink>(request.n));
      const auto id = engine->submit(request, sinks.back());
      ASSERT_TRUE(id.has_value()) << id.error().message();
      if (!crowded) {
        ASSERT_TRUE(sinks.back()->wait());
      }
    }
    for (size_t i = 0; i < sinks.size(); ++i) {
      const json& row = golden.at("cases")[i];
      SCOPED_TRACE(row.dump());
      ASSERT_TRUE(sinks[i]->wait());
      EXPECT_EQ(sinks[i]->complaint(), "");
      const Answer answer = testing::answer_of(*sinks[i], row.at("n"));
      for (size_t choice = 0; choice < answer.choices.size(); ++choice) {
        const Answer::Choice& got = answer.choices[choice];
        std::vector<int32_t> ids = got.tokens;
        if (got.end_token >= 0) ids.push_back(got.end_token);
        EXPECT_EQ(ids, row.at("sequences")[choice].get<std::vector<int32_t>>());
        if (got.end_token >= 0) continue;  // whose own log-probability no event carries
        double sum = 0;
        for (const TokenLogprob& token : got.logprobs) sum += token.logprob;
        const double score = sum / std::pow(static_cast<double>(ids.size()), row.at("length_penalty").get<double>());
        EXPECT_NEAR(score, row.at("scores")[choice].get<double>(), 1e-4 * (1 + std::abs(score)));
      }
    }
    for (const auto& [name, engine] : engines) {
      preemptions += engine->stats().preemptions;
      EXPECT_EQ(engine->stats().kv_blocks_used, engine->stats().kv_blocks_cached) << name;
    }
    if (!crowded) {
      EXPECT_EQ(preemptions, 0u);
    }
  }
}

}  // namespace
}  // namespace headrace::engine

#include "engine/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/byte_tokenizer.h"
#include "testing/fake_runner.h"

namespace headrace::engine {
namespace {

using headrace::testing::byte_ids;
using headrace::testing::FakeModel;
using headrace::testing::FakeRunner;
using headrace::testing::kByteEos;
using headrace::testing::kByteVocab;
using headrace::testing::make_byte_tokenizer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const text::Tokenizer& tokenizer() {
  static const std::unique_ptr<text::Tokenizer> bytes = make_byte_tokenizer();
  return *bytes;
}
FakeModel speaking(std::string_view reply, int depth = 0) {
  return {.vocab_size = kByteVocab, .depth = depth, .reply = byte_ids(reply), .eos_id = kByteEos};
}
Request prompt(std::string_view text, int32_t max_tokens = 100) {
  Request request;
  request.prompt = byte_ids(text);
  request.max_tokens = max_tokens;
  return request;
}
Event tokens_event(std::string_view text, FinishReason finish = FinishReason::none, int32_t choice = 0) {
  Event event{.choice = choice, .tokens = byte_ids(text), .finish = finish, .last = finish != FinishReason::none};
  event.timing.last_token = TimePoint() + std::chrono::seconds(text.size());
  return event;
}

class GenerateTest : public ::testing::Test {
 protected:
  Result<TextDelta> run(const FakeModel& model, const Request& request, std::vector<std::string> stop = {}) {
    engine_ = std::make_unique<Engine>(std::make_unique<FakeRunner>(model), EngineConfig{}, std::vector<int32_t>{kByteEos});
    text_.clear();
    return generate(*engine_, tokenizer(), request, std::move(stop), [&](const TextDelta& delta) {
      EXPECT_TRUE(delta.status.ok());
      text_ += delta.text;
      ids_.insert(ids_.end(), delta.token_ids.begin(), delta.token_ids.end());
    });
  }
  std::unique_ptr<Engine> engine_;
  std::string text_;
  std::vector<int32_t> ids_;
};

TEST_F(GenerateTest, StreamsTheTextAndEndsAtTheEndOfSequence) {
  const auto last = run(speaking("A mill race."), prompt("?"));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(text_, "A mill race.");
  EXPECT_EQ(ids_, byte_ids("A mill race."));
  EXPECT_EQ(last->finish, FinishReason::stop);
  EXPECT_EQ(last->timing.completion_tokens, 12);
  EXPECT_EQ(last->timing.prompt_tokens, 1);
}

TEST_F(GenerateTest, AStopStringEndsTheAnswerTheEngineIncluded) {
  for (const int depth : {0, 1}) {
    ids_.clear();
    const auto last = run(speaking("one two three four", depth), prompt("?"), {"thr", "zzz"});
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(text_, "one two ");
    EXPECT_EQ(ids_, byte_ids("one two thr"));
    EXPECT_EQ(last->finish, FinishReason::stop);
    EXPECT_TRUE(last->last);
    EXPECT_EQ(last->timing.completion_tokens, 11);
    while (engine_->stats().requests_running > 0) std::this_thread::yield();
    EXPECT_EQ(engine_->stats().kv_blocks_used, engine_->stats().kv_blocks_cached);
  }
}

TEST_F(GenerateTest, AnAnswerCutInsideACharacterEndsWithAReplacement) {
  const auto last = run(speaking("caf\xc3\xa9"), prompt("?", 4));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(text_, "caf\xef\xbf\xbd");
  EXPECT_EQ(last->finish, FinishReason::length);
}

TEST_F(GenerateTest, CancellationAbortsTheRequest) {
  FakeModel model = speaking("x");
  model.reply.clear();
  model.step_delay = std::chrono::microseconds(100);
  engine_ = std::make_unique<Engine>(std::make_unique<FakeRunner>(model), EngineConfig{}, std::vector<int32_t>{kByteEos});
  int deltas = 0;
  const auto last = generate(
      *engine_, tokenizer(), prompt("?", 2000), {}, [&](const TextDelta&) { ++deltas; }, [&] { return deltas >= 5; });
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->finish, FinishReason::abort);
  EXPECT_GE(deltas, 5);
  EXPECT_LT(last->timing.completion_tokens, 2000);
}

TEST_F(GenerateTest, ErrorsOfArrivalAndOfTheRunAreReturned) {
  EXPECT_EQ(run(speaking("x"), prompt("")).error().code(), Code::invalid_argument);
  FakeModel failing = speaking("x");
  failing.on_wait = [](uint64_t) { return make_status(Code::internal, "device fault"); };
  EXPECT_EQ(run(failing, prompt("?")).error().message(), "device fault");
}

TEST(TextAssembler, HoldsBackWhatIsNoWholeCharacterYet) {
  TextAssembler assembler(tokenizer(), 1, {});
  EXPECT_EQ(assembler.push(tokens_event("a\xe2\x82")).text, "a");
  const TextDelta delta = assembler.push(tokens_event("\xac", FinishReason::length));
  EXPECT_EQ(delta.text, "\xe2\x82\xac");
  EXPECT_EQ(delta.finish, FinishReason::length);
  EXPECT_TRUE(delta.last);
  EXPECT_FALSE(assembler.should_abort());
}

TEST(TextAssembler, AfterAStopStringNothingOfTheChoiceIsDeliveredOrCounted) {
  TextAssembler assembler(tokenizer(), 1, {.stop = {"END"}});
  const TextDelta stopped = assembler.push(tokens_event("xENDyz"));
  EXPECT_EQ(stopped.text, "x");
  EXPECT_EQ(stopped.token_ids, byte_ids("xEND"));
  EXPECT_EQ(stopped.finish, FinishReason::stop);
  EXPECT_TRUE(stopped.last);
  EXPECT_EQ(stopped.timing.completion_tokens, 4);
  EXPECT_TRUE(assembler.should_abort());
  const TextDelta surplus = assembler.push(tokens_event("more", FinishReason::abort));
  EXPECT_EQ(surplus.text, "");
  EXPECT_THAT(surplus.token_ids, IsEmpty());
  EXPECT_EQ(surplus.finish, FinishReason::none);
  EXPECT_FALSE(surplus.last);
}

TEST(TextAssembler, TheStopStringCanBeKept) {
  TextAssembler assembler(tokenizer(), 1, {.stop = {"END"}, .include_stop = true});
  EXPECT_EQ(assembler.push(tokens_event("xENDyz")).text, "xEND");
}

// As vLLM's min_tokens: the stop string may begin before so many tokens, but not end.
TEST(TextAssembler, AStopStringThatEndsWithinMinTokensIsText) {
  for (const auto& [min_tokens, text] : {std::pair(5, "ab "), std::pair(6, "ab END cd ")}) {
    TextAssembler assembler(tokenizer(), 1, {.stop = {"END"}, .min_tokens = min_tokens});
    std::string got;
    for (const char c : std::string_view("ab END cd END e")) got += assembler.push(tokens_event(std::string(1, c))).text;
    EXPECT_EQ(got, text);
    EXPECT_TRUE(assembler.should_abort());
  }
}

TEST(TextAssembler, ARequestEndsWithTheLastOfItsChoices) {
  TextAssembler assembler(tokenizer(), 2, {.stop = {"."}});
  const TextDelta first = assembler.push(tokens_event("a.", FinishReason::none, 0));
  EXPECT_EQ(first.finish, FinishReason::stop);
  EXPECT_FALSE(first.last);
  EXPECT_FALSE(assembler.should_abort());
  const TextDelta second = assembler.push(tokens_event("bcd", FinishReason::length, 1));
  EXPECT_TRUE(second.last);
  EXPECT_EQ(second.timing.completion_tokens, 5);
  EXPECT_EQ(second.timing.longest_choice, 3);
}

}  // namespace
}  // namespace headrace::engine

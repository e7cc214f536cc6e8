// Expectations follow OpenAI's API reference for the two completions endpoints.
#include "server/openai_types.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace headrace::server {
namespace {

constexpr ParseLimits kLimits{.vocab_size = 1000, .max_choices = 8};

std::string chat(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) +
         "}";
}
std::string completion(const std::string& more) {
  return R"({"model":"m","prompt":"hi")" + (more.empty() ? "" : "," + more) + "}";
}

// The `param` of the error, or "accepted".
std::string chat_error(const std::string& body) {
  const auto parsed = parse_chat_request(body, kLimits);
  return parsed ? "accepted" : parsed.error().param;
}
std::string completion_error(const std::string& body) {
  const auto parsed = parse_completion_request(body, kLimits);
  return parsed ? "accepted" : parsed.error().param;
}

TEST(ParseChat, DefaultsAreOpenAIs) {
  const auto parsed = parse_chat_request(chat(""), kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->fields.model, "m");
  EXPECT_EQ(parsed->fields.n, 1);
  EXPECT_EQ(parsed->fields.sampling.temperature, 1.0f);
  EXPECT_EQ(parsed->fields.sampling.top_p, 1.0f);
  EXPECT_FALSE(parsed->fields.max_tokens);
  EXPECT_FALSE(parsed->fields.stream);
  EXPECT_FALSE(parsed->fields.logprobs);
}

TEST(ParseChat, ReadsEveryField) {
  const auto parsed = parse_chat_request(
      chat(
          R"("max_completion_tokens":7,"n":2,"temperature":0.5,"top_p":0.25,"seed":42,"stop":["a","b"],"stream":true,)"
          R"("stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3)"),
      kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const GenerationFields& fields = parsed->fields;
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_EQ(fields.n, 2);
  EXPECT_EQ(fields.sampling.temperature, 0.5f);
  EXPECT_EQ(fields.sampling.top_p, 0.25f);
  EXPECT_EQ(fields.sampling.seed, 42u);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(fields.stream && fields.include_usage);
  EXPECT_EQ(fields.logprobs, 3);
}

TEST(ParseChat, NullIsAbsent) {
  EXPECT_EQ(
      chat_error(chat(R"("temperature":null,"stop":null,"max_tokens":null,"logit_bias":null,"tools":null)")),
      "accepted");
}

TEST(ParseChat, JoinsTextPartsAndReadsDeveloperAsSystem) {
  const auto parsed = parse_chat_request(
      R"({"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})",
      kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->messages_json, R"([{"content":"s","role":"system"},{"content":"a\nb","role":"user"}])");
}

TEST(ParseChat, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"a"}]})"), "model");
  EXPECT_EQ(chat_error(R"({"model":3,"messages":[{"role":"user","content":"a"}]})"), "model");
  EXPECT_EQ(chat_error(R"({"model":"m"})"), "messages");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":[]})"), "messages");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":["a"]})"), "messages[0]");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":[{"content":"a"}]})"), "messages[0].role");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":[{"role":"king","content":"a"}]})"), "messages[0].role");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":[{"role":"user"}]})"), "messages[0].content");
  EXPECT_EQ(chat_error(R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]}]})"),
            "messages[0].content[0]");
  EXPECT_EQ(chat_error(chat(R"("temperature":2.1)")), "temperature");
  EXPECT_EQ(chat_error(chat(R"("temperature":"hot")")), "temperature");
  EXPECT_EQ(chat_error(chat(R"("top_p":0)")), "top_p");
  EXPECT_EQ(chat_error(chat(R"("top_p":1e-60)")), "top_p");
  EXPECT_EQ(chat_error(chat(R"("max_tokens":0)")), "max_tokens");
  EXPECT_EQ(chat_error(chat(R"("max_tokens":1.5)")), "max_tokens");
  EXPECT_EQ(chat_error(chat(R"("max_tokens":18446744073709551615)")), "max_tokens");
  EXPECT_EQ(chat_error(chat(R"("n":9)")), "n");
  EXPECT_EQ(chat_error(chat(R"("seed":1.5)")), "seed");
  EXPECT_EQ(chat_error(chat(R"("stop":[""])")), "stop");
  EXPECT_EQ(chat_error(chat(R"("stop":[1])")), "stop");
  EXPECT_EQ(chat_error(chat(
                R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])")),
            "stop");
  EXPECT_EQ(chat_error(chat(R"("stream":"yes")")), "stream");
  EXPECT_EQ(chat_error(chat(R"("stream_options":{"include_usage":true})")), "stream_options");
  EXPECT_EQ(chat_error(chat(R"("top_logprobs":2)")), "top_logprobs");
  EXPECT_EQ(chat_error(chat(R"("logprobs":true,"top_logprobs":21)")), "top_logprobs");
  EXPECT_EQ(chat_error(chat(R"("logit_bias":{"1000":1})")), "logit_bias");
  EXPECT_EQ(chat_error(chat(R"("logit_bias":{"1":1000})")), "logit_bias");
}

TEST(ParseChat, ReadsWhatGoesBeyondOpenAIs) {
  const auto parsed = parse_chat_request(
      chat(R"("presence_penalty":0.5,"frequency_penalty":-0.25,"repetition_penalty":1.5,"typical_p":0.75,)"
           R"("logit_bias":{"7":-100,"8":2.5},"bad_words":["no","never"],"stop_token_ids":[3,4],"min_tokens":2,)"
           R"("max_tokens":9,"ignore_eos":true,"include_stop_str_in_output":true,"prompt_logprobs":4,"n":2,"best_of":3,)"
           R"("priority":-5,"cache_salt":"tenant","timeout":1.5)"),
      kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const GenerationFields& fields = parsed->fields;
  EXPECT_EQ(fields.sampling.presence_penalty, 0.5f);
  EXPECT_EQ(fields.sampling.frequency_penalty, -0.25f);
  EXPECT_EQ(fields.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(fields.sampling.typical_p, 0.75f);
  EXPECT_EQ(fields.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{7, -100.0f}, {8, 2.5f}}));
  EXPECT_EQ(fields.bad_words, (std::vector<std::string>{"no", "never"}));
  EXPECT_EQ(fields.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(fields.min_tokens, 2);
  EXPECT_TRUE(fields.ignore_eos && fields.include_stop);
  EXPECT_EQ(fields.prompt_logprobs, 4);
  EXPECT_EQ(fields.n, 2);
  EXPECT_EQ(fields.best_of, 3);
  EXPECT_EQ(fields.beam.width, 0);
  EXPECT_EQ(fields.priority, -5);
  EXPECT_EQ(fields.cache_salt, "tenant");
  EXPECT_NEAR(seconds_between(Clock::now(), fields.deadline), 1.5, 1.0);
}

TEST(ParseChat, TheBeamIsAsWideAsBestOfOrElseN) {
  const auto wide = parse_chat_request(
      chat(R"("use_beam_search":true,"n":2,"best_of":4,"length_penalty":0.5,"early_stopping":true)"), kLimits);
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_EQ(wide->fields.beam.width, 4);
  EXPECT_EQ(wide->fields.beam.length_penalty, 0.5f);
  EXPECT_TRUE(wide->fields.beam.early_stopping);
  EXPECT_EQ(parse_chat_request(chat(R"("use_beam_search":true,"n":3)"), kLimits)->fields.beam.width, 3);
}

TEST(ParseChat, RefusesValuesOutOfRange) {
  const std::pair<const char*, const char*> fields[] = {
      {"presence_penalty", "2.1"}, {"presence_penalty", "\"a\""}, {"frequency_penalty", "-2.1"}, {"repetition_penalty", "0"},
      {"repetition_penalty", "101"}, {"typical_p", "0"}, {"typical_p", "1.5"}, {"logit_bias", "[1]"},
      {"logit_bias", R"({"a":1})"},
      {"logit_bias", R"({"1":"x"})"}, {"bad_words", "\"no\""}, {"bad_words", "[1]"}, {"bad_words", "[\"\"]"},
      {"bad_words", "[\"  \"]"}, {"stop_token_ids", "3"}, {"stop_token_ids", "[1000]"}, {"stop_token_ids", "[\"a\"]"},
      {"min_tokens", "-1"}, {"ignore_eos", "1"}, {"include_stop_str_in_output", "1"}, {"prompt_logprobs", "21"},
      {"prompt_logprobs", "-1"}, {"best_of", "0"}, {"best_of", "9"}, {"use_beam_search", "1"}, {"length_penalty", "11"},
      {"early_stopping", "\"never\""}, {"priority", "3e9"}, {"priority", "\"high\""}, {"cache_salt", "\"\""},
      {"cache_salt", "3"},
      {"timeout", "0"}, {"timeout", "-1"}, {"timeout", "\"1s\""}, {"skip_special_tokens", "false"},
      {"truncate_prompt_tokens", "4"}, {"guided_json", "{}"}};
  for (const auto& [name, value] : fields) {
    EXPECT_EQ(chat_error(chat(fmt::format("\"{}\":{}", name, value))), name) << value;
  }
}

// What has no meaning together: the fields, the one that `param` names, the one that the message names beside it.
TEST(ParseCompletion, RefusesPairsAndNamesBoth) {
  constexpr struct {
    const char *fields, *param, *other;
  } kPairs[] = {
      {R"("best_of":3,"stream":true)", "best_of", "stream"},
      {R"("best_of":3,"echo":true,"max_tokens":0)", "best_of", "max_tokens"},
      {R"("best_of":2,"n":3)", "best_of", "n"},
      {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs", "stream"},
      {R"("min_tokens":3,"max_tokens":2)", "min_tokens", "max_tokens"},
      {R"("min_tokens":1,"max_tokens":0,"echo":true)", "min_tokens", "max_tokens"},
      {R"("length_penalty":2)", "length_penalty", "use_beam_search"},
      {R"("early_stopping":true)", "early_stopping", "use_beam_search"},
      {R"("stop":"a","use_beam_search":true)", "stop", "use_beam_search"},
      {R"("temperature":0.5,"use_beam_search":true)", "temperature", "use_beam_search"},
      {R"("top_p":0.5,"use_beam_search":true)", "top_p", "use_beam_search"},
      {R"("top_k":5,"use_beam_search":true)", "top_k", "use_beam_search"},
      {R"("min_p":0.5,"use_beam_search":true)", "min_p", "use_beam_search"},
      {R"("typical_p":0.5,"use_beam_search":true)", "typical_p", "use_beam_search"},
      {R"("repetition_penalty":1.5,"use_beam_search":true)", "repetition_penalty", "use_beam_search"},
      {R"("frequency_penalty":0.5,"use_beam_search":true)", "frequency_penalty", "use_beam_search"},
      {R"("presence_penalty":0.5,"use_beam_search":true)", "presence_penalty", "use_beam_search"},
      {R"("logit_bias":{"1":1},"use_beam_search":true)", "logit_bias", "use_beam_search"},
      {R"("bad_words":["a"],"use_beam_search":true)", "bad_words", "use_beam_search"},
      {R"("use_beam_search":true,"best_of":11)", "best_of", "use_beam_search"},
      {R"("use_beam_search":true,"n":11)", "n", "use_beam_search"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "stream"},
  };
  for (const auto& pair : kPairs) {
    const auto parsed = parse_completion_request(completion(pair.fields), {.vocab_size = 1000, .max_choices = 16});
    ASSERT_FALSE(parsed) << pair.fields;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, pair.param) << pair.fields;
    EXPECT_NE(parsed.error().message.find(pair.other), std::string::npos) << parsed.error().message;
  }
}

TEST(ParseCompletion, TakesPairsThatHaveAMeaning) {
  for (const char* fields : {R"("best_of":3,"logprobs":2)", R"("best_of":2,"n":2,"stream":true)",
                             R"("use_beam_search":true,"stream":true)",
                             R"("use_beam_search":true,"temperature":0,"stop_token_ids":[1],"min_tokens":1)",
                             R"("echo":true,"logprobs":20)", R"("echo":true,"max_tokens":0)", R"("length_penalty":1.0)"}) {
    EXPECT_EQ(completion_error(completion(fields)), "accepted") << fields;
  }
}

TEST(ParseCompletion, NoTokensAreAskedForOnlyWithEcho) {
  EXPECT_EQ(completion_error(completion(R"("max_tokens":0)")), "max_tokens");
  EXPECT_EQ(completion_error(completion(R"("max_tokens":0,"echo":false)")), "max_tokens");
  EXPECT_EQ(chat_error(chat(R"("max_tokens":0,"echo":true)")), "max_tokens");
}

TEST(ParseChat, RefusesWhatWouldChangeTheAnswerAndIsNotThere) {
  for (const std::string field :
       {R"("tools":[{"type":"function"}])", R"("tool_choice":"required")", R"("functions":[{}])",
        R"("response_format":{"type":"json_object"})", R"("modalities":["audio"])"}) {
    const auto parsed = parse_chat_request(chat(field), kLimits);
    ASSERT_FALSE(parsed) << field;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_NE(parsed.error().message.find("not supported yet"), std::string::npos) << parsed.error().message;
    EXPECT_EQ(parsed.error().code, "unsupported_parameter");
  }
}

TEST(ParseChat, AcceptsTheSameFieldsWhenTheyChangeNothing) {
  EXPECT_EQ(chat_error(
                chat(R"("tools":[],"tool_choice":"none","logit_bias":{},"presence_penalty":0,)"
                     R"("frequency_penalty":0.0,"response_format":{"type":"text"},"user":"u","store":true)")),
            "accepted");
}

TEST(ParseChat, SeedsOfRequestsWithoutOneDiffer) {
  const auto a = parse_chat_request(chat(""), kLimits), b = parse_chat_request(chat(""), kLimits);
  EXPECT_NE(a->fields.sampling.seed, b->fields.sampling.seed);
}

TEST(ParseBody, RefusesWhatIsNoJsonObject) {
  for (const std::string body :
       {"", "{", "[]", "3", "\"a\"", "{}x", "{\"model\":\"\xff\"}", "{\"model\":\"\\ud83d\"}"}) {
    EXPECT_EQ(chat_error(body), "") << body;
  }
}

TEST(ParseBody, RefusesDepthAndManyValuesBeforeParsing) {
  const auto deep = parse_chat_request(std::string(1 << 20, '['), kLimits);
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("deeper"), std::string::npos);
  const auto many = parse_chat_request("{\"a\":[" + std::string(2 << 20, ',') + "]}", kLimits);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("values"), std::string::npos);
}

TEST(ParseCompletion, ReadsEveryFormOfPrompt) {
  const auto one = parse_completion_request(completion(""), kLimits);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->prompts, (std::vector<Prompt>{std::string("hi")}));
  const auto texts = parse_completion_request(R"({"model":"m","prompt":["a","b"]})", kLimits);
  ASSERT_TRUE(texts);
  EXPECT_EQ(texts->prompts, (std::vector<Prompt>{std::string("a"), std::string("b")}));
  const auto ids = parse_completion_request(R"({"model":"m","prompt":[1,2]})", kLimits);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->prompts, (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  const auto lists = parse_completion_request(R"({"model":"m","prompt":[[1],[2,3]]})", kLimits);
  ASSERT_TRUE(lists);
  EXPECT_EQ(lists->prompts, (std::vector<Prompt>{std::vector<int32_t>{1}, std::vector<int32_t>{2, 3}}));
}

TEST(ParseCompletion, RefusesBadPrompts) {
  for (const std::string prompt :
       {"null", "3", "[]", "{}", "[1000]", "[-1]", "[1,\"a\"]", "[\"a\",1]", "[1.5]", "[[1],[1000]]",
        "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]"}) {
    EXPECT_EQ(completion_error(R"({"model":"m","prompt":)" + prompt + "}"), "prompt") << prompt;
  }
}

TEST(ParseCompletion, BoundsPromptsTimesChoices) {
  EXPECT_EQ(completion_error(R"({"model":"m","prompt":["a","b"],"n":4})"), "accepted");
  EXPECT_EQ(completion_error(R"({"model":"m","prompt":["a","b"],"n":5})"), "n");
  EXPECT_EQ(completion_error(R"({"model":"m","prompt":["a","b"],"best_of":5})"), "best_of");
}

TEST(ParseCompletion, RefusesASuffix) {
  EXPECT_EQ(completion_error(completion(R"("suffix":"x")")), "suffix");
  EXPECT_EQ(completion_error(completion(R"("suffix":"")")), "accepted");
}

}  // namespace
}  // namespace headrace::server

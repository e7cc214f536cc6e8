// Expectations follow OpenAI's API reference for the two completions endpoints.
#include "server/openai_types.h"

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

TEST(ParseChat, RefusesWhatWouldChangeTheAnswerAndIsNotThere) {
  for (const std::string field :
       {R"("tools":[{"type":"function"}])", R"("tool_choice":"required")", R"("logit_bias":{"1":1})",
        R"("presence_penalty":0.5)", R"("frequency_penalty":-1)", R"("functions":[{}])",
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
}

TEST(ParseCompletion, RefusesSuffixBestOfAndLogprobsOfThePrompt) {
  EXPECT_EQ(completion_error(completion(R"("suffix":"x")")), "suffix");
  EXPECT_EQ(completion_error(completion(R"("suffix":"")")), "accepted");
  EXPECT_EQ(completion_error(completion(R"("best_of":3)")), "best_of");
  EXPECT_EQ(completion_error(completion(R"("best_of":2,"n":2)")), "accepted");
  EXPECT_EQ(completion_error(completion(R"("echo":true,"logprobs":1)")), "logprobs");
}

}  // namespace
}  // namespace headrace::server

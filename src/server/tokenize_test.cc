// POST /tokenize, /detokenize and /apply_template over a real socket, with the fake model. Fields and answers
// follow the documentation of vLLM's and llama.cpp's servers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/byte_tokenizer.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::server {
namespace {

using nlohmann::json;
using testing::byte_ids;
using testing::kByteEos;
using testing::TestServer;

constexpr const char* kEos = "<|end|>";  // the fake model's special token

json post(const TestServer& server, std::string_view path, const nlohmann::ordered_json& body,
          int status = 200) {
  const auto answer = testing::fetch(server.port(), "POST", path, body.dump());
  EXPECT_EQ(answer.status, status) << answer.body;
  return json::parse(answer.body);
}
size_t count_eos(const json& answer) {
  const auto ids = answer.at("tokens").get<std::vector<int32_t>>();
  return static_cast<size_t>(std::count(ids.begin(), ids.end(), kByteEos));
}

TEST(Tokenize, APromptGivesIdsTheirNumberAndTheContext) {
  TestServer server;
  const json answer = post(server, "/tokenize", {{"model", "m"}, {"prompt", "a\u00e9"}});
  EXPECT_EQ(answer["tokens"].get<std::vector<int32_t>>(), byte_ids("a\u00e9"));
  EXPECT_EQ(answer["count"], 3);
  EXPECT_EQ(answer["max_model_len"], server.backend().limits().max_context);
  EXPECT_TRUE(answer["token_strs"].is_null());
  const json named = post(server, "/tokenize", {{"prompt", "ab"}, {"return_token_strs", true}});
  EXPECT_EQ(named["token_strs"], json({"a", "b"}));
}

TEST(Tokenize, ContentGivesPiecesWhereTheyAreAskedFor) {
  TestServer server;
  EXPECT_EQ(post(server, "/tokenize", {{"content", "ab"}})["tokens"], json({97, 98}));
  // What is no character of its own is a list of bytes.
  EXPECT_EQ(post(server, "/tokenize", {{"content", "a\u00e9"}, {"with_pieces", true}})["tokens"],
            json({{{"id", 97}, {"piece", "a"}},
                  {{"id", 0xC3}, {"piece", {0xC3}}},
                  {{"id", 0xA9}, {"piece", {0xA9}}}}));
}

TEST(Tokenize, MessagesGoThroughTheTemplateWithItsVariables) {
  TestServer server;
  const nlohmann::ordered_json body = {
      {"messages",
       {{{"role", "user"},
         {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}},
      {"chat_template_kwargs", {{"z", 1}, {"a", 2}}},
      {"tools", {{{"name", "f"}}}},
      {"add_generation_prompt", false}};
  // The order of keys is the request's own.
  const std::string prompt = R"({"z":1,"a":2,"tools":[{"name":"f"}],"add_generation_prompt":false}<user>a
b
<assistant>)";
  for (const char* path : {"/apply_template", "/apply-template"})
    EXPECT_EQ(post(server, path, body)["prompt"], prompt);
  EXPECT_EQ(post(server, "/tokenize", body)["tokens"].get<std::vector<int32_t>>(), byte_ids(prompt));
}

TEST(Tokenize, ArgumentsOfToolCallsReachTheTemplateAsObjects) {
  TestServer server;
  const auto prompt_of = [&](const char* arguments) {
    return post(server, "/apply_template",
                {{"messages",
                  {{{"role", "assistant"},
                    {"content", nullptr},
                    {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}}}}})["prompt"]
        .get<std::string>();
  };
  EXPECT_NE(prompt_of(R"({"x": 1})").find(R"("arguments":{"x":1})"), std::string::npos);
  EXPECT_NE(prompt_of("no json").find(R"("arguments":"no json")"), std::string::npos);
}

TEST(Tokenize, SpecialTokensAreRecognisedInPromptsAndAreTextInChatsUnlessTheRequestSaysOtherwise) {
  TestServer server;
  const json messages = {{{"role", "user"}, {"content", kEos}}};
  EXPECT_EQ(count_eos(post(server, "/tokenize", {{"prompt", kEos}})), 1u);
  EXPECT_EQ(count_eos(post(server, "/tokenize", {{"prompt", kEos}, {"allow_special", false}})), 0u);
  EXPECT_EQ(count_eos(post(server, "/tokenize", {{"content", kEos}, {"parse_special", false}})), 0u);
  EXPECT_EQ(count_eos(post(server, "/tokenize", {{"messages", messages}})), 0u);
  EXPECT_EQ(count_eos(post(server, "/tokenize", {{"messages", messages}, {"allow_special", true}})), 1u);
  // The same for what is answered.
  const size_t as_text = std::string_view("<user>\n<assistant>").size() + std::string_view(kEos).size();
  const auto prompt_tokens = [&](json more) {
    json body = {{"model", "m"}, {"messages", messages}, {"max_tokens", 1}};
    body.update(more);
    return post(server, "/v1/chat/completions", body)["usage"]["prompt_tokens"].get<size_t>();
  };
  EXPECT_EQ(prompt_tokens(json::object()), as_text);
  EXPECT_EQ(prompt_tokens({{"allow_special", true}}), as_text - std::string_view(kEos).size() + 1);
  const auto raw_tokens = [&](json more) {
    json body = {{"model", "m"}, {"prompt", kEos}, {"max_tokens", 1}};
    body.update(more);
    return post(server, "/v1/completions", body)["usage"]["prompt_tokens"].get<size_t>();
  };
  EXPECT_EQ(raw_tokens(json::object()), 1u);
  EXPECT_EQ(raw_tokens({{"allow_special", false}}), std::string_view(kEos).size());
}

TEST(Tokenize, IdsGoBackToTextUnderBothNames) {
  TestServer server;
  const json answer = post(server, "/detokenize", {{"tokens", {97, kByteEos, 98}}});
  EXPECT_EQ(answer["prompt"], "a<|end|>b");
  EXPECT_EQ(answer["content"], "a<|end|>b");
}

TEST(Tokenize, WrongRequestsAreRefusedByTheirField) {
  TestServer server;
  const auto param = [&](const char* path, const json& body, int status = 400) {
    const json answer = post(server, path, body, status);
    EXPECT_EQ(answer["error"]["type"], status == 404 ? "not_found_error" : "invalid_request_error");
    return answer["error"]["param"];
  };
  const json messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(param("/tokenize", json::object()), "prompt");
  EXPECT_EQ(param("/tokenize", {{"prompt", 5}}), "prompt");
  EXPECT_EQ(param("/tokenize", {{"prompt", "x"}, {"allow_special", "yes"}}), "allow_special");
  EXPECT_EQ(param("/tokenize", {{"prompt", "x"}, {"model", "other"}}, 404), "model");
  EXPECT_EQ(param("/tokenize", {{"messages", messages}, {"add_special_tokens", true}}), "add_special_tokens");
  EXPECT_EQ(param("/tokenize", {{"messages", messages}, {"tools", 5}}), "tools");
  EXPECT_EQ(param("/apply_template", {{"messages", messages}, {"chat_template", "{{ x }}"}}),
            "chat_template");
  EXPECT_EQ(param("/apply_template", {{"messages", messages}, {"chat_template_kwargs", 5}}),
            "chat_template_kwargs");
  for (const json& wrong :
       {json(5), json::array(), json({5}), json({{{"content", "x"}}}), json({{{"role", 5}}})}) {
    EXPECT_EQ(param("/apply_template", {{"messages", wrong}}), "messages");
  }
  EXPECT_EQ(param("/detokenize", {{"tokens", "x"}}), "tokens");
  EXPECT_EQ(param("/detokenize", {{"tokens", {-1}}}), "tokens");
  EXPECT_EQ(param("/detokenize", {{"tokens", {1 << 20}}}), "tokens");
}

}  // namespace
}  // namespace headrace::server

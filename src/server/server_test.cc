// The whole server over a real socket, with the fake runner as its model.
#include "server/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/byte_tokenizer.h"
#include "testing/eventually.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::eventually;
using testing::fetch;
using testing::http_request;
using testing::RawConnection;
using testing::RawResponse;
using testing::TestServer;

constexpr std::string_view kReply = "It drives the wheel. \xE2\x98\x83 Done.";

testing::FakeBackendOptions speaking(std::chrono::microseconds step_delay = 0us) {
  return {.model = {.step_delay = step_delay}, .reply = std::string(kReply)};
}

json chat_body(json more = json::object()) {
  json body = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "What does a mill race do?"}}}}};
  body.update(more);
  return body;
}

RawResponse post(const TestServer& server, std::string_view path, const json& body) {
  return fetch(server.port(), "POST", path, body.dump());
}

bool idle(TestServer& server) {
  const engine::EngineStats stats = server.backend().stats();
  return stats.requests_running + stats.requests_waiting == 0;
}

TEST(Server, AnswersAChat) {
  TestServer server(speaking());
  const RawResponse answer = post(server, "/v1/chat/completions", chat_body());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["choices"][0]["message"]["content"], kReply);
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], kReply.size());
  const size_t prompt = std::string_view("<user>What does a mill race do?\n<assistant>").size();
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(body["usage"]["total_tokens"], prompt + kReply.size());
}

TEST(Server, StreamsAChatInWholeCharacters) {
  TestServer server(speaking());
  const RawResponse answer =
      post(server, "/v1/chat/completions",
           chat_body({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  ASSERT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.headers.at("content-type").starts_with("text/event-stream"));
  EXPECT_TRUE(answer.complete);
  std::vector<std::string> data = testing::sse_data(answer.body);
  ASSERT_GT(data.size(), 4u);
  EXPECT_EQ(data.back(), "[DONE]");
  data.pop_back();
  const json usage = json::parse(data.back());
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], kReply.size());
  EXPECT_GE(usage["timings"]["ttft_ms"], 0.0);
  data.pop_back();
  EXPECT_EQ(json::parse(data.front())["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(json::parse(data.back())["choices"][0]["finish_reason"], "stop");
  std::string text;
  for (const std::string& event : data) {
    const json parsed = json::parse(event);
    EXPECT_EQ(parsed["object"], "chat.completion.chunk");
    EXPECT_TRUE(parsed["usage"].is_null());
    text += parsed["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, kReply);
}

TEST(Server, CutsAtStopStringsAndAtMaxTokens) {
  TestServer server(speaking());
  json body = json::parse(post(server, "/v1/chat/completions", chat_body({{"stop", "wheel"}})).body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "It drives the ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], std::string_view("It drives the wheel").size());
  body = json::parse(post(server, "/v1/chat/completions", chat_body({{"max_tokens", 5}})).body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "It dr");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(eventually([&] { return idle(server); }));
}

TEST(Server, CompletesPromptsInOrderWithEcho) {
  TestServer server(speaking());
  const json body = json::parse(post(server, "/v1/completions",
                                     {{"model", "m"},
                                      {"prompt", {"1<assistant>", "2<assistant>It"}},
                                      {"max_tokens", 4},
                                      {"n", 2},
                                      {"echo", true}})
                                    .body);
  ASSERT_EQ(body["choices"].size(), 4u) << body;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], i < 2 ? "1<assistant>It d" : "2<assistant>It dri");
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 16);
}

TEST(Server, TakesTokenIdsAsPromptAndDefaultsToSixteenTokens) {
  TestServer server(speaking());
  const json body = json::parse(
      post(server, "/v1/completions", {{"model", "m"}, {"prompt", testing::byte_ids("<assistant>")}}).body);
  EXPECT_EQ(body["choices"][0]["text"], kReply.substr(0, 16));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST(Server, ListsLogprobsOfACompletionAndOfAChat) {
  TestServer server(speaking());
  json body = json::parse(
      post(server, "/v1/completions",
           {{"model", "m"}, {"prompt", "<assistant>"}, {"max_tokens", 3}, {"logprobs", 2}, {"stop", "d"}})
          .body);
  const json& lists = body["choices"][0]["logprobs"];
  EXPECT_EQ(lists["tokens"], json({"I", "t", " "}));
  EXPECT_EQ(lists["text_offset"], json({11, 12, 13}));
  EXPECT_EQ(lists["top_logprobs"].size(), 3u);
  EXPECT_EQ(lists["top_logprobs"][0]["I"], lists["token_logprobs"][0]);
  body = json::parse(post(server, "/v1/chat/completions",
                          chat_body({{"max_tokens", 2}, {"logprobs", true}, {"top_logprobs", 2}}))
                         .body);
  const json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["token"], "I");
  EXPECT_EQ(content[0]["bytes"], json({73}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "I");
}

TEST(Server, GivesTheSameAnswerForTheSameSeedWhateverElseRuns) {
  TestServer server;
  const json request = {
      {"model", "m"}, {"prompt", "abc"}, {"max_tokens", 20}, {"seed", 7}, {"temperature", 1.2}};
  const json alone = json::parse(post(server, "/v1/completions", request).body)["choices"];
  std::vector<std::thread> clients;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] {
      json mine = request;
      mine["seed"] = i % 2 == 0 ? 7 : i;
      const json choices = json::parse(post(server, "/v1/completions", mine).body)["choices"];
      if ((choices == alone) == (i % 2 == 0)) ++equal;
    });
  }
  for (std::thread& client : clients) client.join();
  // Seed 7 at i = 7 belongs to the odd ones, and is equal all the same.
  EXPECT_EQ(equal, 11);
}

TEST(Server, AnswersErrorsInOpenAIsForm) {
  TestServer server;
  const RawResponse answer = post(server, "/v1/completions", {{"model", "other"}, {"prompt", "a"}});
  EXPECT_EQ(answer.status, 404);
  const json error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["param"], "model");
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_TRUE(error["message"].is_string() && error["type"].is_string());
  const json empty = json::parse(post(server, "/v1/completions", {{"model", "m"}, {"prompt", ""}}).body);
  EXPECT_EQ(empty["error"]["param"], "prompt") << empty;
}

TEST(Server, EndsAStreamWithAnErrorEventWhenTheEngineFails) {
  testing::FakeBackendOptions options = speaking();
  options.model.on_wait = [](uint64_t step) {
    return step == 4 ? make_status(Code::internal, "the device is gone") : Status();
  };
  TestServer server(options);
  const RawResponse answer = post(server, "/v1/chat/completions", chat_body({{"stream", true}}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.complete);
  const json last = json::parse(testing::sse_data(answer.body).back());
  EXPECT_EQ(last["error"]["type"], "server_error");
}

TEST(Server, ListsModelsAndTokenizes) {
  TestServer server;
  EXPECT_EQ(json::parse(fetch(server.port(), "GET", "/v1/models").body)["data"][0]["id"], "m");
  EXPECT_EQ(json::parse(fetch(server.port(), "GET", "/v1/models/m").body)["id"], "m");
  EXPECT_EQ(fetch(server.port(), "GET", "/v1/models/x").status, 404);
  EXPECT_EQ(json::parse(post(server, "/tokenize", {{"prompt", "ab"}}).body)["tokens"], json({97, 98}));
  EXPECT_EQ(json::parse(post(server, "/detokenize", {{"tokens", {97, 98}}}).body)["prompt"], "ab");
}

TEST(Server, ServesThePageWithAStrictPolicy) {
  TestServer server;
  for (const char* path : {"/", "/page.css", "/page.js", "/favicon.svg"}) {
    const RawResponse page = fetch(server.port(), "GET", path);
    EXPECT_EQ(page.status, 200) << path;
    EXPECT_GT(page.body.size(), 100u) << path;
    EXPECT_TRUE(page.headers.at("content-security-policy").starts_with("default-src 'none'")) << path;
    EXPECT_EQ(page.body.find("http://") == std::string::npos, std::string_view(path) != "/favicon.svg")
        << path;
  }
}

TEST(Server, CountsWhatItServed) {
  TestServer server(speaking());
  post(server, "/v1/chat/completions", chat_body());
  const std::string text = fetch(server.port(), "GET", "/metrics").body;
  for (const std::string line :
       {"headrace_ttft_seconds_count 1", "headrace_request_seconds_count 1",
        "headrace_requests_total{outcome=\"finished\"} 1", "headrace_prefill_seconds_count 1",
        "headrace_decode_seconds_count 1", "headrace_queue_seconds_count 1",
        "headrace_http_answers_total{endpoint=\"chat_completions\",status=\"200\"} 1"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_NE(text.find(fmt::format("headrace_generation_tokens_total {}", kReply.size())), std::string::npos);
}

TEST(Server, TellsOfTheQueueTheKvCacheAndItsPrefixes) {
  TestServer server(speaking());
  // 43 tokens of prompt, 30 of answer: the first two blocks of the prompt are found again, four lie in the cache.
  for (int i = 0; i < 2; ++i) post(server, "/v1/chat/completions", chat_body());
  const std::string text = fetch(server.port(), "GET", "/metrics").body;
  for (const std::string line :
       {"headrace_prefix_cache_query_tokens_total 86", "headrace_prefix_cache_hit_tokens_total 32",
        "headrace_preemptions_total 0", "headrace_requests{state=\"waiting\"} 0", "headrace_requests{state=\"running\"} 0", "headrace_kv_usage 0",
        "headrace_kv_blocks{state=\"used\"} 0", "headrace_kv_blocks{state=\"cached\"} 4",
        "headrace_kv_blocks{state=\"free\"} 1020"}) {
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line << "\n" << text;
  }
}

TEST(Server, KeepsAConnectionForSeveralRequestsAndTakesThemPipelined) {
  TestServer server;
  RawConnection connection(server.port());
  connection.send(http_request("GET", "/health") + http_request("GET", "/nope") +
                  http_request("HEAD", "/health"));
  EXPECT_EQ(connection.read_response()->status, 200);
  EXPECT_EQ(connection.read_response()->status, 404);
  EXPECT_EQ(connection.read_response(true)->status, 200);
  connection.send("GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(connection.read_response()->status, 200);
  EXPECT_TRUE(connection.closed_by_peer());
}

TEST(Server, TakesChunkedBodiesAndExpectations) {
  TestServer server(speaking());
  RawConnection connection(server.port());
  const std::string body = chat_body({{"max_tokens", 1}}).dump();
  connection.send(
      fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(connection.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.send(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body));
  EXPECT_EQ(connection.read_response()->status, 200);
}

TEST(Server, StreamsToHttp10UntilTheConnectionCloses) {
  TestServer server(speaking());
  RawConnection connection(server.port());
  const std::string body = chat_body({{"stream", true}}).dump();
  connection.send(
      fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  const auto answer = connection.read_response();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->headers.contains("transfer-encoding"));
  EXPECT_TRUE(answer->body.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace headrace::server

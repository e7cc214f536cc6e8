// POST /v1/embeddings over a real socket, with the fake runner as its embedder. Expectations follow OpenAI's API reference.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "testing/byte_tokenizer.h"
#include "testing/eventually.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::byte_ids;
using testing::eventually;
using testing::RawResponse;
using testing::TestServer;

testing::FakeModel embedder() { return {.max_context = 64, .embedding_size = 5}; }

RawResponse post(const TestServer& server, const json& body, std::string_view path = "/v1/embeddings") {
  return testing::fetch(server.port(), "POST", path, body.dump());
}
json request(json input, json more = json::object()) {
  json body = {{"model", "m"}, {"input", std::move(input)}};
  body.update(more);
  return body;
}

std::vector<float> decode_base64(const std::string& text) {
  const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    word = word << 6 | static_cast<uint32_t>(alphabet.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(word >> bits & 0xFF));
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

TEST(Embeddings, OneTextGivesOneVector) {
  TestServer server({.model = embedder()});
  const RawResponse answer = post(server, request("hello"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "m");
  ASSERT_EQ(body["data"].size(), 1u);
  EXPECT_EQ(body["data"][0]["object"], "embedding");
  EXPECT_EQ(body["data"][0]["index"], 0);
  EXPECT_EQ(body["data"][0]["embedding"].get<std::vector<float>>(), embedder().embedding(byte_ids("hello")));
  EXPECT_EQ(body["usage"], (json{{"prompt_tokens", 5}, {"total_tokens", 5}}));
}

TEST(Embeddings, BatchesOfTextsAndOfIdsComeInOrder) {
  TestServer server({.model = embedder()});
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::string(static_cast<size_t>(i * 17 % 60 + 1), static_cast<char>('a' + i % 26)));
  const json body = json::parse(post(server, request(texts)).body);
  ASSERT_EQ(body["data"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(body["data"][i]["index"], i);
    EXPECT_EQ(body["data"][i]["embedding"].get<std::vector<float>>(), embedder().embedding(byte_ids(texts[i])));
  }
  const std::vector<int32_t> first = {1, 2, 3}, second = {4};
  const auto embedding_of = [&](const json& input, size_t index) {
    return json::parse(post(server, request(input)).body)["data"][index]["embedding"].get<std::vector<float>>();
  };
  EXPECT_EQ(embedding_of(first, 0), embedder().embedding(first));
  EXPECT_EQ(embedding_of({first, second}, 1), embedder().embedding(second));
}

TEST(Embeddings, Base64CarriesTheSameFloats) {
  TestServer server({.model = embedder()});
  const json body = json::parse(post(server, request({"a", "bc"}, {{"encoding_format", "base64"}})).body);
  EXPECT_EQ(decode_base64(body["data"][0]["embedding"]), embedder().embedding(byte_ids("a")));
  EXPECT_EQ(decode_base64(body["data"][1]["embedding"]), embedder().embedding(byte_ids("bc")));
}

TEST(Embeddings, DimensionsKeepTheFirstNumbersAtLengthOne) {
  TestServer server({.model = embedder()});
  const json body = json::parse(post(server, request("hello", {{"dimensions", 2}})).body);
  const std::vector<float> whole = embedder().embedding(byte_ids("hello"));
  const std::vector<float> cut = body["data"][0]["embedding"];
  const float length = std::hypot(whole[0], whole[1]);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_NEAR(cut[0], whole[0] / length, 1e-6);
  EXPECT_NEAR(cut[1], whole[1] / length, 1e-6);
}

TEST(Embeddings, ALongTextIsCutAndIdsThatAreTooManyAreRefused) {
  TestServer server({.model = embedder()});
  const json body = json::parse(post(server, request(std::string(200, 'x'))).body);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 64);
  const RawResponse refused = post(server, request(std::vector<int>(65, 1)));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body)["error"]["param"], "input");
}

TEST(Embeddings, WhatIsWrongIsNamed) {
  TestServer server({.model = embedder()});
  struct Row {
    json body;
    int status;
    const char* param;
  };
  const Row rows[] = {
      {{{"model", "m"}}, 400, "input"},
      {{{"input", "a"}}, 400, "model"},
      {{{"model", "other"}, {"input", "a"}}, 404, "model"},
      {request(""), 400, "input"},
      {request(json::array()), 400, "input"},
      {request({"a", ""}), 400, "input"},
      {request(json::array({json::array({1}), json::array()})), 400, "input"},
      {request({1, "a"}), 400, "input"},
      {request({512}), 400, "input"},
      {request({-1}), 400, "input"},
      {request(7), 400, "input"},
      {request({{"text", "a"}}), 400, "input"},
      {request(std::vector<std::string>(2049, "a")), 400, "input"},
      {request("a", {{"encoding_format", "int8"}}), 400, "encoding_format"},
      {request("a", {{"encoding_format", 1}}), 400, "encoding_format"},
      {request("a", {{"dimensions", 0}}), 400, "dimensions"},
      {request("a", {{"dimensions", 6}}), 400, "dimensions"},
      {request("a", {{"dimensions", "5"}}), 400, "dimensions"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.body.dump().substr(0, 100));
    const RawResponse answer = post(server, row.body);
    EXPECT_EQ(answer.status, row.status);
    const json error = json::parse(answer.body)["error"];
    EXPECT_EQ(error["param"], row.param) << error;
    EXPECT_TRUE(error["message"].is_string());
  }
  EXPECT_EQ(testing::fetch(server.port(), "POST", "/v1/embeddings", "{").status, 400);
  EXPECT_EQ(testing::fetch(server.port(), "GET", "/v1/embeddings").status, 405);
}

TEST(Embeddings, EachKindOfModelRefusesTheOthersRequests) {
  TestServer generates, embeds({.model = embedder()});
  const RawResponse no_vector = post(generates, request("a", {{"dimensions", 5}}));
  EXPECT_EQ(no_vector.status, 400);
  EXPECT_EQ(json::parse(no_vector.body)["error"]["code"], "unsupported_model");
  const json chat = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  for (const auto& [path, body] : {std::pair("/v1/chat/completions", chat),
                                   std::pair("/v1/completions", json{{"model", "m"}, {"prompt", "hi"}})}) {
    const RawResponse no_text = post(embeds, body, path);
    EXPECT_EQ(no_text.status, 400);
    EXPECT_EQ(json::parse(no_text.body)["error"]["code"], "unsupported_model");
  }
}

TEST(Embeddings, AFailureOfTheModelIsA500) {
  testing::FakeModel model = embedder();
  model.not_finite = [](std::span<const int32_t> ids) { return ids[0] == 'x'; };
  TestServer server({.model = model});
  const RawResponse answer = post(server, request({"a", "x", "b"}));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(json::parse(answer.body)["error"]["type"], "server_error");
  EXPECT_EQ(post(server, request("a")).status, 200);
}

TEST(Embeddings, AClientThatLeavesAbortsItsRequest) {
  testing::FakeModel model = embedder();
  model.max_seqs = 1;
  model.step_delay = 5ms;
  TestServer server({.model = model});
  testing::RawConnection connection(server.port());
  const std::string body = request(std::vector<std::string>(2000, "abc")).dump();
  ASSERT_TRUE(connection.send(testing::http_request("POST", "/v1/embeddings", body)));
  ASSERT_TRUE(eventually([&] { return server.backend().stats().requests_running == 1; }));
  connection.close();
  EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_aborted == 1; }));
}

}  // namespace
}  // namespace headrace::server

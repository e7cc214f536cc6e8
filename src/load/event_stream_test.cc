#include "load/event_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace headrace::load {
namespace {

std::vector<std::string> events_of(std::string_view bytes, size_t cut) {
  EventStream stream;
  std::vector<std::string> out;
  for (std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    std::string_view data;
    while (stream.next(part, data)) out.emplace_back(data);
  }
  return out;
}

// The rules of the HTML standard, section "Interpreting an event stream".
TEST(EventStream, EventsAreTheSameForEveryCutAndLineEnding) {
  const std::vector<std::string> want = {"{\"a\":1}", "two\nlines", "no space", "", "[DONE]"};
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string bytes;
    for (const char* line : {": a comment", "data: {\"a\":1}", "", "event: x", "id: 7", "data: two", "data: lines", "", "",
                             "data:no space", "", "database: no field of ours", "", "data", "", "data: [DONE]", ""}) {
      bytes += line + end;
    }
    for (size_t cut = 0; cut <= bytes.size(); ++cut) ASSERT_EQ(events_of(bytes, cut), want) << cut;
  }
}

TEST(EventStream, AnEventThatDoesNotEndIsNoneAndALongOneFails) {
  EXPECT_TRUE(events_of("data: {\"cut", 3).empty());
  EventStream stream;
  const std::string line = "data: " + std::string(100'000, 'x') + "\n";
  for (int i = 0; i < 11; ++i) {
    std::string_view input = line, data;
    ASSERT_FALSE(stream.next(input, data));
  }
  EXPECT_TRUE(stream.failed());
}

StreamChunk chunk_of(std::string_view json) {
  const auto chunk = stream_chunk_of(json);
  EXPECT_TRUE(chunk.has_value()) << json;
  return chunk.value_or(StreamChunk{});
}

TEST(StreamChunk, TextReasoningAndToolCallsAreTokens) {
  EXPECT_TRUE(chunk_of(R"({"choices":[{"index":0,"text":" a","finish_reason":null}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"index":0,"delta":{"content":"a"}}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"delta":{"role":"assistant","content":"a"}}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"delta":{"reasoning_content":"a"}}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]})").token);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"text":"","finish_reason":null}]})").token) << "a token without a character of its own";
}

TEST(StreamChunk, OpeningEndUsageAndWordsElsewhereAreNone) {
  EXPECT_FALSE(chunk_of(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})").token);
  EXPECT_FALSE(chunk_of(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})").token);
  EXPECT_FALSE(chunk_of(R"({"choices":[{"text":"","finish_reason":"stop"}]})").token);
  EXPECT_FALSE(chunk_of(R"({"choices":[],"usage":{"prompt_tokens":1}})").token);
  EXPECT_FALSE(chunk_of(R"({"text":"a","content":"b","x":[{"delta":{"content":"c"}}]})").token);
  EXPECT_FALSE(chunk_of(R"({"choices":[{"logprobs":{"content":[{"token":"a"}],"text":"a"}}]})").token);
}

TEST(StreamChunk, UsageFinishAndErrorsAreRead) {
  const StreamChunk usage = chunk_of(R"({"choices":[],"usage":{"prompt_tokens":12,"total_tokens":19,"completion_tokens":7,
      "prompt_tokens_details":{"cached_tokens":4}},"prompt_tokens":99})");
  EXPECT_EQ(usage.prompt_tokens, 12);
  EXPECT_EQ(usage.completion_tokens, 7);
  EXPECT_EQ(usage.cached_tokens, 4);
  EXPECT_EQ(chunk_of(R"({"choices":[{"text":"a"}],"usage":null})").completion_tokens, -1);
  EXPECT_EQ(chunk_of(R"({"usage":{"prompt_tokens":-3,"completion_tokens":1e300}})").prompt_tokens, -1);
  EXPECT_TRUE(chunk_of(R"({"choices":[{"text":"","finish_reason":"length"}]})").finished);
  EXPECT_FALSE(chunk_of(R"({"choices":[{"text":"a","finish_reason":null}]})").finished);
  EXPECT_EQ(chunk_of(R"({"error":{"message":"out of memory","code":500}})").error, "out of memory");
  EXPECT_EQ(chunk_of(R"({"error":"busy"})").error, "busy");
  EXPECT_EQ(chunk_of(R"({"error":{"code":500}})").error, "(no message)");
  EXPECT_FALSE(chunk_of(R"({"error":null})").error.has_value());
  EXPECT_TRUE(chunk_of("[DONE]").done);
}

TEST(StreamChunk, WhatIsNoJsonObjectIsNothing) {
  for (const std::string& bytes :
       {std::string(), std::string("[]"), std::string("1"), std::string("{"), std::string("{\"a\":}"), std::string("{} x"),
        std::string("done"), std::string(100'000, '['), "{\"a\":" + std::string(100'000, '[')}) {
    EXPECT_FALSE(stream_chunk_of(bytes).has_value()) << bytes.substr(0, 20);
  }
}

}  // namespace
}  // namespace headrace::load

// The load generator against servers that behave, misbehave and attack.
#include "load/client.h"

#include <gmock/gmock.h>

#include <set>

#include "base/clock.h"
#include "load/arrivals.h"
#include "testing/scripted_server.h"

namespace headrace::load {
namespace {

using namespace std::chrono_literals;
using testing::plain_reply;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;
using testing::stream_end;
using testing::stream_event;
using testing::stream_head;
using Then = ScriptedReply::Then;

const std::string kToken = R"({"choices":[{"index":0,"text":" word","finish_reason":null}]})";
const std::string kLast = R"({"choices":[{"index":0,"text":" word","finish_reason":"length"}]})";
const std::string kUsage = R"({"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}})";

ScriptedReply good_reply(std::chrono::microseconds before = {}, std::chrono::microseconds between = {}) {
  return {{stream_head(), stream_event(kToken, before), stream_event(kToken, between), stream_event(kLast, between),
           stream_event(kUsage), stream_event("[DONE]"), stream_end()}};
}

LoadOptions options_for(const ScriptedServer& server, int64_t requests) {
  LoadOptions options;
  options.endpoint.host = "127.0.0.1";
  options.endpoint.port = std::to_string(server.port());
  options.max_requests = requests;
  options.timeout_s = 10;
  options.next_arrival = [] { return 0.0; };
  options.request = [](int64_t number) { return Sending{"{\"number\":" + std::to_string(number) + "}", 5}; };
  return options;
}

LoadRun run_of(const LoadOptions& options) {
  auto run = run_load(options);
  EXPECT_TRUE(run.has_value()) << run.error().to_string();
  return run ? std::move(*run) : LoadRun{};
}

FailureCount failures(const LoadRun& run, Failure kind) {
  return run.failures[static_cast<size_t>(kind)];
}

TEST(Client, SendsEveryRequestOnceAndCountsWhatUsageSays) {
  std::mutex mutex;
  std::multiset<std::string> bodies;
  ScriptedServer server([&](const ScriptedRequest& request) {
    const std::lock_guard lock(mutex);
    bodies.insert(request.method + " " + request.path + " " + request.body);
    EXPECT_NE(request.head.find("Authorization: Bearer key"), std::string::npos);
    return good_reply();
  });
  LoadOptions options = options_for(server, 50);
  options.concurrency = 4;
  options.endpoint.api_key = "key";
  options.endpoint.prefix = "/base";
  const LoadRun run = run_of(options);
  EXPECT_EQ(run.records.size(), 50u);
  for (const RequestRecord& record : run.records) {
    EXPECT_EQ(record.failure, Failure::none);
    EXPECT_EQ(record.output_tokens, 3);
    EXPECT_EQ(record.prompt_tokens, 11);
    EXPECT_TRUE(record.counted_by_server);
    EXPECT_EQ(record.itl_ms.size(), 2u);
  }
  EXPECT_EQ(bodies.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(bodies.count(fmt::format("POST /base/v1/completions {{\"number\":{}}}", i)), 1u);
  EXPECT_EQ(run.peak_concurrency, 4);
  EXPECT_EQ(server.connections(), 1 + 4) << "the first asks whether somebody is there; the others are kept";
}

TEST(Client, TimesAreThoseOfTheServersPauses) {
  ScriptedServer server([](const ScriptedRequest&) { return good_reply(40ms, 20ms); });
  const LoadRun run = run_of(options_for(server, 3));
  for (const RequestRecord& record : run.records) {
    // Sleeps end late, never early.
    EXPECT_GE(record.ttft_ms, 40);
    EXPECT_GE(record.e2e_ms, 80);
    EXPECT_LT(record.e2e_ms, 2000);
    // What one chunk comes late, the next gap may be shorter; the sum is exact.
    EXPECT_NEAR(record.ttft_ms + record.itl_ms[0] + record.itl_ms[1], record.e2e_ms, 0.01);
    EXPECT_NEAR(record.tpot_ms(), (record.e2e_ms - record.ttft_ms) / 2, 1e-9);
    EXPECT_GE(record.tpot_ms(), 10);
  }
}

TEST(Client, RequestsWaitForTheirTimeAndForConcurrency) {
  ScriptedServer server([](const ScriptedRequest&) { return good_reply(30ms); });
  LoadOptions options = options_for(server, 4);
  double time = -0.05;
  options.next_arrival = [&time] { return time += 0.05; };
  LoadRun run = run_of(options);
  for (const RequestRecord& record : run.records)
    EXPECT_GE(record.start_s, 0.05 * static_cast<double>(&record - run.records.data()) - 1e-6);
  EXPECT_GE(run.seconds, 0.18);
  options = options_for(server, 4);
  options.concurrency = 1;
  run = run_of(options);
  EXPECT_EQ(run.peak_concurrency, 1);
  EXPECT_GE(run.records.back().late_ms, 90) << "it was due at once and waited for three others";
}

TEST(Client, ADurationEndsTheSending) {
  ScriptedServer server([](const ScriptedRequest&) { return good_reply(10ms); });
  LoadOptions options = options_for(server, 0);
  options.duration_s = 0.3;
  options.concurrency = 2;
  const LoadRun run = run_of(options);
  EXPECT_GE(run.records.size(), 2u);
  for (const RequestRecord& record : run.records) EXPECT_LE(record.start_s, 0.31);
  EXPECT_FALSE(run.interrupted);
}

TEST(Client, ACancelKeepsWhatWasMeasured) {
  ScriptedServer server([](const ScriptedRequest& request) {
    ScriptedReply reply = good_reply();
    if (request.number >= 5) reply = {{stream_head(), stream_event(kToken)}, Then::hang};
    return reply;
  });
  LoadOptions options = options_for(server, 100);
  options.concurrency = 2;
  int64_t ended = 0;
  options.progress = [&](const Progress& progress) { ended = progress.ended; };
  options.cancelled = [&] { return ended >= 5; };
  const LoadRun run = run_of(options);
  EXPECT_TRUE(run.interrupted);
  EXPECT_EQ(run.records.size(), 5u);
  EXPECT_EQ(run.unfinished, 2);
}

TEST(Client, ChunksAreCountedWithoutUsage) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedReply{{stream_head(), stream_event(kToken), stream_event(kLast), stream_event("[DONE]"), stream_end()}};
  });
  const LoadRun run = run_of(options_for(server, 1));
  EXPECT_EQ(run.records.at(0).output_tokens, 2);
  EXPECT_EQ(run.records.at(0).prompt_tokens, 5);
  EXPECT_FALSE(run.records.at(0).counted_by_server);
}

TEST(Client, AStreamThatIsCutAnywhereByTheNetworkIsTheSame) {
  std::string bytes;
  for (const auto& piece : good_reply().pieces) bytes += piece.bytes;
  ScriptedServer server([&](const ScriptedRequest& request) {
    const size_t cut = static_cast<size_t>(request.number) % bytes.size();
    return ScriptedReply{{{bytes.substr(0, cut)}, {bytes.substr(cut), 300us}}};
  });
  LoadOptions options = options_for(server, static_cast<int64_t>(bytes.size()));
  options.concurrency = 2;
  const LoadRun run = run_of(options);
  EXPECT_EQ(run.records.size(), bytes.size());
  for (const RequestRecord& record : run.records) {
    ASSERT_EQ(record.failure, Failure::none);
    ASSERT_EQ(record.output_tokens, 3);
    ASSERT_EQ(record.itl_ms.size(), 2u);
  }
}

TEST(Client, AKeptConnectionThatTheServerClosedIsTriedAgain) {
  // The answer's end, and a close that the client sees only after its next request: a server whose time for idle connections is
  // over.
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.number == 1) return ScriptedReply{{}, Then::close};
    return good_reply();
  });
  LoadOptions options = options_for(server, 2);
  options.concurrency = 1;
  const LoadRun run = run_of(options);
  EXPECT_EQ(run.retries, 1);
  EXPECT_EQ(run.records.at(1).failure, Failure::none);
  EXPECT_EQ(server.connections(), 1 + 2);
}

TEST(Client, EachKindOfFailureIsCountedWithItsFirstExample) {
  struct Case {
    ScriptedReply reply;
    Failure kind;
    std::string example;  // contained
  };
  const std::string sse_head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const std::vector<Case> cases = {
      {plain_reply(429, "application/json", R"({"error":{"message":"queue full"}})"), Failure::http_status,
       "429: {\"error\":{\"message\":\"queue full\"}}"},
      {plain_reply(500, "text/html", std::string(1 << 20, 'x')), Failure::http_status, "500: xxx"},
      {plain_reply(200, "application/json", R"({"choices":[]})"), Failure::malformed, "application/json"},
      {{{{"\x16\x03\x01 not http at all\r\n\r\n"}}, Then::close}, Failure::malformed, "not an HTTP/1.1 response"},
      {{{}, Then::close}, Failure::closed, "without an answer"},
      {{{{"HTTP/1.1 200 OK\r\nContent-"}}, Then::close}, Failure::closed, "without an answer"},
      {{{stream_head(), stream_event(kToken)}, Then::close}, Failure::closed, "before the end"},
      {{{{sse_head + "\r\ndata: " + kToken + "\n\n"}}, Then::close}, Failure::closed, "before its last event"},
      {{{stream_head(), stream_event(kToken), stream_end()}}, Failure::closed, "before its last event"},
      {{{stream_head(), stream_event("{broken")}, Then::hang}, Failure::malformed, "{broken"},
      {{{stream_head(), stream_event(std::string(3 << 20, 'x'))}, Then::hang}, Failure::malformed, "megabyte"},
      {{{stream_head(), {"zz\r\n"}}, Then::hang}, Failure::malformed, "chunk size"},
      {{{stream_head(), {"5\r\nabcdefgh\r\n"}}, Then::hang}, Failure::malformed, "longer than its size"},
      {{{{"HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x')}}, Then::hang}, Failure::malformed, "longer than"},
      {{{stream_head(), stream_event(kToken), stream_event(R"({"error":{"message":"device lost"}})"), stream_end()}},
       Failure::stream_error,
       "device lost"},
      {{{stream_head(), stream_event("[DONE]"), stream_end()}}, Failure::empty, "without a token"},
  };
  for (const Case& each : cases) {
    ScriptedServer server([&](const ScriptedRequest&) { return each.reply; });
    LoadOptions options = options_for(server, 3);
    options.concurrency = 1;
    const LoadRun run = run_of(options);
    EXPECT_EQ(run.records.size(), 3u);
    EXPECT_EQ(failures(run, each.kind).count, 3) << failure_name(each.kind) << ": " << each.example;
    EXPECT_THAT(failures(run, each.kind).example, ::testing::HasSubstr(each.example));
    EXPECT_LE(failures(run, each.kind).example.size(), 400u);
  }
}

TEST(Client, ASilentServerIsATimeout) {
  ScriptedServer server([](const ScriptedRequest& request) {
    if (request.number == 0) return ScriptedReply{{}, Then::hang};
    return ScriptedReply{{stream_head(), stream_event(kToken)}, Then::hang};
  });
  LoadOptions options = options_for(server, 2);
  options.timeout_s = 0.2;
  const TimePoint start = Clock::now();
  const LoadRun run = run_of(options);
  EXPECT_EQ(failures(run, Failure::timeout).count, 2);
  EXPECT_LT(seconds_between(start, Clock::now()), 5);
}

TEST(Client, AStreamWithoutEndIsATimeout) {
  ScriptedReply endless{{stream_head()}};
  for (int i = 0; i < 2000; ++i) endless.pieces.push_back(stream_event(kToken, 1ms));
  ScriptedServer server([&](const ScriptedRequest&) { return endless; });
  LoadOptions options = options_for(server, 1);
  options.timeout_s = 0.3;
  EXPECT_EQ(failures(run_of(options), Failure::timeout).count, 1);
}

TEST(Client, AResponseThatDoesNotEndAfterDoneHasSucceeded) {
  ScriptedServer server([](const ScriptedRequest&) {
    ScriptedReply reply = good_reply();
    reply.pieces.pop_back();
    reply.then = Then::hang;
    return reply;
  });
  LoadOptions options = options_for(server, 4);
  options.concurrency = 1;
  const LoadRun run = run_of(options);
  EXPECT_EQ(run.records.size(), 4u);
  for (const RequestRecord& record : run.records) EXPECT_EQ(record.failure, Failure::none);
}

TEST(Client, NobodyThereIsAFailureOfEveryRequestAndNoError) {
  LoadOptions options;
  {
    ScriptedServer server([](const ScriptedRequest&) { return ScriptedReply{}; });
    options = options_for(server, 3);
  }
  const LoadRun run = run_of(options);
  EXPECT_EQ(failures(run, Failure::connect).count, 3);
  EXPECT_THAT(failures(run, Failure::connect).example, ::testing::HasSubstr("refused"));
}

TEST(Endpoint, UrlsAreReadOrRefused) {
  const auto parsed = parse_endpoint("http://[::1]:81/base/v1/");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->host, "::1");
  EXPECT_EQ(parsed->port, "81");
  EXPECT_EQ(parsed->prefix, "/base");
  EXPECT_EQ(parsed->authority(), "[::1]:81");
  EXPECT_EQ(parse_endpoint("http://host")->authority(), "host");
  EXPECT_EQ(parse_endpoint("http://host:8000/v1")->prefix, "");
  for (const char* url : {"", "host:1", "https://host", "http://", "http://:80", "http://h:0", "http://h:65536", "http://h:8x",
                          "http://u@h", "http://h/?q", "http://h\r\nX: 1", "http://[::1", "http://[::1]80"}) {
    EXPECT_FALSE(parse_endpoint(url).has_value()) << url;
  }
  EXPECT_THAT(parse_endpoint("https://host").error().message(), ::testing::HasSubstr("proxy"));
}

}  // namespace
}  // namespace headrace::load

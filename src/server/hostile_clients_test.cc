// What clients do wrong, on purpose or not: each case ends with a server that still answers.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <random>

#include "testing/eventually.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::server {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::fetch;
using testing::http_request;
using testing::RawConnection;
using testing::TestServer;

constexpr std::string_view kLongStream =
    R"({"model":"m","prompt":"a","max_tokens":1900,"stream":true,"ignore_eos":true})";
constexpr std::string_view kLong = R"({"model":"m","prompt":"a","max_tokens":1900,"ignore_eos":true})";

// About a minute for a whole answer: a test that ends sooner has seen an abort.
testing::FakeBackendOptions slow() {
  return {.model = {.step_delay = 30ms}};
}

int health(const TestServer& server) {
  return fetch(server.port(), "GET", "/health").status;
}

ServeOptions with(const std::function<void(HttpLimits&)>& change) {
  ServeOptions options;
  change(options.limits);
  return options;
}

TEST(HostileClients, AClientThatLeavesItsStreamAbortsItsRequest) {
  TestServer server(slow());
  for (const bool hard : {false, true}) {
    const uint64_t aborted = server.backend().stats().requests_aborted;
    RawConnection connection(server.port());
    connection.send(http_request("POST", "/v1/completions", kLongStream));
    EXPECT_NE(connection.read_until("\n\n"), "");
    if (hard) {
      connection.reset();
    } else {
      connection.close();
    }
    EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_aborted == aborted + 1; })) << hard;
  }
  EXPECT_EQ(server.backend().stats().requests_running, 0u);
}

TEST(HostileClients, AClientThatLeavesBeforeItsAnswerAbortsItsRequest) {
  TestServer server(slow());
  {
    RawConnection connection(server.port());
    connection.send(http_request("POST", "/v1/completions", kLong));
    EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_running == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_aborted == 1; }));
}

TEST(HostileClients, AReaderThatNeverReadsIsCutOff) {
  TestServer server({}, with([](HttpLimits& limits) {
                      limits.max_unsent_bytes = 16 << 10;
                      limits.write_timeout = 300ms;
                    }));
  std::vector<std::unique_ptr<RawConnection>> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.push_back(std::make_unique<RawConnection>(server.port(), 4096));
    const std::string body =
        R"({"model":"m","prompt":["a","b","c","d","e","f","g","h"],"n":8,"max_tokens":1900,"stream":true,"ignore_eos":true})";
    sleepers.back()->send(http_request("POST", "/v1/completions", body));
  }
  EXPECT_TRUE(eventually([&] { return server.server().stats().disconnects_total == 4; }));
  EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_running == 0; }));
  EXPECT_EQ(health(server), 200);
}

TEST(HostileClients, GarbageIsAnsweredOnceAndTheConnectionClosed) {
  TestServer server;
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    std::string bytes(1 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    RawConnection connection(server.port());
    connection.send(bytes + "\r\n\r\n");
    const auto answer = connection.read_response();
    if (answer) {
      EXPECT_EQ(answer->status, 400);
    }
    EXPECT_TRUE(connection.closed_by_peer());
  }
  EXPECT_EQ(health(server), 200);
}

TEST(HostileClients, AmbiguousFramingIsRefusedOnceAndTheConnectionClosed) {
  TestServer server;
  const std::string smuggled = http_request("GET", "/health");
  for (const std::string head : {
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Content-Length: 5\r\nContent-Length: 5\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: \r\n",
           "Content-Length : 5\r\n",
           "Content-Length: 18446744073709551617\r\n",
           "Transfer-Encoding: gzip\r\n",
           "Transfer-Encoding: gzip, chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
           "Transfer-Encoding:\vchunked\r\n",
       }) {
    RawConnection connection(server.port());
    connection.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\n" + head + "\r\n0\r\n\r\n" + smuggled);
    const auto answer = connection.read_response();
    ASSERT_TRUE(answer) << head;
    EXPECT_TRUE(answer->status == 400 || answer->status == 413 || answer->status == 501)
        << head << answer->status;
    EXPECT_TRUE(connection.closed_by_peer()) << head;
  }
}

TEST(HostileClients, LongHeadsAndBodiesAreRefused) {
  TestServer server({}, with([](HttpLimits& limits) { limits.max_body_bytes = 100'000; }));
  RawConnection head(server.port());
  head.send("GET /health HTTP/1.1\r\nHost: t\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(head.read_response().value().status, 431);
  RawConnection body(server.port());
  body.send(http_request("POST", "/v1/completions", std::string(100'001, ' ')));
  EXPECT_EQ(body.read_response().value().status, 413);
  EXPECT_TRUE(body.closed_by_peer());
  RawConnection chunks(server.port());
  chunks.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) chunks.send("2710\r\n" + std::string(10'000, ' ') + "\r\n");
  EXPECT_EQ(chunks.read_response().value().status, 413);
  EXPECT_EQ(health(server), 200);
}

TEST(HostileClients, LargeBodiesShareABudget) {
  TestServer server({}, with([](HttpLimits& limits) { limits.max_bodies_bytes = 300'000; }));
  RawConnection first(server.port());
  first.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n{");
  EXPECT_TRUE(eventually([&] {
    RawConnection second(server.port());
    second.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n{");
    second.send(std::string(199'999, ' '));
    return second.read_response().value().status == 503;
  }));
  first.close();
  EXPECT_TRUE(eventually([&] {
    return fetch(server.port(), "POST", "/tokenize", R"({"prompt":")" + std::string(199'900, 'a') + "\"}")
               .status == 200;
  }));
}

TEST(HostileClients, SlowRequestsRunIntoTheirDeadlines) {
  TestServer server({}, with([](HttpLimits& limits) {
                      limits.header_timeout = 150ms;
                      limits.body_timeout = 150ms;
                      limits.idle_timeout = 150ms;
                    }));
  RawConnection silent(server.port());
  EXPECT_TRUE(silent.closed_by_peer(3s));
  RawConnection half_head(server.port());
  half_head.send("GET /health HT");
  EXPECT_EQ(half_head.read_response().value().status, 408);
  RawConnection half_body(server.port());
  half_body.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(half_body.read_response().value().status, 408);
  // A byte now and then does not buy time.
  RawConnection dripping(server.port());
  const auto start = std::chrono::steady_clock::now();
  while (dripping.send("G") && std::chrono::steady_clock::now() - start < 400ms)
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(dripping.read_response().value().status, 408);
  EXPECT_EQ(health(server), 200);
}

TEST(HostileClients, ConnectionsBeyondTheLimitHearWhy) {
  TestServer server({}, with([](HttpLimits& limits) { limits.max_connections = 8; }));
  std::vector<std::unique_ptr<RawConnection>> held;
  for (int i = 0; i < 8; ++i) held.push_back(std::make_unique<RawConnection>(server.port()));
  EXPECT_TRUE(eventually([&] { return server.server().stats().connections_open == 8; }));
  RawConnection extra(server.port());
  EXPECT_EQ(extra.read_response().value().status, 503);
  held.clear();
  EXPECT_TRUE(eventually([&] { return health(server) == 200; }));
}

TEST(HostileClients, TwoHundredClientsAreServedAtOnce) {
  TestServer server;
  std::vector<std::unique_ptr<RawConnection>> clients;
  const std::string request =
      http_request("POST", "/v1/completions", R"({"model":"m","prompt":"a","max_tokens":8,"stream":true})");
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<RawConnection>(server.port()));
    ASSERT_TRUE(clients.back()->send(request));
  }
  int complete = 0;
  for (const auto& client : clients) {
    const auto answer = client->read_response();
    complete +=
        answer && answer->status == 200 && answer->complete && answer->body.ends_with("data: [DONE]\n\n") ? 1
                                                                                                          : 0;
  }
  EXPECT_EQ(complete, 200);
}

TEST(HostileClients, BytesOfANextRequestDoNotHideTheEnd) {
  TestServer server(slow());
  {
    RawConnection connection(server.port());
    connection.send(http_request("POST", "/v1/completions", kLongStream) + http_request("GET", "/health"));
    EXPECT_NE(connection.read_until("\n\n"), "");
    connection.reset();
  }
  EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_aborted == 1; }));
}

TEST(Shutdown, LetsRunningAnswersEndAndRefusesNewConnections) {
  TestServer server({.model = {.step_delay = 5ms}});
  RawConnection idle(server.port());
  RawConnection working(server.port());
  working.send(http_request("POST", "/v1/completions",
                            R"({"model":"m","prompt":"a","max_tokens":60,"stream":true,"ignore_eos":true})"));
  EXPECT_NE(working.read_until("\r\n\r\n"), "");
  server.server().stop();
  EXPECT_TRUE(idle.closed_by_peer());
  EXPECT_TRUE(working.read_until("data: [DONE]").ends_with("data: [DONE]"));
  server.join();
  EXPECT_FALSE(RawConnection(server.port()).connected());
}

TEST(Shutdown, CutsAnswersThatOutlastTheGrace) {
  TestServer server(slow(), with([](HttpLimits& limits) { limits.shutdown_grace = 100ms; }));
  RawConnection working(server.port());
  working.send(http_request("POST", "/v1/completions", kLongStream));
  EXPECT_NE(working.read_until("\n\n"), "");
  server.server().stop();
  server.join();
  EXPECT_TRUE(eventually([&] { return server.backend().stats().requests_aborted == 1; }));
}

TEST(Shutdown, FollowsASignal) {
  const auto backend = testing::make_fake_backend({});
  auto server = Server::create(*backend, {.port = 0, .stop_on_signals = true});
  ASSERT_TRUE(server);
  std::thread thread([&] { (*server)->run(); });
  EXPECT_TRUE(eventually([&] { return fetch((*server)->port(), "GET", "/health").status == 200; }));
  ::kill(::getpid(), SIGTERM);
  thread.join();
}

TEST(Listen, SaysWhenTheAddressIsTaken) {
  TestServer first;
  const auto backend = testing::make_fake_backend({});
  const auto second = Server::create(*backend, {.port = first.port()});
  ASSERT_FALSE(second);
  EXPECT_EQ(exit_code(second.error().code()), 4);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  const auto nowhere = Server::create(*backend, {.host = "no-such-host.invalid", .port = 0});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(exit_code(nowhere.error().code()), 2);
}

}  // namespace
}  // namespace headrace::server

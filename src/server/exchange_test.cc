#include "server/exchange.h"

#include <gtest/gtest.h>

namespace headrace::server {
namespace {

struct Harness {
  explicit Harness(Framing framing = {}, size_t max_unsent = 100)
      : exchange(std::make_shared<Exchange>(
            framing, max_unsent, [this] { ++wakes; }, [](std::function<void()> task) { task(); })),
        responder(Exchange::responder(exchange, {.status = 500, .body = "dropped"})) {}
  int wakes = 0;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<Responder> responder;
};

TEST(Exchange, SendsAWholeAnswerOnce) {
  Harness h;
  h.responder->send({.body = "hello"});
  h.responder->send({.body = "again"});
  const Exchange::Outgoing out = h.exchange->take();
  EXPECT_TRUE(out.complete);
  EXPECT_TRUE(out.bytes.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(out.bytes.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(out.bytes.ends_with("\r\n\r\nhello"));
}

TEST(Exchange, JoinsQueuedWritesIntoOneChunkAndEndsTheStream) {
  Harness h;
  h.responder->start_stream({});
  h.responder->write("ab");
  h.responder->write("cde");
  const Exchange::Outgoing first = h.exchange->take();
  EXPECT_FALSE(first.complete);
  EXPECT_TRUE(first.bytes.ends_with("\r\n\r\n5\r\nabcde\r\n")) << first.bytes;
  h.responder->write("f");
  h.responder->finish();
  EXPECT_EQ(h.exchange->take().bytes, "1\r\nf\r\n0\r\n\r\n");
  EXPECT_EQ(h.exchange->take().bytes, "");
}

TEST(Exchange, SendsStreamsToHttp10WithoutChunks) {
  Harness h({.keep_alive = false, .chunked = false});
  h.responder->start_stream({});
  h.responder->write("ab");
  h.responder->finish();
  const Exchange::Outgoing out = h.exchange->take();
  EXPECT_TRUE(out.bytes.ends_with("Connection: close\r\n\r\nab")) << out.bytes;
}

TEST(Exchange, SendsNoBodyToHead) {
  Harness h({.head_only = true});
  h.responder->send({.body = "hello"});
  const std::string bytes = h.exchange->take().bytes;
  EXPECT_NE(bytes.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n"));
}

TEST(Exchange, BreaksAStreamWhoseReaderIsTooSlow) {
  Harness h({}, 10);
  h.responder->start_stream({});
  EXPECT_TRUE(h.responder->write("12345"));
  EXPECT_FALSE(h.responder->write("678901"));
  EXPECT_TRUE(h.exchange->take().broken);
}

TEST(Exchange, AnswersForAHandlerThatForgot) {
  Harness h;
  h.responder.reset();
  const Exchange::Outgoing out = h.exchange->take();
  EXPECT_TRUE(out.complete);
  EXPECT_TRUE(out.bytes.ends_with("dropped"));
}

TEST(Exchange, CutsAStreamThatItsHandlerForgot) {
  Harness h;
  h.responder->start_stream({});
  h.responder.reset();
  EXPECT_TRUE(h.exchange->take().broken);
}

TEST(Exchange, TellsOfTheDisconnectOnceAlsoWhenAskedLate) {
  Harness h;
  int told = 0;
  h.responder->on_disconnect([&] { ++told; });
  h.exchange->close(true);
  h.exchange->close(true);
  EXPECT_EQ(told, 1);
  h.responder->on_disconnect([&] { ++told; });
  EXPECT_EQ(told, 2);
  EXPECT_FALSE(h.responder->write("x"));
}

TEST(Exchange, DropsTasksAndWakesAfterClose) {
  Harness h;
  h.exchange->close(false);
  bool ran = false;
  h.responder->post([&] { ran = true; });
  h.responder->send({});
  EXPECT_FALSE(ran);
  EXPECT_EQ(h.wakes, 0);
}

}  // namespace
}  // namespace headrace::server

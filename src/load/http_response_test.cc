#include "load/http_response.h"

#include <gtest/gtest.h>

namespace headrace::load {
namespace {

struct Taken {
  std::string body, failure, rest;
  int status = 0;
  bool done = false, keep_alive = false;
};

// The bytes as the network might cut them: `first` bytes, then the rest.
Taken take_all(HttpResponse& http, std::string_view bytes, size_t first, bool close = false) {
  Taken out;
  for (std::string_view part : {bytes.substr(0, first), bytes.substr(first)}) {
    while (!part.empty() && !http.done() && !http.failed()) out.body += http.take(part);
    out.rest += part;
  }
  if (close) http.close();
  out.failure = http.failure();
  out.status = http.status();
  out.done = http.done();
  out.keep_alive = http.keep_alive();
  return out;
}

Taken take_all(std::string_view bytes, size_t first, bool close = false) {
  HttpResponse http;
  return take_all(http, bytes, first, close);
}

constexpr std::string_view kChunked =
    "HTTP/1.1 100 Continue\r\n\r\n"
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTRANSFER-ENCODING: Chunked\r\n\r\n"
    "5\r\nhello\r\n7;name=value\r\n, world\r\nA\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n";

TEST(HttpResponse, AChunkedBodyIsTheSameForEveryCut) {
  for (size_t cut = 0; cut <= kChunked.size(); ++cut) {
    const Taken taken = take_all(kChunked, cut);
    ASSERT_EQ(taken.body, "hello, world0123456789") << cut;
    ASSERT_TRUE(taken.done && taken.keep_alive) << cut;
    ASSERT_EQ(taken.status, 200);
  }
}

TEST(HttpResponse, ABodyWithALengthEndsThereAndTheRestBelongsToTheNext) {
  constexpr std::string_view kTwo = "HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 204 No Content\r\n\r\n";
  for (size_t cut = 0; cut <= kTwo.size(); ++cut) {
    HttpResponse http;
    const Taken first = take_all(http, kTwo, cut);
    ASSERT_EQ(first.body, "abc") << cut;
    ASSERT_TRUE(first.done);
    ASSERT_EQ(first.status, 404);
    http.reset();
    const Taken second = take_all(http, first.rest, 0);
    ASSERT_TRUE(second.done) << cut;
    ASSERT_EQ(second.status, 204);
  }
}

TEST(HttpResponse, ABodyWithoutALengthEndsWithTheConnection) {
  const Taken taken = take_all("HTTP/1.0 200 OK\n\nall of it", 4, true);
  EXPECT_EQ(taken.body, "all of it");
  EXPECT_TRUE(taken.done);
  EXPECT_FALSE(taken.keep_alive);
  EXPECT_FALSE(take_all("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 9).keep_alive);
}

TEST(HttpResponse, AConnectionThatClosesTooEarlyIsAFailureWhereverItDoes) {
  const std::string_view last_answer = kChunked.substr(25);
  for (size_t length = 0; length < last_answer.size(); ++length) {
    const Taken taken = take_all(last_answer.substr(0, length), length / 2, true);
    ASSERT_FALSE(taken.done) << length;
    ASSERT_NE(taken.failure, "") << length;
  }
}

TEST(HttpResponse, WhatIsNoHttpIsRefused) {
  const std::string head = "HTTP/1.1 200 OK\r\n", chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), std::string("HTTP/2 200\r\n\r\n"), std::string("HTTP/1.1 2x0 OK\r\n\r\n"),
        std::string("HTTP/1.1 099 OK\r\n\r\n"), head + "no colon\r\n\r\n", head + ": empty name\r\n\r\n",
        head + "Content-Length: -1\r\n\r\n", head + "Content-Length: 99999999999999999999\r\n\r\n",
        head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", head + "Transfer-Encoding: gzip\r\n\r\n", chunked + "xyz\r\n",
        chunked + "\r\n", chunked + "ffffffffffffffffff\r\n", chunked + "3\r\nabcd\r\n", chunked + std::string(5000, '1'),
        head + "X: " + std::string(70'000, 'x')}) {
    for (const size_t cut : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      const Taken taken = take_all(bytes, cut);
      EXPECT_NE(taken.failure, "") << bytes.substr(0, 100);
      EXPECT_FALSE(taken.done);
    }
  }
}

TEST(HttpResponse, AHeadWithoutEndIsRefusedBeforeItFillsMemory) {
  HttpResponse http;
  std::string_view start = "HTTP/1.1 200 OK\r\n";
  http.take(start);
  int lines = 0;
  for (; !http.failed() && lines < 100'000; ++lines) {
    std::string_view line = "X-More: and more\r\n";
    http.take(line);
  }
  EXPECT_LT(lines, 4000);
  EXPECT_NE(http.failure(), "");
}

}  // namespace
}  // namespace headrace::load

#include "load/http_response.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace headrace::load {
namespace {

constexpr size_t kMaxHead = 64 << 10;
constexpr size_t kMaxChunkLine = 4 << 10;
constexpr size_t kShown = 80;  // bytes of a bad line in a message

bool equal_ignoring_case(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](char x, char y) { return (x >= 'A' && x <= 'Z' ? static_cast<char>(x | 0x20) : x) == y; });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool parse_size(std::string_view text, int base, uint64_t& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return failure == std::errc() && end == text.data() + text.size() && out <= (uint64_t{1} << 50);
}

}  // namespace

void HttpResponse::fail(std::string message) {
  state_ = State::failed;
  failure_ = std::move(message);
}

bool HttpResponse::take_line(std::string_view& input, size_t limit) {
  const size_t end = input.find('\n');
  const size_t count = std::min(end, input.size());
  if (line_.size() + count > limit) {
    fail(fmt::format("a line of the response's head is longer than {} bytes", limit));
    return false;
  }
  line_ += input.substr(0, count);
  input.remove_prefix(end == std::string_view::npos ? count : count + 1);
  if (end == std::string_view::npos) return false;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return true;
}

void HttpResponse::on_status_line() {
  const std::string_view line = line_;
  uint64_t code = 0;
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ' || !parse_size(line.substr(9, 3), 10, code) ||
      code < 100 || (line.size() > 12 && line[12] != ' ')) {
    return fail(fmt::format("not an HTTP/1.1 response: \"{}\"", line.substr(0, kShown)));
  }
  status_ = static_cast<int>(code);
  keep_alive_ = line[7] != '0';
  state_ = State::header;
}

void HttpResponse::on_header() {
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return fail(fmt::format("not a header: \"{}\"", line.substr(0, kShown)));
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (equal_ignoring_case(name, "content-length")) {
    uint64_t length = 0;
    if (!parse_size(value, 10, length) || (has_length_ && length != left_)) {
      return fail(fmt::format("bad Content-Length: \"{}\"", value.substr(0, kShown)));
    }
    has_length_ = true;
    left_ = length;
  } else if (equal_ignoring_case(name, "transfer-encoding")) {
    if (!equal_ignoring_case(value, "chunked")) return fail(fmt::format("Transfer-Encoding \"{}\"", value.substr(0, kShown)));
    chunked_ = true;
  } else if (equal_ignoring_case(name, "connection")) {
    if (equal_ignoring_case(value, "close")) keep_alive_ = false;
  } else if (equal_ignoring_case(name, "content-type")) {
    content_type_ = value;
  }
}

void HttpResponse::on_head_end() {
  if (status_ < 200) {  // 100 Continue and the like: the answer is yet to come
    const size_t bytes = head_bytes_;
    reset();
    head_bytes_ = bytes;
    return;
  }
  head_complete_ = true;
  if (status_ == 204 || status_ == 304) {
    state_ = State::done;
  } else if (chunked_) {
    state_ = State::chunk_size;
  } else if (has_length_) {
    state_ = left_ == 0 ? State::done : State::body_length;
  } else {
    state_ = State::body_to_close;
    keep_alive_ = false;
  }
}

void HttpResponse::on_chunk_size() {
  const std::string_view size = trimmed(std::string_view(line_).substr(0, line_.find(';')));
  if (!parse_size(size, 16, left_)) return fail(fmt::format("bad chunk size: \"{}\"", size.substr(0, kShown)));
  state_ = left_ == 0 ? State::trailer : State::chunk_data;
}

std::string_view HttpResponse::take(std::string_view& input) {
  while (!input.empty()) {
    switch (state_) {
      case State::status_line:
      case State::header:
      case State::trailer: {
        const size_t before = input.size();
        const bool whole = take_line(input, kMaxHead);
        head_bytes_ += before - input.size();
        if (state_ != State::failed && head_bytes_ > kMaxHead) fail(fmt::format("a head of more than {} bytes", kMaxHead));
        if (state_ == State::failed || !whole) break;
        if (state_ == State::status_line) {
          on_status_line();
        } else if (state_ == State::trailer) {
          if (line_.empty()) state_ = State::done;
        } else if (line_.empty()) {
          on_head_end();
        } else {
          on_header();
        }
        line_.clear();
        break;
      }
      case State::chunk_size:
      case State::chunk_end:
        if (!take_line(input, kMaxChunkLine)) break;
        if (state_ == State::chunk_size) {
          on_chunk_size();
        } else if (line_.empty()) {
          state_ = State::chunk_size;
        } else {
          fail("a chunk is longer than its size says");
        }
        line_.clear();
        break;
      case State::body_length:
      case State::chunk_data: {
        const std::string_view piece = input.substr(0, std::min<uint64_t>(left_, input.size()));
        input.remove_prefix(piece.size());
        left_ -= piece.size();
        if (left_ == 0) state_ = state_ == State::body_length ? State::done : State::chunk_end;
        return piece;
      }
      case State::body_to_close: {
        const std::string_view piece = input;
        input = {};
        return piece;
      }
      case State::done:
      case State::failed:
        return {};
    }
  }
  return {};
}

void HttpResponse::close() {
  keep_alive_ = false;
  if (state_ == State::body_to_close) {
    state_ = State::done;
  } else if (state_ != State::done && state_ != State::failed) {
    fail(head_complete_ ? "the connection closed before the end of the answer" : "the connection closed without an answer");
  }
}

}  // namespace headrace::load

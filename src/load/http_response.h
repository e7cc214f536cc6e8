#pragma once
// An HTTP/1.1 response, taken in however the network cuts it (RFC 9112). Nothing of the body is kept: pieces go to the caller
// as they come. Bytes are hostile: every length is bounded and checked.

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::load {

class HttpResponse {
 public:
  // Consumes from the front of `input` and returns the next piece of the body; an empty one when the input is used up, the
  // response has ended (what is left of the input belongs to the next one) or failed.
  std::string_view take(std::string_view& input);
  // The peer has closed: the end of a body without a length, else an error.
  void close();
  // Makes ready for the next response of the same connection.
  void reset() { *this = HttpResponse(); }

  bool head_complete() const { return head_complete_; }
  bool done() const { return state_ == State::done; }
  bool failed() const { return state_ == State::failed; }
  const std::string& failure() const { return failure_; }  // what is wrong with it, for a person
  int status() const { return status_; }                   // after head_complete()
  const std::string& content_type() const { return content_type_; }
  bool keep_alive() const { return keep_alive_; }  // after done(): the connection can carry another request

 private:
  enum class State {
    status_line,
    header,
    body_length,
    body_to_close,
    chunk_size,
    chunk_data,
    chunk_end,
    trailer,
    done,
    failed
  };
  bool take_line(std::string_view& input, size_t limit);  // true: line_ is whole, without its ending
  void on_status_line();
  void on_header();
  void on_head_end();
  void on_chunk_size();
  void fail(std::string message);

  State state_ = State::status_line;
  std::string line_;
  size_t head_bytes_ = 0;
  uint64_t left_ = 0;  // of the body, or of the chunk
  bool has_length_ = false, chunked_ = false;
  int status_ = 0;
  bool head_complete_ = false, keep_alive_ = true;
  std::string content_type_, failure_;
};

}  // namespace headrace::load

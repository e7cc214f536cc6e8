#pragma once
// Server-sent events (the HTML standard's `text/event-stream`), taken in however the network cuts them; and what a load
// generator wants to know of one event of OpenAI's streams.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::load {

class EventStream {
 public:
  // Consumes from the front of `input`. True: an event is whole, and `data` holds its data until the next call.
  bool next(std::string_view& input, std::string_view& data);
  // An event that is longer than a megabyte.
  bool failed() const { return failed_; }
  void reset() { *this = EventStream(); }

 private:
  void on_line();

  std::string line_, data_;
  bool has_data_ = false, returned_ = false, after_cr_ = false, failed_ = false;
};

struct StreamChunk {
  bool done = false;      // "[DONE]"
  bool token = false;     // carries what a token looks like: text, reasoning, a part of a tool call; see stream_chunk_of()
  bool finished = false;  // a choice has a finish_reason
  int64_t prompt_tokens = -1, completion_tokens = -1, cached_tokens = -1;  // of `usage`; -1: not said
  std::optional<std::string> error;                                        // the server's message
};

// A choice with text that is not empty counts as a token, and so does one whose text is empty (a token that completes no
// character) unless it opens the stream with a role or ends it with a finish_reason. Nothing: not a JSON object.
std::optional<StreamChunk> stream_chunk_of(std::string_view data);

}  // namespace headrace::load

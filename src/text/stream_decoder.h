#pragma once
// From the bytes of successive tokens to text that may be shown: whole code points only, stop strings cut off.
// One per choice of a request; not thread-safe.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::text {

class StreamDecoder {
 public:
  struct Options {
    std::vector<std::string> stop;  // non-empty strings, UTF-8
    bool include_stop = false;      // keep the stop string in the text
  };
  explicit StreamDecoder(Options options);

  // Text that became certain with this token. Only an incomplete code point and a suffix that is a proper prefix of
  // some stop string are held back. What can never become valid UTF-8 is sent as U+FFFD, one for each maximal
  // ill-formed subpart. After a stop string was completed, further bytes are ignored.
  std::string push(std::string_view bytes);
  // At the end of the generation: the text still held back (a dangling code point as U+FFFD).
  std::string finish();

  // While true, a stop string that is completed does not end the text (an answer has not its least length yet).
  void ignore_stops(bool ignore) { ignore_stops_ = ignore; }

  bool stopped() const { return stopped_; }
  // The stop string that ended the text.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  // Knuth-Morris-Pratt, one per stop string: `matched` bytes of it end the text seen so far.
  struct Matcher {
    std::string word;
    std::vector<size_t> fallback;  // [i]: the longest proper border of word's first i + 1 bytes
    size_t matched = 0;
    bool push(char c);  // true: the word ends here
  };

  std::string take_valid(std::string_view bytes, bool at_end);
  std::string release(std::string_view text, bool at_end);

  std::vector<Matcher> stops_;
  bool include_stop_ = false;
  bool ignore_stops_ = false;
  std::string bytes_;  // an incomplete code point
  std::string held_;   // decoded text; from sent_ on it may turn into a stop string
  size_t sent_ = 0;    // bytes of held_ that were given out
  std::optional<std::string> matched_;
  bool stopped_ = false;
};

}  // namespace headrace::text

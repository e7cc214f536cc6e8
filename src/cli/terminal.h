#pragma once
// What is shown to a person: text made safe for a terminal, and a progress bar.

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace headrace::cli {

// `text` with control characters (other than newline and tab) and ill-formed UTF-8 replaced by U+FFFD: a model's answer
// or a file's metadata must not move the cursor, retitle the window or hide text.
std::string printable(std::string_view text);

// Writes to standard error and drops what it does not take: a full disk under a log must not end the work that is noted there.
void note_text(std::string_view text);
template <class... Args>
void note(fmt::format_string<Args...> text, Args&&... args) {
  note_text(fmt::format(text, std::forward<Args>(args)...));
}

// A bar on standard error, drawn only on a terminal and only once the work has taken a second.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // erases it
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(double fraction, std::string_view what);

 private:
  const std::string label_;
  const bool terminal_;
  const TimePoint start_ = Clock::now();
  TimePoint drawn_at_{};
  bool drawn_ = false;
};

}  // namespace headrace::cli

#include "cli/terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "text/utf8.h"

namespace headrace::cli {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const text::Utf8Char c = text::decode_utf8(text);
    const size_t length = std::max<size_t>(1, c.length);
    const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);
    if (c.state != text::Utf8State::valid || (control && c.code != '\n' && c.code != '\t')) {
      out += text::kReplacementUtf8;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

void note_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) note("\r\033[K");
}

void ProgressBar::update(double fraction, std::string_view what) {
  constexpr double kQuietSeconds = 1.0, kRedrawSeconds = 0.1;
  constexpr int kWidth = 30;
  const TimePoint now = Clock::now();
  if (!terminal_ || seconds_between(start_, now) < kQuietSeconds) return;
  if (drawn_ && fraction < 1 && seconds_between(drawn_at_, now) < kRedrawSeconds) return;
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  note("\r\033[K{} [{:#>{}}{:.>{}}] {:3.0f}% {}", label_, "", filled, "", kWidth - filled,
             std::clamp(fraction, 0.0, 1.0) * 100, what);
  std::fflush(stderr);
  drawn_ = true;
  drawn_at_ = now;
}

}  // namespace headrace::cli

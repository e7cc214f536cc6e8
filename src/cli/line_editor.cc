// The one file that includes libedit.
#include "cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "cli/interrupt.h"
#include "text/utf8.h"

namespace headrace::cli {

namespace {

// Whether a byte can be read; false when Ctrl-C came first. Looks at the flag between short waits, since a signal that
// arrives just before a wait would not end it.
bool wait_for_input() {
  constexpr int kWaitMs = 50;
  for (;;) {
    if (InterruptGuard::interrupted()) return false;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kWaitMs) > 0) return true;
  }
}

// Reads one character for libedit, whose own reader needs a second Ctrl-C after it ignored the first.
int read_character(EditLine*, wchar_t* out) {
  std::string bytes;
  for (;;) {
    if (!wait_for_input()) return -1;
    char byte;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return static_cast<int>(got);
    bytes.push_back(byte);
    const text::Utf8Char c = text::decode_utf8(bytes);
    if (c.state == text::Utf8State::incomplete) continue;
    *out = static_cast<wchar_t>(c.code);
    return 1;
  }
}

}  // namespace

class LineEditor::Impl {
 public:
  Impl(std::string prompt, std::string history_file)
      : prompt_(std::move(prompt)), history_file_(std::move(history_file)) {
    if (isatty(STDIN_FILENO) == 0) return;
    // libedit reads wide characters by the locale; without UTF-8 nobody could type an umlaut.
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = el_init("headrace", stdin, stdout, stderr);
    if (edit_ == nullptr) return;
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, +[](EditLine* edit) -> char* {
      Impl* self = nullptr;
      el_get(edit, EL_CLIENTDATA, &self);
      return self->prompt_.data();
    });
    el_set(edit_, EL_GETCFN, read_character);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // Ctrl-D that was typed during an answer, while the terminal still edits lines itself, arrives as a zero byte.
    el_set(edit_, EL_BIND, "^@", "em-delete-or-list", nullptr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(edit_, EL_HIST, history, history_);
    el_source(edit_, nullptr);  // the user's own ~/.editrc
  }
  ~Impl() {
    if (history_ != nullptr) history_end(history_);
    if (edit_ != nullptr) el_end(edit_);
  }

  bool interactive() const { return edit_ != nullptr; }

  Read read(std::string& line) {
    if (edit_ == nullptr) return std::getline(std::cin, line) ? Read::line : Read::end;
    int length = 0;
    const char* text = el_gets(edit_, &length);
    if (InterruptGuard::interrupted()) {
      el_reset(edit_);
      std::fputs("\n", stdout);
      return Read::interrupted;
    }
    if (text == nullptr || length <= 0) return Read::end;
    line.assign(text, static_cast<size_t>(length));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    remember(line);
    return Read::line;
  }

 private:
  void remember(const std::string& line) {
    if (line.empty()) return;
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (history_file_.empty()) return;
    const mode_t before = umask(0077);  // what a person asked is nobody else's business
    history(history_, &event, H_SAVE, history_file_.c_str());
    umask(before);
  }

  std::string prompt_, history_file_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
};

LineEditor::LineEditor(std::string prompt, std::string history_file)
    : impl_(std::make_unique<Impl>(std::move(prompt), std::move(history_file))) {}
LineEditor::~LineEditor() = default;
bool LineEditor::interactive() const { return impl_->interactive(); }
LineEditor::Read LineEditor::read(std::string& line) { return impl_->read(line); }

std::string default_history_file() {
  namespace fs = std::filesystem;
  fs::path folder;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != 0) {
    folder = state;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    folder = fs::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code failure;
  fs::create_directories(folder / "headrace", failure);
  return failure ? std::string() : (folder / "headrace" / "history").string();
}

}  // namespace headrace::cli

#pragma once
// Lines from a person: libedit with history on a terminal, plain lines from anything else.

#include <memory>
#include <string>

namespace headrace::cli {

class LineEditor {
 public:
  // `history_file` is read now and written after every line; "": none is kept.
  LineEditor(std::string prompt, std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool interactive() const;
  // interrupted: the caller's InterruptGuard saw Ctrl-C; the line is thrown away.
  enum class Read { line, interrupted, end };
  Read read(std::string& line);                // without its newline

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// ~/.local/state/headrace/history, or below XDG_STATE_HOME; creates the folder. "" when there is no home.
std::string default_history_file();

}  // namespace headrace::cli

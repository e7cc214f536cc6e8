#pragma once
// Ctrl-C as a wish that is looked at, instead of the end of the process.

#include <csignal>

namespace headrace::cli {

// While one exists, SIGINT sets a flag. One at a time.
class InterruptGuard {
 public:
  enum class Mode {
    once,    // the second Ctrl-C ends the process as usual
    always,  // none does
  };
  explicit InterruptGuard(Mode mode);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether Ctrl-C came since the guard was made or clear() was called.
  static bool interrupted();
  static void clear();

 private:
  struct sigaction before_{};
};

}  // namespace headrace::cli

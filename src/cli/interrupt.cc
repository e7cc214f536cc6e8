#include "cli/interrupt.h"

namespace headrace::cli {
namespace {
volatile std::sig_atomic_t g_interrupted = 0;
}  // namespace

InterruptGuard::InterruptGuard(Mode mode) {
  clear();
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = 1; };
  action.sa_flags = mode == Mode::once ? SA_RESETHAND : 0;
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::interrupted() { return g_interrupted != 0; }
void InterruptGuard::clear() { g_interrupted = 0; }

}  // namespace headrace::cli

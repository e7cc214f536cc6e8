// The program `headrace`: finds the command, runs it, turns its status into a message and an exit code.
// Exit codes: 0 done, 1 internal, 2 usage, 3 input not found or malformed, 4 resources.
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "cli/command.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

namespace headrace::cli {
namespace {

struct CommandRow {
  std::string name, summary;
  Status (*run)(const std::vector<std::string>& args);
};

const std::vector<CommandRow>& commands() {
  static const std::vector<CommandRow> rows = [] {
    std::vector<CommandRow> listed = {
#define HR_COMMAND(name, summary) {#name, summary, &name##_command},
#include "cli/commands.def"
#undef HR_COMMAND
    };
    for (CommandRow& row : listed) std::replace(row.name.begin(), row.name.end(), '_', '-');
    return listed;
  }();
  return rows;
}

std::string help() {
  std::string text =
      "Headrace runs language models: in the terminal, and over HTTP for OpenAI clients.\n\n"
      "Usage: headrace COMMAND [arguments]\n\nCommands:\n";
  for (const CommandRow& row : commands()) text += fmt::format("  {:<16} {}\n", row.name, row.summary);
  return text +
         "\nStart here (MODEL is a GGUF file, a Hugging Face folder, or a name such as smollm2 or org/name/file.gguf on a hub):\n"
         "  headrace run MODEL \"What is a mill race?\"   one answer\n"
         "  headrace run MODEL                          a chat\n"
         "  headrace serve MODEL                        an HTTP server and a chat page\n\n"
         "headrace COMMAND --help explains a command, with examples. headrace --version prints the version.\n"
         "Exit codes: 0 done, 2 usage, 3 input not found or malformed, 4 out of resources, 1 internal error.\n";
}

int report(const std::string& command, const Status& status) {
  if (status.ok()) return 0;
  std::fflush(stdout);
  note("headrace {}: {}\n", command, printable(status.message()));
  if (status.code() == Code::invalid_argument) {
    note("Try: headrace {} --help\n", command);
  } else if (status.code() == Code::internal) {
    note("This is a bug in Headrace ({}:{}); please report it.\n", status.file(), status.line());
  }
  return exit_code(status.code());
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandRow& row : commands()) names.push_back(row.name);
  const std::string meant = nearest(name, names);
  note("headrace: no such command: \"{}\"{}\nTry: headrace --help\n", printable(name),
             meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  return exit_code(Code::invalid_argument);
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    note_text(help());
    return exit_code(Code::invalid_argument);
  }
  const std::string& name = args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", help());
    return 0;
  }
  if (name == "--version") {
    fmt::print("headrace {}\n", HEADRACE_VERSION);
    return 0;
  }
  for (const CommandRow& row : commands()) {
    if (row.name == name) return report(name, row.run({args.begin() + 1, args.end()}));
  }
  return unknown_command(name);
}

// A file opened later must not get the number of a standard stream that the caller closed.
void open_standard_streams() {
  for (int file = 0; file < 3; ++file) {
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDWR);
  }
}

// What could not be written to standard output, with `number` as errno.
int output_failed(int number) {
  if (number == EPIPE) return 128 + SIGPIPE;  // the reader has seen enough, as `| head` does
  note("headrace: cannot write to standard output: {}\n", std::strerror(number));
  return exit_code(Code::resource_exhausted);
}

int run_and_flush(const std::vector<std::string>& args) {
  const int result = run(args);
  return std::fflush(stdout) == 0 ? result : output_failed(errno);
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
  using namespace headrace;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is a failed write, not the end of the process
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file that grows beyond its limit
  cli::open_standard_streams();
  try {
    return cli::run_and_flush({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("headrace: out of memory\n", stderr);
    return exit_code(Code::resource_exhausted);
  } catch (const std::system_error& e) {
    if (std::ferror(stdout) != 0) return cli::output_failed(e.code().value());
    cli::note("headrace: unexpected: {}\nThis is a bug in Headrace; please report it.\n", e.what());
    return exit_code(Code::internal);
  } catch (const std::exception& e) {
    cli::note("headrace: unexpected: {}\nThis is a bug in Headrace; please report it.\n", e.what());
    return exit_code(Code::internal);
  }
}

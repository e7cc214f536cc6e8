// The program `headrace`: finds the command, runs it, turns its status into a message and an exit code.
// Exit codes: 0 done, 1 internal, 2 usage, 3 input not found or malformed, 4 resources.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

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
  static const std::vector<CommandRow> rows = {
#define HR_COMMAND(name, summary) {#name, summary, &name##_command},
#include "cli/commands.def"
#undef HR_COMMAND
  };
  return rows;
}

void print_help(std::FILE* to) {
  fmt::print(to, "Headrace runs language models: in the terminal, and over HTTP for OpenAI clients.\n\n"
                 "Usage: headrace COMMAND [arguments]\n\nCommands:\n");
  for (const CommandRow& row : commands()) fmt::print(to, "  {:<10} {}\n", row.name, row.summary);
  fmt::print(to,
             "\nStart here (MODEL is a GGUF file, a Hugging Face folder, or a name such as smollm2 or org/name/file.gguf on a hub):\n"
             "  headrace run MODEL \"What is a mill race?\"   one answer\n"
             "  headrace run MODEL                          a chat\n"
             "  headrace serve MODEL                        an HTTP server and a chat page\n\n"
             "headrace COMMAND --help explains a command, with examples. headrace --version prints the version.\n"
             "Exit codes: 0 done, 2 usage, 3 input not found or malformed, 4 out of resources, 1 internal error.\n");
}

int report(const std::string& command, const Status& status) {
  if (status.ok()) return 0;
  std::fflush(stdout);
  fmt::print(stderr, "headrace {}: {}\n", command, printable(status.message()));
  if (status.code() == Code::invalid_argument) {
    fmt::print(stderr, "Try: headrace {} --help\n", command);
  } else if (status.code() == Code::internal) {
    fmt::print(stderr, "This is a bug in Headrace ({}:{}); please report it.\n", status.file(), status.line());
  }
  return exit_code(status.code());
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandRow& row : commands()) names.push_back(row.name);
  const std::string meant = nearest(name, names);
  fmt::print(stderr, "headrace: no such command: \"{}\"{}\nTry: headrace --help\n", printable(name),
             meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  return exit_code(Code::invalid_argument);
}

int run(const std::vector<std::string>& args) {
  if (args.empty()) {
    print_help(stderr);
    return exit_code(Code::invalid_argument);
  }
  const std::string& name = args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
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

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
  using namespace headrace;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is a failed write, not the end of the process
  try {
    return cli::run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("headrace: out of memory\n", stderr);
    return exit_code(Code::resource_exhausted);
  } catch (const std::exception& e) {
    fmt::print(stderr, "headrace: unexpected: {}\nThis is a bug in Headrace; please report it.\n", e.what());
    return exit_code(Code::internal);
  }
}

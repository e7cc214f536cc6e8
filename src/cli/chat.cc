#include "cli/chat.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/terminal.h"
#include "text/utf8.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

constexpr const char* kHelp =
    "  /system TEXT   what the model is told about its role; starts over\n"
    "  /clear         forget the conversation\n"
    "  /exit          leave (or Ctrl-D)\n"
    "  Ctrl-C         stop the answer\n"
    "  a \\ at the end of a line continues it on the next\n";

json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

class Conversation {
 public:
  Conversation(engine::ServingModel& model, const AnswerOptions& options, std::string system, bool raw)
      : model_(model), options_(options), system_(std::move(system)), raw_(raw) {
    clear();
  }

  void clear() {
    messages_ = json::array();
    if (!system_.empty()) messages_.push_back(message("system", system_));
  }
  void set_system(std::string system) {
    system_ = std::move(system);
    clear();
  }

  Result<Answer> say(const std::string& line) {
    if (!text::is_valid_utf8(line)) return error(Code::invalid_argument, "this line is not valid UTF-8");
    if (raw_) {
      HR_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, model_.encode_raw(line));
      return answer(model_, std::move(prompt), options_, true);
    }
    json turn = messages_;
    turn.push_back(message("user", line));
    HR_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, model_.encode_chat(turn.dump(), {.allow_special = options_.allow_special}));
    HR_ASSIGN_OR_RETURN(Answer reply, answer(model_, std::move(prompt), options_, true));
    turn.push_back(message("assistant", reply.text));
    messages_ = std::move(turn);
    return reply;
  }

 private:
  engine::ServingModel& model_;
  const AnswerOptions& options_;
  std::string system_;
  const bool raw_;
  json messages_;
};

// One line, or several joined by a backslash at the end of each but the last.
LineEditor::Read read_turn(LineEditor& editor, std::string& turn) {
  turn.clear();
  std::string line;
  for (;;) {
    const LineEditor::Read read = editor.read(line);
    if (read != LineEditor::Read::line) return read;
    if (!line.ends_with('\\')) break;
    line.back() = '\n';
    turn += line;
  }
  turn += line;
  return LineEditor::Read::line;
}

// Whether `line` was a command; `leave` becomes true for /exit.
bool handle_command(Conversation& conversation, const std::string& line, bool& leave) {
  if (!line.starts_with('/')) return false;
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  if (name == "/exit" || name == "/quit") {
    leave = true;
  } else if (name == "/clear") {
    conversation.clear();
  } else if (name == "/system") {
    conversation.set_system(space == std::string::npos ? "" : line.substr(space + 1));
  } else if (name == "/help") {
    note("{}", kHelp);
  } else {
    return false;  // "/etc/passwd is a file" is a question like any other
  }
  return true;
}

}  // namespace

std::string one_turn(const std::string& system, const std::string& user) {
  json messages = json::array();
  if (!system.empty()) messages.push_back(message("system", system));
  messages.push_back(message("user", user));
  return messages.dump();
}

Status chat(engine::ServingModel& model, const AnswerOptions& options, std::string system, bool raw) {
  LineEditor editor("> ", default_history_file());
  Conversation conversation(model, options, std::move(system), raw);
  if (editor.interactive()) note("{}. /help lists the commands, Ctrl-D leaves.\n", printable(model.card().id));
  std::string line;
  // One guard for the whole conversation: between reading a line and answering it no Ctrl-C may end the program.
  const InterruptGuard guard(InterruptGuard::Mode::always);
  for (bool leave = false; !leave;) {
    InterruptGuard::clear();
    const LineEditor::Read read = read_turn(editor, line);
    if (read == LineEditor::Read::end) break;
    if (read == LineEditor::Read::interrupted || line.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (handle_command(conversation, line, leave)) continue;
    const Result<Answer> reply = conversation.say(line);
    if (std::ferror(stdout) != 0) break;
    if (!reply) {
      note("{}\n", printable(reply.error().message()));
      if (reply.error().code() == Code::internal) return reply.error();
      continue;
    }
    fmt::print("\n");
    std::fflush(stdout);
    note("[{}]\n", figures_line(reply->timing));
  }
  if (editor.interactive()) fmt::print("\n");
  return {};
}

}  // namespace headrace::cli

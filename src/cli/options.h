#pragma once
// The arguments of one command: declared by binding them to variables, parsed by CLI11 (which stays in options.cc),
// converted and range-checked here so that every wrong value gets one clear message. The declaration is also the help.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace headrace::cli {

class Options {
 public:
  // `about`: what the command does, a few sentences. `examples`: lines of "command  # what it shows".
  Options(std::string_view command, std::string_view about, std::string_view examples)
      : command_(command), about_(about), examples_(examples) {}

  // Targets keep their value when the option is not given, and must outlive parse().
  void positional(std::string& target, std::string_view name, std::string_view help, bool required = true);
  // All that stands there, after the other positionals; there may be none.
  void positionals(std::vector<std::string>& target, std::string_view name, std::string_view help);
  void text(std::string& target, std::string_view flag, std::string_view value, std::string_view help);
  void texts(std::vector<std::string>& target, std::string_view flag, std::string_view value, std::string_view help);
  void integer(int64_t& target, std::string_view flag, std::string_view value, std::string_view help, int64_t min,
               int64_t max);
  void number(double& target, std::string_view flag, std::string_view value, std::string_view help, double min,
              double max);
  void choice(std::string& target, std::string_view flag, std::vector<std::string> values, std::string_view help);
  void flag(bool& target, std::string_view flag, std::string_view help);
  // Any other syntax; the status of `set` is reported with the flag's name in front.
  void custom(std::string_view flag, std::string_view value, std::string_view help,
              std::function<Status(std::string_view)> set);
  // The heading under which the options that follow stand in the help.
  void heading(std::string_view title) { heading_ = title; }

  enum class Parsed { run, help_shown };
  // `args`: what follows the command's name. Errors: invalid_argument. Help goes to standard output.
  Result<Parsed> parse(const std::vector<std::string>& args);
  // Whether the positional or flag was on the command line (after parse()).
  bool given(std::string_view name) const;
  std::string help() const;

 private:
  enum class Kind { positional, value, list, flag };
  struct Spec {
    std::string name;   // "MODEL" or "--seed"
    std::string value;  // "N"
    std::string help;
    std::string heading;
    Kind kind;
    bool required = false;
    bool many = false;  // of a positional
    std::function<Status(std::string_view)> set;
    bool given = false;
  };
  Spec& add(std::string_view name, std::string_view value, std::string_view help, Kind kind,
            std::function<Status(std::string_view)> set);
  Status unknown_argument(const std::string& argument) const;

  std::string command_, about_, examples_;
  std::string heading_ = "Options";
  std::vector<Spec> specs_;
};

}  // namespace headrace::cli

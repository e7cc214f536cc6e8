// The one file that includes CLI11.
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "cli/suggest.h"
#include "cli/terminal.h"

namespace headrace::cli {
namespace {

Status parse_integer(std::string_view text, int64_t min, int64_t max, int64_t& out) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return make_status(Code::invalid_argument, "want a whole number from {} to {}, got \"{}\"", min, max,
                       printable(text));
  }
  out = value;
  return {};
}

Status parse_number(std::string_view text, double min, double max, double& out) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Written so that NaN is refused too.
  const bool inside = value >= min && value <= max;
  if (failure != std::errc() || end != text.data() + text.size() || !inside) {
    return make_status(Code::invalid_argument, "want a number from {} to {}, got \"{}\"", min, max, printable(text));
  }
  out = value;
  return {};
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

// "  --flag VALUE   help", the help wrapped at 100 columns under itself.
std::string help_line(const std::string& left, std::string_view help) {
  constexpr size_t kColumn = 30, kWidth = 100;
  std::string out = "  " + left;
  if (out.size() + 2 > kColumn) {
    out += "\n" + std::string(kColumn, ' ');
  } else {
    out.resize(kColumn, ' ');
  }
  size_t column = kColumn;
  while (!help.empty()) {
    const size_t space = help.find(' ');
    const std::string_view word = help.substr(0, space);
    if (column > kColumn && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(kColumn, ' ');
      column = kColumn;
    }
    if (column > kColumn) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    help.remove_prefix(space == std::string_view::npos ? help.size() : space + 1);
  }
  return out + "\n";
}

}  // namespace

Options::Spec& Options::add(std::string_view name, std::string_view value, std::string_view help, Kind kind,
                            std::function<Status(std::string_view)> set) {
  specs_.push_back({std::string(name), std::string(value), std::string(help), heading_, kind});
  specs_.back().set = std::move(set);
  return specs_.back();
}

void Options::positional(std::string& target, std::string_view name, std::string_view help, bool required) {
  add(name, "", help, Kind::positional, [&target](std::string_view text) {
    target = text;
    return Status();
  }).required = required;
}

void Options::positionals(std::vector<std::string>& target, std::string_view name, std::string_view help) {
  add(name, "", help, Kind::positional, [&target](std::string_view text) {
    target.emplace_back(text);
    return Status();
  }).many = true;
}

void Options::text(std::string& target, std::string_view flag, std::string_view value, std::string_view help) {
  custom(flag, value, help, [&target](std::string_view text) {
    target = text;
    return Status();
  });
}

void Options::texts(std::vector<std::string>& target, std::string_view flag, std::string_view value,
                    std::string_view help) {
  add(flag, value, help, Kind::list, [&target](std::string_view text) {
    target.emplace_back(text);
    return Status();
  });
}

void Options::integer(int64_t& target, std::string_view flag, std::string_view value, std::string_view help,
                      int64_t min, int64_t max) {
  custom(flag, value, help, [&target, min, max](std::string_view text) { return parse_integer(text, min, max, target); });
}

void Options::number(double& target, std::string_view flag, std::string_view value, std::string_view help, double min,
                     double max) {
  custom(flag, value, help, [&target, min, max](std::string_view text) { return parse_number(text, min, max, target); });
}

void Options::choice(std::string& target, std::string_view flag, std::vector<std::string> values,
                     std::string_view help) {
  const std::string value = join(values, "|");
  custom(flag, value, help, [&target, values = std::move(values)](std::string_view text) -> Status {
    if (std::find(values.begin(), values.end(), text) == values.end()) {
      return make_status(Code::invalid_argument, "want {}, got \"{}\"", join(values, " or "), printable(text));
    }
    target = text;
    return {};
  });
}

void Options::flag(bool& target, std::string_view flag, std::string_view help) {
  add(flag, "", help, Kind::flag, [&target](std::string_view) {
    target = true;
    return Status();
  });
}

void Options::custom(std::string_view flag, std::string_view value, std::string_view help,
                     std::function<Status(std::string_view)> set) {
  add(flag, value, help, Kind::value, std::move(set));
}

Status Options::unknown_argument(const std::string& argument) const {
  std::vector<std::string> flags{"--help"};
  for (const Spec& spec : specs_) {
    if (spec.kind != Kind::positional) flags.push_back(spec.name);
  }
  const bool is_flag = argument.starts_with("-");
  const std::string meant = is_flag ? nearest(argument.substr(0, argument.find('=')), flags) : "";
  return make_status(Code::invalid_argument, "{} \"{}\"{}", is_flag ? "no such option:" : "one argument too many:",
                     printable(argument),
                     !meant.empty() ? fmt::format("; did you mean {}?", meant)
                     : is_flag      ? "; put -- before a text that begins with a dash"
                                    : "; put quotes around a text of several words");
}

Result<Options::Parsed> Options::parse(const std::vector<std::string>& args) {
  CLI::App app;
  app.set_help_flag("-h,--help");
  std::vector<CLI::Option*> parsed;
  for (const Spec& spec : specs_) {
    CLI::Option* option = nullptr;
    if (spec.kind == Kind::flag) {
      option = app.add_flag(spec.name);
    } else {
      option = app.add_option(spec.name)->expected(spec.many ? -1 : 1)->required(spec.required);
      option->multi_option_policy(spec.kind == Kind::list || spec.many ? CLI::MultiOptionPolicy::TakeAll
                                                                       : CLI::MultiOptionPolicy::TakeLast);
    }
    parsed.push_back(option);
  }
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help());
    return Parsed::help_shown;
  } catch (const CLI::ExtrasError&) {
    return tl::unexpected(unknown_argument(app.remaining().front()));
  } catch (const CLI::ParseError& e) {
    return error(Code::invalid_argument, "{}", printable(e.what()));
  }
  for (size_t i = 0; i < specs_.size(); ++i) {
    Spec& spec = specs_[i];
    spec.given = parsed[i]->count() > 0;
    if (!spec.given) continue;
    if (spec.kind == Kind::flag) {
      HR_RETURN_IF_ERROR(spec.set(""));
      continue;
    }
    for (const std::string& value : parsed[i]->results()) {
      const Status status = spec.set(value);
      if (!status.ok()) return tl::unexpected(status.with_context(spec.name));
    }
  }
  return Parsed::run;
}

bool Options::given(std::string_view name) const {
  for (const Spec& spec : specs_) {
    if (spec.name == name) return spec.given;
  }
  return false;
}

std::string Options::help() const {
  std::string usage = "headrace " + command_;
  std::string arguments;
  for (const Spec& spec : specs_) {
    if (spec.kind != Kind::positional) continue;
    usage += spec.required ? " " + spec.name : fmt::format(" [{}{}]", spec.name, spec.many ? "..." : "");
    arguments += help_line(spec.name, spec.help);
  }
  std::string out = fmt::format("{}\n\nUsage: {} [options]\n\n{}", about_, usage, arguments);
  std::string last;
  for (const Spec& spec : specs_) {
    if (spec.kind == Kind::positional) continue;
    if (spec.heading != last) out += fmt::format("\n{}:\n", spec.heading);
    last = spec.heading;
    out += help_line(spec.value.empty() ? spec.name : spec.name + " " + spec.value, spec.help);
  }
  out += help_line("-h, --help", "Show this text");
  return out + "\nExamples:\n" + examples_;
}

}  // namespace headrace::cli

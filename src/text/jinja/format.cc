// Python's two ways to format: the % operator, and str.format().
#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

constexpr int64_t kMaxWidth = 1000, kMaxPrecision = 300;

// What stands between a value and its text, in both ways.
struct Spec {
  std::string fill = " ";
  char align = 0;  // <, >, ^, or = between the sign and the digits; 0: as the type has it
  char sign = '-';
  bool alternate = false, zero = false, comma = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

// At most 10,000, which is past every bound.
int64_t read_number(std::string_view text, size_t& at) {
  int64_t n = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9' && n < 10'000)
    n = n * 10 + (text[at++] - '0');
  return n;
}

void check_bounds(const Spec& spec) {
  if (spec.width <= kMaxWidth && spec.precision <= kMaxPrecision) return;
  fail("format: want a width up to {} and a precision up to {}", kMaxWidth, kMaxPrecision);
}

std::string with_commas(std::string digits) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

// |value| and its sign apart.
std::string number_digits(const Spec& spec, const Value& value) {
  const bool integral = std::string_view("diubxXoc").find(spec.type) != std::string_view::npos;
  if (integral) {
    const int64_t n = value.as_integer();
    const uint64_t size = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
    switch (spec.type) {
      case 'x':
        return (spec.alternate ? "0x" : "") + fmt::format("{:x}", size);
      case 'X':
        return (spec.alternate ? "0X" : "") + fmt::format("{:X}", size);
      case 'o':
        return (spec.alternate ? "0o" : "") + fmt::format("{:o}", size);
      case 'b':
        return (spec.alternate ? "0b" : "") + fmt::format("{:b}", size);
      default:
        return std::to_string(size);
    }
  }
  const double real = std::fabs(value.as_real());
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", real, precision);
    case 'E':
      return fmt::format("{:.{}E}", real, precision);
    case 'g':
      return fmt::format("{:.{}g}", real, precision);
    case 'G':
      return fmt::format("{:.{}G}", real, precision);
    case '%':
      return fmt::format("{:.{}f}%", real * 100, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", real, precision);
    default:
      return spec.precision < 0 ? real_repr(real) : fmt::format("{:.{}g}", real, precision);
  }
}

Text format_number(Budget& in, const Spec& spec, const Value& value) {
  const bool negative =
      value.real() ? std::signbit(*value.real()) && !std::isnan(*value.real()) : value.as_integer() < 0;
  std::string digits = number_digits(spec, value);
  if (spec.comma) digits = with_commas(std::move(digits));
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') {
    const Align align = spec.align == '<' ? Align::left : spec.align == '^' ? Align::center : Align::right;
    return pad(in, Text::from_data(sign + digits), spec.width, spec.fill, align);
  }
  const auto width = spec.width - static_cast<int64_t>(sign.size());
  return Text::from_data(sign +
                         pad(in, Text::from_data(std::move(digits)), width, spec.fill, Align::right).bytes);
}

// --- % ---

Text format_percent_value(Interpreter& in, Spec spec, const Value& value, bool left) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    Text text;
    if (spec.type == 's') {
      text = to_text(in, value);
    } else {
      append_repr(in, value, text.bytes);
    }
    if (spec.precision >= 0) text = text.sub(0, byte_of_char(text.bytes, spec.precision));
    return pad(in, text, spec.width, " ", left ? Align::left : Align::right);
  }
  if (spec.type == 'c') {
    Text text;
    if (value.defined().text() && count_chars(value.text()->bytes) == 1) {
      text = *value.text();
    } else if (value.is_integral() && value.as_integer() >= 0 && value.as_integer() <= 0x10FFFF) {
      append_utf8(text.bytes, static_cast<char32_t>(value.as_integer()));
      text.bytes = to_valid_utf8(text.bytes);
    } else {
      fail("%c requires int or char");
    }
    return pad(in, text, spec.width, " ", left ? Align::left : Align::right);
  }
  if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos) {
    fail("unsupported format character '{}'", spec.type);
  }
  if (!value.defined().is_number()) {
    fail("%{} format: a real number is required, not {}", spec.type, type_name(value));
  }
  Value number = value;
  if (value.real() && std::string_view("xXo").find(spec.type) != std::string_view::npos) {
    fail("%{} format: an integer is required, not float", spec.type);
  }
  if (value.real() && std::string_view("diu").find(spec.type) != std::string_view::npos) {
    if (!(std::fabs(*value.real()) < 9e18))
      fail("%{} format: {} is no integer of 64 bits", spec.type, *value.real());
    number = static_cast<int64_t>(*value.real());
  }
  if (spec.zero && !left) {
    spec.fill = "0";
    spec.align = '=';
  } else {
    spec.align = left ? '<' : '>';
  }
  return format_number(in, spec, number);
}

}  // namespace

Value format_percent(Interpreter& in, const Value& format, Args& args) {
  const Text source = to_text(in, format);
  const std::string& f = source.bytes;
  TextBuilder out;
  size_t next = 0;
  bool by_name = !args.named.empty();
  for (size_t at = 0; at < f.size();) {
    const size_t percent = std::min(f.find('%', at), f.size());
    out.append(source, at, percent);
    if (percent == f.size()) break;
    at = percent + 1;
    std::string_view name;
    if (at < f.size() && f[at] == '(') {
      const size_t close = f.find(')', at);
      if (close == f.npos) fail("incomplete format key");
      name = std::string_view(f).substr(at + 1, close - at - 1);
      at = close + 1;
    }
    Spec spec;
    bool left = false;
    for (; at < f.size() && std::string_view("-+ #0").find(f[at]) != std::string_view::npos; ++at) {
      left |= f[at] == '-';
      spec.zero |= f[at] == '0';
      spec.alternate |= f[at] == '#';
      if (f[at] == '+' || (f[at] == ' ' && spec.sign != '+')) spec.sign = f[at];
    }
    spec.width = read_number(f, at);
    if (at < f.size() && f[at] == '.') spec.precision = read_number(f, ++at);
    check_bounds(spec);
    if (at >= f.size()) fail("incomplete format");
    spec.type = f[at++];
    if (spec.type == '%') {
      out.append_trusted("%");
      continue;
    }
    const Value* value = nullptr;
    if (!name.empty()) {
      by_name = true;
      for (const auto& [key, v] : args.named) {
        if (key == name) value = &v;
      }
      if (!value && !args.positional.empty() && args.positional[0].dict())
        value = args.positional[0].dict()->find(name);
      if (!value) fail("format: there is no value named '{}'", name);
    } else {
      if (next >= args.positional.size()) fail("not enough arguments for format string");
      value = &args.positional[next++];
    }
    const Text text = format_percent_value(in, spec, *value, left);
    in.step_bytes(text.bytes.size());
    out.append(text);
  }
  const bool one_container =
      args.positional.size() == 1 && (args.positional[0].dict() || args.positional[0].is_list());
  if (next < args.positional.size() && !by_name && !one_container) {
    fail("not all arguments converted during string formatting");
  }
  return out.take();
}

// --- str.format() ---

namespace {

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  constexpr std::string_view aligns = "<>=^";
  const size_t fill = text.empty() ? 0 : decode_utf8(text).length;
  if (fill < text.size() && aligns.find(text[fill]) != aligns.npos) {
    spec.fill = text.substr(0, fill);
    spec.align = text[fill];
    at = fill + 1;
  } else if (!text.empty() && aligns.find(text[0]) != aligns.npos) {
    spec.align = text[0];
    at = 1;
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c && (++at, true); };
  for (const char sign : {'+', '-', ' '}) {
    if (skip(sign)) {
      spec.sign = sign;
      break;
    }
  }
  spec.alternate = skip('#');
  spec.zero = skip('0');
  spec.width = read_number(text, at);
  spec.comma = skip(',');
  if (skip('.')) spec.precision = read_number(text, at);
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("Invalid format specifier '{}'", text);
  check_bounds(spec);
  return spec;
}

Text format_with(Interpreter& in, const Value& value, std::string_view text) {
  if (text.empty()) return to_text(in, value);
  Spec spec = parse_spec(text);
  if (value.is_number() && !(value.boolean() && spec.type == 0) && spec.type != 's') {
    if (spec.type == 0) spec.type = value.real() ? '\0' : 'd';
    constexpr std::string_view of_integers = "dbxXo", of_reals = "eEfFgG%";
    const bool known = value.real()
                           ? spec.type == 0 || of_reals.find(spec.type) != of_reals.npos
                           : (of_integers.find(spec.type) != of_integers.npos && spec.precision < 0) ||
                                 of_reals.find(spec.type) != of_reals.npos;
    if (!known) fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
    if (spec.zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    return format_number(in, spec, value);
  }
  if (!value.defined().text() && !value.boolean()) {
    fail("unsupported format string passed to {}.__format__", type_name(value));
  }
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.comma || spec.sign != '-') {
    fail("Invalid format specifier '{}' for object of type '{}'", text, type_name(value));
  }
  Text body = to_text(in, value);
  if (spec.precision >= 0) body = body.sub(0, byte_of_char(body.bytes, spec.precision));
  if (spec.zero && spec.align == 0) spec.fill = "0";
  // An even share on both sides; the odd character goes to the right.
  const auto length = static_cast<int64_t>(count_chars(body.bytes));
  if (spec.align == '^' && spec.width > length) {
    body = pad(in, body, length + (spec.width - length) / 2, spec.fill, Align::right);
  }
  return pad(in, body, spec.width, spec.fill, spec.align == '>' ? Align::right : Align::left);
}

// `0`, `name`, and what follows them: `.attribute`, `[key]`.
Value field_value(std::string_view field, Args& args, size_t& automatic) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  const Value* found = nullptr;
  if (const auto index =
          first.empty() ? std::optional<int64_t>(automatic++) : parse_python_integer(first, 10)) {
    if (*index >= 0 && static_cast<size_t>(*index) < args.positional.size()) found = &args.positional[*index];
  } else {
    for (const auto& [name, v] : args.named) {
      if (name == first) found = &v;
    }
  }
  if (!found) fail("format: there is no value for the field '{}'", first);
  Value value = *found;
  for (std::string_view rest = field.substr(end); !rest.empty();) {
    const bool subscript = rest[0] == '[';
    const size_t stop = std::min(subscript ? rest.find(']') : rest.find_first_of(".[", 1), rest.size());
    if (rest.size() < 2 || (subscript && stop == rest.size())) fail("format: bad field '{}'", field);
    const std::string_view key = rest.substr(1, stop - 1);
    const auto index = subscript ? parse_python_integer(key, 10) : std::nullopt;
    value = subscript ? get_item(value, index ? Value(*index) : Value::data(std::string(key)))
                      : get_attribute(value, key);
    rest.remove_prefix(std::min(stop + subscript, rest.size()));
  }
  return value;
}

}  // namespace

Value format_braces(Interpreter& in, const Value& format, Args& args) {
  const Text& source = *format.text();
  const std::string& f = source.bytes;
  TextBuilder out;
  size_t automatic = 0;
  for (size_t at = 0; at < f.size();) {
    const size_t brace = std::min(f.find_first_of("{}", at), f.size());
    out.append(source, at, brace);
    if (brace == f.size()) break;
    if (brace + 1 < f.size() && f[brace + 1] == f[brace]) {
      out.append(source, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t close = f.find('}', brace);
    if (f[brace] == '}' || close == f.npos) fail("single '{}' encountered in format string", f[brace]);
    std::string_view field = std::string_view(f).substr(brace + 1, close - brace - 1);
    if (field.find('{') != field.npos) {
      throw TemplateError{Code::unsupported,
                          fmt::format("format field '{}': fields in fields are not implemented", field)};
    }
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
    field = field.substr(0, colon);
    const size_t bang = std::min(field.find('!'), field.size());
    const std::string_view conversion = field.substr(bang);
    Value value = field_value(field.substr(0, bang), args, automatic);
    if (conversion == "!r") {
      std::string shown;
      append_repr(in, value, shown);
      value = Value::data(std::move(shown));
    } else if (conversion == "!s") {
      value = to_text(in, value);
    } else if (!conversion.empty()) {
      fail("Unknown conversion specifier {}", conversion);
    }
    const Text text = format_with(in, value, spec);
    in.step_bytes(text.bytes.size());
    out.append(text);
    at = close + 1;
  }
  return out.take();
}

}  // namespace headrace::text::jinja

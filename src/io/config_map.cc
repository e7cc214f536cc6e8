// Reads config.json into flat keys, and checks what callers ask for. The one file of io/ that parses
// configuration JSON.
#include "io/config_map.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace headrace::io {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

std::optional<int64_t> integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto natural = value.get<uint64_t>();
    if (natural > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(natural);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

// A list of one kind; nullopt for mixed lists and lists of objects, which no model asks for.
std::optional<ConfigMap::Value> list(const Json& array) {
  bool integers = true, numbers = true, strings = true;
  for (const Json& item : array) {
    integers = integers && integer(item).has_value();
    numbers = numbers && item.is_number();
    strings = strings && item.is_string();
  }
  if (integers) {
    std::vector<int64_t> out;
    for (const Json& item : array) out.push_back(*integer(item));
    return out;
  }
  if (numbers) return array.get<std::vector<double>>();
  if (strings) return array.get<std::vector<std::string>>();
  return std::nullopt;
}

Status flatten(const Json& object, const std::string& prefix, int depth, ConfigMap& out) {
  if (depth > kMaxDepth) {
    return make_status(Code::malformed, "'{}' lies more than {} objects deep", prefix, kMaxDepth);
  }
  for (const auto& [name, value] : object.items()) {
    std::string key = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object()) {
      HR_RETURN_IF_ERROR(flatten(value, key, depth + 1, out));
    } else if (value.is_boolean()) {
      out.set(std::move(key), value.get<bool>());
    } else if (value.is_string()) {
      out.set(std::move(key), value.get<std::string>());
    } else if (const auto whole = integer(value)) {
      out.set(std::move(key), *whole);
    } else if (value.is_number()) {
      out.set(std::move(key), value.get<double>());
    } else if (value.is_array()) {
      if (auto items = list(value)) out.set(std::move(key), std::move(*items));
    }
  }
  return Status();
}

std::string_view kind_of(const ConfigMap::Value& value) {
  static constexpr std::string_view kKinds[] = {"a boolean",        "an integer",         "a number",
                                                "a string",         "a list of integers", "a list of numbers",
                                                "a list of strings"};
  return kKinds[value.index()];
}

std::string shown(const ConfigMap::Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", text->substr(0, 60));
  return std::string(kind_of(value));
}

Status missing(std::string_view key, std::string_view wanted) {
  return make_status(Code::malformed, "config: '{}' is missing; want {}", key, wanted);
}
Status wrong_type(std::string_view key, std::string_view wanted, const ConfigMap::Value& value) {
  return make_status(Code::malformed, "config: '{}' is {}; want {}", key, shown(value), wanted);
}

}  // namespace

Result<ConfigMap> ConfigMap::from_json(std::string_view text) {
  if (text.size() > kMaxConfigBytes) {
    return error(Code::malformed, "config: {} bytes; want at most {}", text.size(), kMaxConfigBytes);
  }
  // nlohmann-json reports errors by exception; none leaves this function.
  try {
    const Json json = Json::parse(text);
    if (!json.is_object())
      return error(Code::malformed, "config: want a JSON object at the top, got {}", json.type_name());
    ConfigMap out;
    HR_RETURN_IF_ERROR(flatten(json, "", 0, out));
    return out;
  } catch (const Json::parse_error& problem) {
    return error(Code::malformed, "config: not valid JSON at byte {}", problem.byte);
  } catch (const Json::exception& problem) {
    return error(Code::malformed, "config: {}", problem.what());
  }
}

Result<int64_t> ConfigMap::get_int(std::string_view key, int64_t min, int64_t max) const {
  const auto at = values_.find(key);
  const std::string wanted = fmt::format("an integer in {}..{}", min, max);
  if (at == values_.end()) return tl::unexpected<Status>(missing(key, wanted));
  const auto* whole = std::get_if<int64_t>(&at->second);
  if (whole == nullptr || *whole < min || *whole > max)
    return tl::unexpected<Status>(wrong_type(key, wanted, at->second));
  return *whole;
}

Result<double> ConfigMap::get_number(std::string_view key, double min, double max) const {
  const auto at = values_.find(key);
  const std::string wanted = fmt::format("a number in {}..{}", min, max);
  if (at == values_.end()) return tl::unexpected<Status>(missing(key, wanted));
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* whole = std::get_if<int64_t>(&at->second)) number = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&at->second)) number = *real;
  // A NaN fails both comparisons.
  if (!(number >= min && number <= max)) return tl::unexpected<Status>(wrong_type(key, wanted, at->second));
  return number;
}

Result<std::string> ConfigMap::get_string(std::string_view key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return tl::unexpected<Status>(missing(key, "a string"));
  const auto* text = std::get_if<std::string>(&at->second);
  if (text == nullptr) return tl::unexpected<Status>(wrong_type(key, "a string", at->second));
  return *text;
}

Result<bool> ConfigMap::get_bool(std::string_view key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return tl::unexpected<Status>(missing(key, "true or false"));
  const auto* flag = std::get_if<bool>(&at->second);
  if (flag == nullptr) return tl::unexpected<Status>(wrong_type(key, "true or false", at->second));
  return *flag;
}

Result<int64_t> ConfigMap::get_int_or(std::string_view key, int64_t fallback, int64_t min,
                                      int64_t max) const {
  return has(key) ? get_int(key, min, max) : Result<int64_t>(fallback);
}
Result<double> ConfigMap::get_number_or(std::string_view key, double fallback, double min, double max) const {
  return has(key) ? get_number(key, min, max) : Result<double>(fallback);
}
Result<std::string> ConfigMap::get_string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : Result<std::string>(std::string(fallback));
}
Result<bool> ConfigMap::get_bool_or(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : Result<bool>(fallback);
}

}  // namespace headrace::io

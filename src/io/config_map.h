#pragma once
// A checkpoint's configuration: Hugging Face's config.json keys, read with the type and range that the caller wants.
// GGUF metadata is translated to the same keys by io/gguf_names.cc. No JSON type appears here.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace headrace::io {

class ConfigMap {
 public:
  // Nested objects are flattened with dots: "rope_scaling.factor".
  using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                             std::vector<std::string>>;

  // Parses the text of a config.json. Errors: malformed.
  static Result<ConfigMap> from_json(std::string_view json);

  void set(std::string key, Value value) { values_[std::move(key)] = std::move(value); }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

  // Errors: malformed when the key is missing, of another type, or outside [min, max]; the message names the key, what
  // was wanted and what stands there. An integer is accepted where a number is wanted.
  Result<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;
  Result<double> get_number(std::string_view key, double min, double max) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  // The same, with a value for a missing (or null) key.
  Result<int64_t> get_int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const;
  Result<double> get_number_or(std::string_view key, double fallback, double min, double max) const;
  Result<std::string> get_string_or(std::string_view key, std::string_view fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace headrace::io

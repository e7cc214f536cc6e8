#pragma once
// Environment variables for the length of one test. One at a time, and no other thread may read the environment meanwhile.

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace headrace::testing {

class ScopedEnvironment {
 public:
  using Values = std::map<std::string, std::optional<std::string>>;  // nothing: not set
  explicit ScopedEnvironment(const Values& values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name.c_str());
      before_[name] = old == nullptr ? std::optional<std::string>() : std::string(old);
      set(name, value);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) set(name, value);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  Values before_;
};

}  // namespace headrace::testing

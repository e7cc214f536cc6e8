#pragma once
// Status and Result<T>: how everything that the world can cause (files, requests, options, memory, peers) is
// reported. A message says what failed, where, what was wanted, what was got and what to do. Programming errors
// use CHECK (base/check.h) instead. No exceptions cross a Headrace interface: a third-party exception is caught
// in the one file that wraps that library.

// nvcc's front end cannot read fmt, and device sources never make an error: they see the types alone.
#if !defined(__CUDACC__)
#include <fmt/core.h>
#endif

#include <source_location>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace headrace {

enum class Code : unsigned char {
  ok,
  invalid_argument,    // the caller's value is wrong: exit 2, HTTP 400
  not_found,           // a file, model, endpoint or tensor that is not there: exit 3, HTTP 404
  malformed,           // bytes that break their format's rules: exit 3, HTTP 400
  unsupported,         // valid, but outside what Headrace implements: exit 3, HTTP 400
  unauthenticated,     // a missing or wrong key: HTTP 401
  resource_exhausted,  // memory, disk, queue or context space: exit 4, HTTP 429
  unavailable,         // shutting down, peer gone: exit 4, HTTP 503
  cancelled,           // the caller gave up: exit 4, HTTP 499
  internal,            // our own bug: exit 1, HTTP 500
};

std::string_view code_name(Code code);
int exit_code(Code code);    // the process exit code of `headrace`
int http_status(Code code);  // the status of an HTTP answer

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::source_location where = std::source_location::current())
      : code_(code), message_(std::move(message)), file_(where.file_name()), line_(where.line()) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* file() const { return file_; }
  unsigned line() const { return line_; }

  // The same error with "context: " in front of its message.
  Status with_context(std::string_view context) const;
  // "malformed: message"
  std::string to_string() const;

 private:
  Code code_ = Code::ok;
  std::string message_;
  const char* file_ = "";
  unsigned line_ = 0;
};

template <class T>
using Result = tl::expected<T, Status>;

#if !defined(__CUDACC__)
// A format string that remembers where it was written, so that errors carry their location.
template <class... Args>
struct LocatedFormat {
  template <class S>
  consteval LocatedFormat(const S& text, std::source_location at = std::source_location::current())
      : format(text), where(at) {}
  fmt::format_string<Args...> format;
  std::source_location where;
};

// return error(Code::malformed, "tensor {}: want {} bytes, file has {}", name, want, got);
// Converts to Status and to any Result<T>.
template <class... Args>
[[nodiscard]] tl::unexpected<Status> error(Code code, LocatedFormat<std::type_identity_t<Args>...> text,
                                           Args&&... args) {
  return tl::unexpected<Status>(
      Status(code, fmt::vformat(text.format, fmt::make_format_args(args...)), text.where));
}

template <class... Args>
Status make_status(Code code, LocatedFormat<std::type_identity_t<Args>...> text, Args&&... args) {
  return Status(code, fmt::vformat(text.format, fmt::make_format_args(args...)), text.where);
}
#endif

}  // namespace headrace

// HR_RETURN_IF_ERROR(status_expr): leaves the function with that error. Works in functions that return Status
// or Result<T>.
#define HR_RETURN_IF_ERROR(expr)                                        \
  do {                                                                  \
    if (::headrace::Status hr_status = (expr); !hr_status.ok()) {       \
      return ::headrace::internal_status::as_return(std::move(hr_status)); \
    }                                                                   \
  } while (false)

// HR_ASSIGN_OR_RETURN(auto x, result_expr): x gets the value, or the function returns the error.
#define HR_CONCAT_INNER(a, b) a##b
#define HR_CONCAT(a, b) HR_CONCAT_INNER(a, b)
#define HR_ASSIGN_OR_RETURN(lhs, expr) HR_ASSIGN_OR_RETURN_IMPL(HR_CONCAT(hr_result_, __LINE__), lhs, expr)
#define HR_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)                                         \
  auto&& result = (expr);                                                                   \
  if (!result) return ::headrace::internal_status::as_return(std::move(result).error());   \
  lhs = std::move(*result)

namespace headrace::internal_status {
// Converts to Status or to Result<T>, whichever the enclosing function returns.
struct ReturnedError {
  Status status;
  operator Status() && { return std::move(status); }
  template <class T>
  operator tl::expected<T, Status>() && {
    return tl::unexpected<Status>(std::move(status));
  }
};
inline ReturnedError as_return(Status status) { return ReturnedError{std::move(status)}; }
}  // namespace headrace::internal_status

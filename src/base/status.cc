// The one table that maps error codes to names, exit codes and HTTP statuses.
#include "base/status.h"

#include <array>

namespace headrace {
namespace {

struct CodeRow {
  Code code;
  std::string_view name;
  int exit_code;
  int http_status;
};

constexpr std::array<CodeRow, 10> kCodes{{
    {Code::ok, "ok", 0, 200},
    {Code::invalid_argument, "invalid argument", 2, 400},
    {Code::not_found, "not found", 3, 404},
    {Code::malformed, "malformed", 3, 400},
    {Code::unsupported, "unsupported", 3, 400},
    {Code::unauthenticated, "unauthenticated", 3, 401},
    {Code::resource_exhausted, "resource exhausted", 4, 429},
    {Code::unavailable, "unavailable", 4, 503},
    {Code::cancelled, "cancelled", 4, 499},
    {Code::internal, "internal error", 1, 500},
}};

const CodeRow& row(Code code) { return kCodes[static_cast<size_t>(code)]; }

}  // namespace

std::string_view code_name(Code code) { return row(code).name; }
int exit_code(Code code) { return row(code).exit_code; }
int http_status(Code code) { return row(code).http_status; }

Status Status::with_context(std::string_view context) const {
  Status copy = *this;
  if (!ok()) copy.message_ = fmt::format("{}: {}", context, message_);
  return copy;
}

std::string Status::to_string() const {
  return ok() ? std::string("ok") : fmt::format("{}: {}", code_name(code_), message_);
}

}  // namespace headrace

#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;
constexpr uint32_t kHeapLimitKiB = 64 << 10;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  HR_ASSIGN_OR_RETURN(const std::string translated, translate_regex(pattern));
  auto compiled = std::make_unique<Code>();
  int failed = 0;
  PCRE2_SIZE at = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &failed, &at, nullptr);
  if (!compiled->code) {
    return error(headrace::Code::malformed, "regular expression \"{}\": {}", pattern.substr(0, 200), message_of(failed));
  }
  // Without a just-in-time compiler matching is slower, nothing else.
  (void)pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled->limits, kMatchLimit);
  pcre2_set_heap_limit(compiled->limits, kHeapLimitKiB);
  return Regex(std::move(compiled));
}

Status Regex::find_all(std::string_view text, std::vector<Match>& out) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t last_end = SIZE_MAX;
  for (size_t from = 0; from <= text.size() && !text.empty();) {
    const int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), code_->limits);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      return make_status(headrace::Code::resource_exhausted, "regular expression, byte {} of {}: {}", from,
                         text.size(), message_of(found));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const size_t begin = range[0], end = range[1];
    if (end <= begin && end == last_end) {
      from = from < text.size() ? from + decode_utf8(text.substr(from)).length : from + 1;
      continue;
    }
    // Only \K in a look-ahead ends a match before it begins, or begins it before the last one ended.
    if (end < begin || (last_end != SIZE_MAX && begin < last_end)) return {};
    out.push_back({begin, end});
    from = last_end = end;
  }
  return {};
}

}  // namespace headrace::text

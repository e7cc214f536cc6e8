#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex_class.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <map>
#include <memory>
#include <mutex>

#include "text/utf8.h"

namespace headrace::text {
namespace {

// PCRE2 names these as the library does. Groups come first: they hold the others.
constexpr std::string_view kKnownToPcre2[] = {"L",  "M",  "N",  "P",  "S",  "Z",  "C",  "Lu", "Ll", "Lt",
                                              "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
                                              "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"};

// Planes 4 to 13, 15 and 16 have one category each in every version of Unicode, but for the last two code points of each.
bool is_uniform(char32_t code) {
  const char32_t plane = code >> 16, low = code & 0xFFFF;
  return ((plane >= 4 && plane <= 13) || plane >= 15) && low > 0 && low < 0xFFFD;
}

// The code points that PCRE2's `\p{name}` matches.
CodeSet measure(const std::string& name) {
  static const std::string all = [] {
    std::string text;
    for (char32_t code = 0; code <= CodeSet::kLast; ++code) {
      if (!(code >= 0xD800 && code < 0xE000) && !is_uniform(code)) append_utf8(text, code);
    }
    return text;
  }();
  int failed = 0;
  PCRE2_SIZE at = 0;
  const std::string regex = "\\p{" + name + "}+";
  const std::unique_ptr<pcre2_code, void (*)(pcre2_code*)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(), PCRE2_UTF, &failed, &at, nullptr),
      pcre2_code_free);
  if (!code) return {};
  (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
  std::vector<CodeSet::Range> ranges;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(all.data());
  for (size_t from = 0; pcre2_match(code.get(), subject, all.size(), from, PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0;) {
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
    for (size_t i = match[0]; i < match[1];) {
      const Utf8Char c = decode_utf8(std::string_view(all).substr(i));
      if (!ranges.empty() && ranges.back().second + 1 == c.code) {
        ranges.back().second = c.code;
      } else {
        ranges.emplace_back(c.code, c.code);
      }
      i += c.length;
    }
    from = match[1];
  }
  // What lies between two code points of one uniform stretch is like them.
  for (char32_t plane = 4; plane <= 16; ++plane) {
    const char32_t first = plane << 16;
    if (plane == 14) continue;
    for (size_t i = 0, n = ranges.size(); i < n; ++i) {
      if (ranges[i].first <= first && first <= ranges[i].second) ranges.emplace_back(first, first + 0xFFFD);
    }
  }
  return CodeSet(std::move(ranges));
}

const CodeSet& in_pcre2(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, CodeSet, std::less<>> measured;
  const std::lock_guard lock(mutex);
  const auto found = measured.find(name);
  return found != measured.end() ? found->second
                                 : measured.emplace(std::string(name), measure(std::string(name))).first->second;
}

// Ranges as the inside of a class. Surrogates stand in no text and may not stand in a pattern.
void append_ranges(const CodeSet& set, std::string& out) {
  for (auto [first, last] : set.ranges()) {
    if (first >= 0xD800 && first < 0xE000) first = 0xE000;
    if (last >= 0xD800 && last < 0xE000) last = 0xD7FF;
    if (first > last) continue;
    fmt::format_to(std::back_inserter(out), "\\x{{{:x}}}", static_cast<uint32_t>(first));
    if (first < last) fmt::format_to(std::back_inserter(out), "-\\x{{{:x}}}", static_cast<uint32_t>(last));
  }
}

}  // namespace

void RegexClass::add(const CodeSet& set) {
  if (negated_) *this = RegexClass(value());
  set_.add(set);
}

Status RegexClass::add_property(std::string_view name, bool negated) {
  if (name.starts_with('^')) return add_property(name.substr(1), !negated);
  const auto set = named_code_set(name);
  if (!set) {
    return make_status(Code::unsupported, "regular expression: property \"{}\" is not known", name.substr(0, 80));
  }
  if (negated_) *this = RegexClass(value());
  set_.add(negated ? set->complement() : *set);
  for (const std::string_view known : kKnownToPcre2) {
    if (known != name) continue;
    fmt::format_to(std::back_inserter(hints_), "\\{}{{{}}}", negated ? 'P' : 'p', name);
    hinted_.add(negated ? in_pcre2(name).complement() : in_pcre2(name));
  }
  // The library's \w is close to these.
  if (name == "word" && !negated) {
    for (const std::string_view part : {"L", "M", "Nd", "Pc"}) {
      fmt::format_to(std::back_inserter(hints_), "\\p{{{}}}", part);
      hinted_.add(in_pcre2(part));
    }
  }
  return {};
}

void RegexClass::add(const RegexClass& other) {
  if (!negated_ && !other.negated_) {
    set_.add(other.set_);
    hints_ += other.hints_;
    hinted_.add(other.hinted_);
  } else {
    CodeSet both = value();
    both.add(other.value());
    *this = RegexClass(std::move(both));
  }
}

void RegexClass::intersect(const RegexClass& other) {
  *this = RegexClass(value().intersection(other.value()));
}

std::string RegexClass::pattern() const {
  if (set_.empty()) return negated_ ? "[\\x{0}-\\x{10ffff}]" : "(?!)";
  if (set_.complement().empty()) return negated_ ? "(?!)" : "[\\x{0}-\\x{10ffff}]";
  std::string out = negated_ ? "[^" : "[";
  if (!hints_.empty() && hinted_.difference(set_).empty()) {
    out += hints_;
    append_ranges(set_.difference(hinted_), out);
  } else {
    append_ranges(set_, out);
  }
  return out + ']';
}

}  // namespace headrace::text

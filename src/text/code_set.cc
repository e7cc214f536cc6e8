#include "text/code_set.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "text/packed_tables.h"
#include "text/unicode.h"

namespace headrace::text {
namespace {

#include "text/regex_data.inc"

struct CategoryName {
  std::string_view names;
  uint32_t mask;
};
constexpr CategoryName kCategoryNames[] = {
    {"l letter", kLetters},
    {"lu uppercaseletter", category_set(Category::Lu)},
    {"ll lowercaseletter", category_set(Category::Ll)},
    {"lt titlecaseletter", category_set(Category::Lt)},
    {"lc casedletter", category_set(Category::Lu, Category::Ll, Category::Lt)},
    {"lm modifierletter", category_set(Category::Lm)},
    {"lo otherletter", category_set(Category::Lo)},
    {"m mark combiningmark", kMarks},
    {"mn nonspacingmark", category_set(Category::Mn)},
    {"mc spacingmark", category_set(Category::Mc)},
    {"me enclosingmark", category_set(Category::Me)},
    {"n number", kNumbers},
    {"nd decimalnumber", category_set(Category::Nd)},
    {"nl letternumber", category_set(Category::Nl)},
    {"no othernumber", category_set(Category::No)},
    {"p punctuation", kPunctuation},
    {"pc connectorpunctuation", category_set(Category::Pc)},
    {"pd dashpunctuation", category_set(Category::Pd)},
    {"ps openpunctuation", category_set(Category::Ps)},
    {"pe closepunctuation", category_set(Category::Pe)},
    {"pi initialpunctuation", category_set(Category::Pi)},
    {"pf finalpunctuation", category_set(Category::Pf)},
    {"po otherpunctuation", category_set(Category::Po)},
    {"s symbol", kSymbols},
    {"sm mathsymbol", category_set(Category::Sm)},
    {"sc currencysymbol", category_set(Category::Sc)},
    {"sk modifiersymbol", category_set(Category::Sk)},
    {"so othersymbol", category_set(Category::So)},
    {"z separator", category_set(Category::Zs, Category::Zl, Category::Zp)},
    {"zs spaceseparator", category_set(Category::Zs)},
    {"zl lineseparator", category_set(Category::Zl)},
    {"zp paragraphseparator", category_set(Category::Zp)},
    {"c other", category_set(Category::Cc, Category::Cf, Category::Cn, Category::Co)},
    {"cc control", category_set(Category::Cc)},
    {"cf format", category_set(Category::Cf)},
    {"cn unassigned", category_set(Category::Cn)},
    {"co privateuse", category_set(Category::Co)},
    {"any", ~0u},
};

// All sets by name: general categories, by their short names and by those of their groups, and those of kNamedSets.
std::map<std::string, CodeSet, std::less<>> read_sets() {
  std::map<std::string, CodeSet, std::less<>> sets;
  for (const auto& [names, mask] : kCategoryNames) {
    std::vector<CodeSet::Range> ranges;
    for_each_category_run([&](char32_t first, char32_t last, Category category) {
      if (mask >> static_cast<unsigned>(category) & 1) ranges.emplace_back(first, last);
    });
    for (std::string_view rest = names; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      sets.emplace(rest.substr(0, end), CodeSet(ranges));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (size_t at = 0; at < std::size(kNamedSets);) {
    const size_t length = kNamedSets[at++];
    std::string name(kNamedSets + at, kNamedSets + at + length);
    at += length;
    std::vector<CodeSet::Range> ranges(read_varint(kNamedSets, at));
    char32_t last = 0;
    for (auto& range : ranges) {
      range.first = last + read_varint(kNamedSets, at);
      last = range.second = range.first + read_varint(kNamedSets, at);
    }
    sets.emplace(std::move(name), CodeSet(std::move(ranges)));
  }
  return sets;
}

}  // namespace

CodeSet::CodeSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
  std::sort(ranges_.begin(), ranges_.end());
  size_t kept = 0;
  for (const Range& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].second + 1) {
      ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, range.second);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

void CodeSet::add(char32_t first, char32_t last) {
  add(CodeSet({{first, last}}));
}

void CodeSet::add(const CodeSet& other) {
  std::vector<Range> all = std::move(ranges_);
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  *this = CodeSet(std::move(all));
}

CodeSet CodeSet::complement() const {
  CodeSet out;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.ranges_.emplace_back(next, range.first - 1);
    next = range.second + 1;
  }
  if (next <= kLast) out.ranges_.emplace_back(next, kLast);
  return out;
}

CodeSet CodeSet::intersection(const CodeSet& other) const {
  CodeSet out;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const Range &a = ranges_[i], &b = other.ranges_[j];
    const char32_t first = std::max(a.first, b.first), last = std::min(a.second, b.second);
    if (first <= last) out.ranges_.emplace_back(first, last);
    ++(a.second < b.second ? i : j);
  }
  return out;
}

std::optional<CodeSet> named_code_set(std::string_view name) {
  static const auto sets = read_sets();
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  const auto found = sets.find(plain);
  if (found == sets.end()) return std::nullopt;
  return found->second;
}

namespace {
const CodeMap& case_map() {
  static const CodeMap map(kCaseVariants);
  return map;
}
}  // namespace

std::u32string_view case_variants(char32_t code) {
  return case_map().find(code);
}

CodeSet closed_under_case(const CodeSet& set) {
  std::vector<CodeSet::Range> ranges = set.ranges();
  case_map().for_each([&](char32_t code, std::u32string_view variants) {
    const auto after = std::upper_bound(set.ranges().begin(), set.ranges().end(), code,
                                        [](char32_t c, const CodeSet::Range& r) { return c < r.first; });
    if (after == set.ranges().begin() || std::prev(after)->second < code) return;
    for (const char32_t variant : variants) ranges.emplace_back(variant, variant);
  });
  return CodeSet(std::move(ranges));
}

}  // namespace headrace::text

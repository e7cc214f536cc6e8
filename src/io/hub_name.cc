// Parsing and checks of names; nothing here touches the disk or the network.
#include "io/hub_name.h"

#include <algorithm>

#include "io/shown_name.h"

namespace headrace::io {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The hub's own rule for the two halves of a repository's name. Without "--" the folder models--org--name names one repository.
bool is_repo_part(std::string_view part) {
  constexpr size_t kMaxLength = 96;
  if (part.empty() || part.size() > kMaxLength) return false;
  if (!is_alphanumeric(part.front()) && part.front() != '_') return false;
  if (part.back() == '.' || part.back() == '-') return false;
  if (part.find("--") != part.npos || part.find("..") != part.npos) return false;
  return std::all_of(part.begin(), part.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_revision(std::string_view revision) {
  constexpr size_t kMaxLength = 200;
  return revision.size() <= kMaxLength && is_safe_repo_path(revision) &&
         std::all_of(revision.begin(), revision.end(), [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == '+';
         });
}

std::string decode_slashes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = text.substr(i, 3);
    const bool slash = three == "%2F" || three == "%2f";
    out += slash ? '/' : text[i];
    if (slash) i += 2;
  }
  return out;
}

}  // namespace

Result<HubName> parse_hub_name(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return error(Code::invalid_argument, "'{}' is no name on a hub ({}): want org/name, org/name:revision or org/name/file.gguf",
                 shown_name(text), why);
  };
  const size_t slash = text.find('/');
  if (slash == text.npos) return refuse("it has no slash");
  const size_t end = std::min(text.find_first_of(":/", slash + 1), text.size());
  HubName name;
  if (!is_repo_part(text.substr(0, slash)) || !is_repo_part(text.substr(slash + 1, end - slash - 1))) {
    return refuse("letters, digits, - _ and . make a repository's name");
  }
  name.repo = text.substr(0, end);
  std::string_view rest = text.substr(end);
  if (rest.starts_with(':')) {
    const size_t stop = std::min(rest.find('/'), rest.size());
    name.revision = decode_slashes(rest.substr(1, stop - 1));
    if (!is_revision(name.revision)) return refuse("the revision is not one");
    rest.remove_prefix(stop);
  }
  if (rest.empty()) return name;
  name.file = rest.substr(1);
  if (!is_safe_repo_path(name.file)) return refuse("the file's path is not plain");
  return name;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_safe_repo_path(std::string_view path) {
  constexpr size_t kMaxLength = 1024, kMaxComponent = 255, kMaxDepth = 16;
  if (path.empty() || path.size() > kMaxLength) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 32 || c == 127 || c == '\\') return false;
  }
  size_t depth = 0;
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view component = path.substr(0, end);
    if (component.empty() || component == "." || component == ".." || component.size() > kMaxComponent) return false;
    if (++depth > kMaxDepth) return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

std::string SplitName::shard(int number) const { return fmt::format("{}-{:05}-of-{:05}.gguf", base, number, count); }

std::optional<SplitName> parse_split_name(std::string_view file) {
  constexpr std::string_view kPattern = "-#####-of-#####.gguf";
  if (file.size() <= kPattern.size()) return std::nullopt;
  const std::string_view tail = file.substr(file.size() - kPattern.size());
  for (size_t i = 0; i < tail.size(); ++i) {
    if (kPattern[i] == '#' ? tail[i] < '0' || tail[i] > '9' : tail[i] != kPattern[i]) return std::nullopt;
  }
  const auto number = [&](size_t at) {
    int value = 0;
    for (const char c : tail.substr(at, 5)) value = value * 10 + (c - '0');
    return value;
  };
  SplitName name{std::string(file.substr(0, file.size() - tail.size())), number(1), number(10)};
  constexpr int kMaxShards = 1000;
  if (name.index < 1 || name.index > name.count || name.count > kMaxShards) return std::nullopt;
  return name;
}

}  // namespace headrace::io

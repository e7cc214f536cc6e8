#include "text/wordpiece.h"

#include <algorithm>

namespace headrace::text {
namespace {

bool continues_char(char c) {
  return (static_cast<uint8_t>(c) & 0xC0) == 0x80;
}

Status no_unknown_token(std::string_view word) {
  return make_status(Code::malformed, "encode: \"{}\" is not in the vocabulary, which has no unknown token",
                     word.substr(0, 80));
}

}  // namespace

WordPiece::WordPiece(const Vocabulary& vocabulary, Options options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    longest_token_ = std::max(longest_token_, vocabulary_.text(id).size());
  }
}

Status WordPiece::tokenize(std::string_view word, std::vector<Token>& out) const {
  const auto length = static_cast<uint32_t>(word.size());
  const auto unknown = [&]() -> Status {
    if (options_.unk_id < 0) return no_unknown_token(word);
    out.push_back({options_.unk_id, 0, length});
    return {};
  };
  const size_t num_chars = word.size() - std::count_if(word.begin(), word.end(), continues_char);
  if (num_chars > options_.max_chars) return unknown();
  const size_t first = out.size();
  std::string spelling;
  for (uint32_t begin = 0; begin < length;) {
    // No token is longer than the longest, prefix and all.
    uint32_t end = static_cast<uint32_t>(std::min<size_t>(length, begin + longest_token_));
    while (end < length && end > begin && continues_char(word[end])) --end;
    int32_t id = -1;
    for (; end > begin; --end) {
      if (end < length && continues_char(word[end])) continue;
      spelling = begin > 0 ? options_.continuing_prefix : std::string();
      spelling += word.substr(begin, end - begin);
      id = vocabulary_.find(spelling);
      if (id >= 0) break;
    }
    if (id < 0) {
      out.resize(first);
      return unknown();
    }
    out.push_back({id, begin, end});
    begin = end;
  }
  return {};
}

Status WordLevel::tokenize(std::string_view word, std::vector<Token>& out) const {
  const int32_t id = vocabulary_.find(word);
  if (id < 0 && unk_id_ < 0) return no_unknown_token(word);
  out.push_back({id >= 0 ? id : unk_id_, 0, static_cast<uint32_t>(word.size())});
  return {};
}

}  // namespace headrace::text

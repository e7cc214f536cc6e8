#include "text/decoder.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace headrace::text {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size()) {
    out += text.substr(at, found - at);
    out += to;
  }
  out += text.substr(at);
  return out;
}

class ByteLevel final : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string bytes;
    for (std::string& piece : pieces) bytes += bytes_of(std::move(piece));
    pieces.assign(1, to_valid_utf8(bytes));
  }
  std::string bytes_of(std::string piece) const override {
    if (auto bytes = spelled_bytes(piece)) return *std::move(bytes);
    return piece;
  }
};

class Replace final : public Decoder {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) piece = replace_all(piece, from_, to_);
  }
  std::string bytes_of(std::string piece) const override { return replace_all(piece, from_, to_); }

 private:
  std::string from_, to_;
};

class ReplaceRegex final : public Decoder {
 public:
  ReplaceRegex(Regex from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) piece = bytes_of(std::move(piece));
  }
  // A piece on which the expression back-tracks too long stays as it is.
  std::string bytes_of(std::string piece) const override {
    std::vector<Regex::Match> matches;
    if (!from_.find_all(piece, matches).ok()) return piece;
    std::string out;
    size_t at = 0;
    for (const auto& [begin, end] : matches) {
      out.append(piece, at, begin - at);
      out += to_;
      at = end;
    }
    return out.append(piece, at);
  }

 private:
  Regex from_;
  std::string to_;
};

// "<0x0A>" -> 10.
std::optional<char> byte_token(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                               : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

class ByteFallback final : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::vector<std::string> out;
    std::string bytes;
    // A run of bytes is text when it is UTF-8 as a whole, else one U+FFFD a byte.
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes)) {
        out.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back(kReplacementUtf8);
      }
      bytes.clear();
    };
    for (std::string& piece : pieces) {
      if (const auto byte = byte_token(piece)) {
        bytes += *byte;
      } else {
        flush();
        out.push_back(std::move(piece));
      }
    }
    flush();
    pieces = std::move(out);
  }
  std::string bytes_of(std::string piece) const override {
    if (const auto byte = byte_token(piece)) return std::string(1, *byte);
    return piece;
  }
};

class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    pieces.assign(1, std::move(all));
  }
  std::string bytes_of(std::string piece) const override { return piece; }
};

class Strip final : public Decoder {
 public:
  Strip(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) {
      size_t begin = 0, end = piece.size();
      for (size_t i = 0; i < start_ && std::string_view(piece).substr(begin).starts_with(content_); ++i) {
        begin += content_.size();
      }
      for (size_t i = 0; i < stop_ && end >= begin + content_.size() &&
                         std::string_view(piece).substr(0, end).ends_with(content_);
           ++i) {
        end -= content_.size();
      }
      piece = piece.substr(begin, end - begin);
    }
  }
  // It follows a Fuse: only the whole text's ends are stripped.
  std::string bytes_of(std::string piece) const override { return piece; }

 private:
  std::string content_;
  size_t start_, stop_;
};

class Metaspace final : public Decoder {
 public:
  Metaspace(std::string replacement, bool strips_first)
      : replacement_(std::move(replacement)), strips_first_(strips_first) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      // In the first piece the library drops every replacement character, not only the prefix.
      pieces[i] = replace_all(pieces[i], replacement_, i == 0 && strips_first_ ? "" : " ");
    }
  }
  std::string bytes_of(std::string piece) const override { return replace_all(piece, replacement_, " "); }

 private:
  std::string replacement_;
  bool strips_first_;
};

// Spaces that tokens brought before punctuation and English endings.
std::string clean_up(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> rows[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : rows) text = replace_all(text, from, to);
  return text;
}

class WordPiece final : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) pieces[i] = joined(std::move(pieces[i]));
      if (cleanup_) pieces[i] = clean_up(std::move(pieces[i]));
    }
  }
  std::string bytes_of(std::string piece) const override {
    piece = joined(std::move(piece));
    return cleanup_ ? clean_up(std::move(piece)) : piece;
  }

 private:
  std::string joined(std::string piece) const {
    return piece.starts_with(prefix_) ? piece.substr(prefix_.size()) : " " + piece;
  }
  std::string prefix_;
  bool cleanup_;
};

class BpeSuffix final : public Decoder {
 public:
  explicit BpeSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = replace_all(pieces[i], suffix_, i + 1 == pieces.size() ? "" : " ");
    }
  }
  std::string bytes_of(std::string piece) const override { return replace_all(piece, suffix_, " "); }

 private:
  std::string suffix_;
};

// Connectionist temporal classification: of equal neighbours one stays, padding goes.
class Ctc final : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& pieces) const override {
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    for (std::string& piece : pieces) piece = bytes_of(std::move(piece));
    std::erase(pieces, std::string());
  }
  std::string bytes_of(std::string piece) const override {
    piece = replace_all(piece, pad_, "");
    return cleanup_ ? replace_all(clean_up(std::move(piece)), delimiter_, " ") : piece;
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

}  // namespace

DecoderPtr decode_byte_level() {
  return std::make_unique<ByteLevel>();
}
DecoderPtr decode_replace(std::string from, std::string to) {
  return std::make_unique<Replace>(std::move(from), std::move(to));
}
DecoderPtr decode_replace_regex(Regex from, std::string to) {
  return std::make_unique<ReplaceRegex>(std::move(from), std::move(to));
}
DecoderPtr decode_ctc(std::string pad, std::string delimiter, bool cleanup) {
  return std::make_unique<Ctc>(std::move(pad), std::move(delimiter), cleanup);
}
DecoderPtr decode_byte_fallback() {
  return std::make_unique<ByteFallback>();
}
DecoderPtr decode_fuse() {
  return std::make_unique<Fuse>();
}
DecoderPtr decode_strip(std::string content, size_t start, size_t stop) {
  return std::make_unique<Strip>(std::move(content), start, stop);
}
DecoderPtr decode_metaspace(std::string replacement, bool strips_first) {
  return std::make_unique<Metaspace>(std::move(replacement), strips_first);
}
DecoderPtr decode_wordpiece(std::string prefix, bool cleanup) {
  return std::make_unique<WordPiece>(std::move(prefix), cleanup);
}
DecoderPtr decode_bpe(std::string suffix) {
  return std::make_unique<BpeSuffix>(std::move(suffix));
}

}  // namespace headrace::text

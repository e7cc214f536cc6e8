// `headrace tokenize`: standard input to ids, as the `tokenizers` library gives them. Special tokens written in the
// text are recognised; the post-processor's tokens (BOS and the like) are added, truncation and padding done. And back.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/open_tokenizer.h"
#include "cli/options.h"
#include "cli/resolve_model.h"
#include "text/utf8.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace tokenize - turn standard input into token ids\n\n"
    "Prints the ids of the whole input on one line. With --jsonl each input line is a JSON string and\n"
    "each output line an object: {\"ids\": [...], \"offsets\": [[begin, end], ...]}, where offsets count\n"
    "Unicode code points of the text, as the Python library `tokenizers` does. A line that is a list of\n"
    "ids gives their text: {\"text\": ..., \"without_special\": ...}. What a tokenizer.json says of truncation\n"
    "and padding is done here, for prompts it is not.";
constexpr std::string_view kExamples =
    "  echo -n 'What is a mill race?' | headrace tokenize model.gguf\n"
    "  echo '\"Hello\\nworld\"' | headrace tokenize model.gguf --jsonl\n"
    "  headrace tokenize ./folder < book.txt | wc -w        # a folder with a tokenizer.json; count tokens\n";

// Byte ranges as ranges of code points; a range that begins or ends inside a code point covers it whole.
nlohmann::json code_point_offsets(std::string_view text, const std::vector<text::ByteRange>& ranges) {
  std::vector<uint32_t> starts_before(text.size() + 1);  // code points that start before byte i
  uint32_t count = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(1, text::decode_utf8(text.substr(i)).length);
    starts_before[i] = count++;
    for (size_t j = i + 1; j < i + length; ++j) starts_before[j] = count;
    i += length;
  }
  starts_before[text.size()] = count;
  const auto starts_at = [&](uint32_t byte) {
    return byte < text.size() && (text[byte] & 0xC0) == 0x80 ? starts_before[byte] - 1 : starts_before[byte];
  };
  nlohmann::json offsets = nlohmann::json::array();
  for (const text::ByteRange& range : ranges) {
    const bool empty = range.begin == range.end;
    offsets.push_back({starts_at(range.begin), empty ? starts_at(range.begin) : starts_before[range.end]});
  }
  return offsets;
}

constexpr text::EncodeOptions kAsTheLibrary{.limits = true};

Status tokenize_whole(const text::Tokenizer& tokenizer) {
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  HR_ASSIGN_OR_RETURN(const text::Encoding encoding, tokenizer.encode(text, kAsTheLibrary));
  fmt::print("{}\n", fmt::join(encoding.ids, " "));
  return {};
}

// One line's answer. `value` is a string or a list of ids.
Result<nlohmann::json> answer(const text::Tokenizer& tokenizer, const nlohmann::json& value) {
  if (value.is_array()) {
    std::vector<int32_t> ids;
    for (const nlohmann::json& id : value) {
      if (!id.is_number_integer()) return error(Code::malformed, "want ids, got {}", id.dump());
      const auto wide = id.get<int64_t>();
      ids.push_back(wide < 0 || wide > INT32_MAX ? -1 : static_cast<int32_t>(wide));
    }
    return nlohmann::json{{"text", tokenizer.decode(ids, false)}, {"without_special", tokenizer.decode(ids, true)}};
  }
  if (!value.is_string()) {
    return error(Code::malformed, "want a JSON string such as \"text\" or a list of ids, got {}",
                 value.is_discarded() ? "what is not JSON" : value.type_name());
  }
  const std::string& text = value.get_ref<const std::string&>();
  HR_ASSIGN_OR_RETURN(const text::Encoding encoding, tokenizer.encode(text, kAsTheLibrary));
  return nlohmann::json{{"ids", encoding.ids}, {"offsets", code_point_offsets(text, encoding.offsets)}};
}

Status tokenize_lines(const text::Tokenizer& tokenizer) {
  std::string line;
  for (uint64_t number = 1; std::getline(std::cin, line); ++number) {
    auto out = answer(tokenizer, nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
    if (!out) return out.error().with_context(fmt::format("standard input, line {}", number));
    fmt::print("{}\n", out->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);  // a program that sends line by line waits for each answer
  }
  return {};
}

}  // namespace

Status tokenize_command(const std::vector<std::string>& args) {
  Options options("tokenize", kAbout, kExamples);
  std::string model;
  bool jsonl = false;
  options.positional(model, "MODEL", std::string(kModelHelp) + "; or a tokenizer.json");
  options.flag(jsonl, "--jsonl", "Each line in is a JSON string or a list of ids, each line out an object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const std::string path, resolve_model(model));
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer, open_tokenizer(path));
  std::ios::sync_with_stdio(false);
  return jsonl ? tokenize_lines(*tokenizer) : tokenize_whole(*tokenizer);
}

}  // namespace headrace::cli

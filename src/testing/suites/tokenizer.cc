// Suite `tokenizer`: text -> ids -> text, with tokenizer.json files of the suite and of data/tokenizers.
#include "text/tokenizer.h"

#include <fmt/core.h>
#include <zlib.h>

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

#include "testing/case_suite.h"

namespace headrace::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// gzread reads plain files as they are.
std::string read_file(const fs::path& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path.string() + ": cannot be read");
  std::string out;
  char buffer[1 << 16];
  int got = 0;
  while ((got = gzread(file, buffer, sizeof buffer)) > 0) out.append(buffer, got);
  gzclose(file);
  if (got < 0) throw std::runtime_error(path.string() + ": damaged gzip data");
  return out;
}

fs::path tokenizer_file(const CaseContext& context) {
  const json& where = context.input.at("tokenizer");
  if (where.contains("file")) return context.suite_dir / where.at("file").get<std::string>();
  const fs::path folder = context.shared_dir / where.at("data").get<std::string>();
  const fs::path plain = folder / "tokenizer.json";
  return fs::exists(plain) ? plain : folder / "tokenizer.json.gz";
}

// Loading a large vocabulary takes longer than all its cases.
const Result<std::unique_ptr<text::Tokenizer>>& load(const fs::path& path) {
  static std::map<std::string, Result<std::unique_ptr<text::Tokenizer>>> loaded;
  const auto found = loaded.find(path.string());
  if (found != loaded.end()) return found->second;
  return loaded.emplace(path.string(), text::Tokenizer::from_tokenizer_json(read_file(path))).first->second;
}

CaseResult compare(const json& got, const json& want) {
  if (got == want) return CaseResult::pass();
  return CaseResult::fail(fmt::format("want {}, got {}", want.dump(), got.dump()));
}

}  // namespace

CaseResult run_tokenizer(const CaseContext& context) {
  const auto& tokenizer = load(tokenizer_file(context));
  if (!tokenizer) return CaseResult::fail(tokenizer.error().to_string());
  const json& in = context.input;
  if (in.at("op") == "decode") {
    const auto ids = in.at("ids").get<std::vector<int32_t>>();
    return compare({{"text", (*tokenizer)->decode(ids, in.at("skip_special_tokens").get<bool>())}},
                   context.expected);
  }
  const std::string text = in.at("text").get<std::string>(), pair = in.value("pair", std::string());
  text::EncodeOptions options{.add_special_tokens = in.at("add_special_tokens").get<bool>()};
  if (in.contains("pair")) options.pair = pair;
  const auto encoding = (*tokenizer)->encode(text, options);
  if (!encoding) return CaseResult::fail(encoding.error().to_string());
  json got = {{"ids", encoding->ids},
              {"decoded", (*tokenizer)->decode(encoding->ids, false)},
              {"decoded_skip_special", (*tokenizer)->decode(encoding->ids, true)}};
  if (!encoding->type_ids.empty()) got["type_ids"] = encoding->type_ids;
  return compare(got, context.expected);
}

}  // namespace headrace::testing

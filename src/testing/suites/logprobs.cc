// Suite `logprobs`: pieces -> the lists of /v1/completions and the bytes of /v1/chat/completions, through the server's own
// formats; logits -> the best ids, through every kernel of the op.
#include "ops/logprobs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/op_table.h"
#include "server/answer_format.h"
#include "testing/case_suite.h"
#include "testing/op_case_data.h"

namespace headrace::testing {
namespace {

using nlohmann::json;
using engine::TokenLogprob;

// A tokenizer whose id i stands for pieces[i].
class PieceTokenizer final : public text::Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  Result<text::Encoding> encode(std::string_view, const text::EncodeOptions&) const override {
    return error(Code::unsupported, "pieces have no encoder");
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += pieces_[static_cast<size_t>(id)];
    return text;
  }
  std::string token_bytes(int32_t id) const override { return pieces_[static_cast<size_t>(id)]; }
  std::string token_text(int32_t id) const override { return token_bytes(id); }
  bool is_special(int32_t) const override { return false; }
  int32_t token_id(std::string_view) const override { return -1; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  int32_t bos_id() const override { return -1; }
  int32_t eos_id() const override { return -1; }

 private:
  const std::vector<std::string> pieces_;
};

std::vector<TokenLogprob> unscored(size_t first, size_t count) {
  std::vector<TokenLogprob> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = {.id = static_cast<int32_t>(first + i), .logprob = -1};
  return tokens;
}

CaseResult compare(const json& got, const json& expected) {
  if (got == expected) return CaseResult::pass();
  return CaseResult::fail(fmt::format("want {}, got {}", expected.dump(), got.dump()));
}

// The lists of an answer that comes whole, or of a stream's events joined.
CaseResult run_completion(const json& in, const json& expected) {
  const auto prompt = in.at("prompt_pieces").get<std::vector<std::string>>();
  const auto output = in.at("output_pieces").get<std::vector<std::string>>();
  std::vector<std::string> pieces = prompt;
  pieces.insert(pieces.end(), output.begin(), output.end());
  const PieceTokenizer tokenizer(pieces);

  server::CompletionPrompt before;
  if (in.at("echo")) {
    for (const std::string& piece : prompt) before.echo_text += piece;
    before.echo_tokens = unscored(0, prompt.size());
  } else {
    for (const std::string& piece : prompt) before.offsets.next(piece);
  }
  const auto format = server::make_completion_format({.logprobs = true, .tokenizer = &tokenizer}, {before});
  std::vector<std::string> answers;
  if (in.contains("chunks")) {
    answers.push_back(format->opening(0));
    size_t at = prompt.size();
    for (const size_t count : in["chunks"].get<std::vector<size_t>>()) {
      answers.push_back(format->event({.logprobs = unscored(at, count)}));
      at += count;
    }
  } else {
    answers.push_back(format->whole({{.logprobs = unscored(prompt.size(), output.size())}}, {}));
  }

  json tokens = json::array(), offsets = json::array(), logprobs = json::array();
  for (const std::string& answer : answers) {
    const json lists = json::parse(answer).at("choices").at(0).at("logprobs");
    tokens.insert(tokens.end(), lists["tokens"].begin(), lists["tokens"].end());
    offsets.insert(offsets.end(), lists["text_offset"].begin(), lists["text_offset"].end());
    logprobs.insert(logprobs.end(), lists["token_logprobs"].begin(), lists["token_logprobs"].end());
  }
  size_t nulls = 0;
  while (nulls < logprobs.size() && logprobs[nulls].is_null()) ++nulls;
  return compare({{"tokens", tokens}, {"text_offset", offsets}, {"leading_nulls", nulls}}, expected);
}

// The logits in two rows: `chosen` as what was sampled, and as the target beside another sample.
std::string check_top(const Kernel& kernel, const CaseData& data, int32_t chosen, const json& expected) {
  const Result<std::vector<HostTensor>> outputs = output_tensors(data, data.inputs);
  if (!outputs) return outputs.error().to_string();
  const KernelMemory memory(data, kernel, data.inputs, *outputs, {});
  TeamState state(1);
  Team team(state, 0);
  kernel.run({}, memory.args(), team);
  const std::vector<double> logprob = memory.output(0).values, top_id = memory.output(1).values;
  const std::vector<double> top_logprob = memory.output(2).values;
  for (int row = 0; row < 2; ++row) {
    std::vector<std::pair<double, double>> got;
    for (size_t i = size_t(row) * ops::kMaxLogprobs; i < size_t(row + 1) * ops::kMaxLogprobs && top_id[i] >= 0; ++i) {
      got.emplace_back(top_id[i], top_logprob[i]);
    }
    const bool listed = std::any_of(got.begin(), got.end(), [&](const auto& entry) { return entry.first == chosen; });
    if (!listed) got.emplace_back(chosen, logprob[row]);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-5; };
    bool equal = near(logprob[row], expected.at("logprob")) && got.size() == expected.at("top").size();
    for (size_t i = 0; equal && i < got.size(); ++i) {
      const json& want = expected["top"][i];
      equal = got[i].first == want[0].get<double>() && near(got[i].second, want[1]);
    }
    if (equal) continue;
    return fmt::format("kernel {}: want {}, got logprob {} and {} entries", kernel.name, expected.dump(), logprob[row],
                       got.size());
  }
  return {};
}

CaseResult run_top(const json& in, const json& expected) {
  const auto logits = in.at("logits").get<std::vector<double>>();
  const int32_t chosen = in.at("chosen");
  const double other = chosen == 0 ? 1 : 0, wanted = in.at("n");
  CaseInput rows{.dims = {2, static_cast<int64_t>(logits.size())}, .values = logits};
  rows.values.insert(rows.values.end(), logits.begin(), logits.end());
  const auto column = [](double first, double second) {
    return CaseInput{.dtype = DType::i32, .dims = {2}, .values = {first, second}};
  };
  const OpCase declared{.name = "suite",
                        .attrs = ops::LogprobsAttrs{},
                        .inputs = {std::move(rows), column(chosen, other), column(-1, chosen), column(wanted, wanted)}};
  const Result<CaseData> data = make_case_data(ops::logprobs, declared);
  if (!data) return CaseResult::fail(data.error().to_string());
  for (const Kernel* kernel : kernels_of(ops::logprobs)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    if (const std::string what = check_top(*kernel, *data, chosen, expected); !what.empty()) return CaseResult::fail(what);
  }
  return CaseResult::pass();
}

CaseResult run_bytes(const json& in, const json& expected) {
  const std::string hex = in.at("piece");
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  const PieceTokenizer tokenizer({bytes});
  const auto format = server::make_chat_format({.logprobs = true, .tokenizer = &tokenizer});
  const json answer = json::parse(format->whole({{.logprobs = unscored(0, 1)}}, {}));
  return compare({{"bytes", answer["choices"][0]["logprobs"]["content"][0]["bytes"]}}, expected);
}

}  // namespace

CaseResult run_logprobs(const CaseContext& context) {
  const std::string op = context.input.at("op");
  if (op == "completion") return run_completion(context.input, context.expected);
  if (op == "top") return run_top(context.input, context.expected);
  if (op == "bytes") return run_bytes(context.input, context.expected);
  return CaseResult::not_covered("op " + op);
}

}  // namespace headrace::testing

// `headrace perplexity`: how well a model predicts a text.
#include "engine/perplexity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "engine/scorer.h"
#include "io/mapped_file.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace perplexity - measure how well a model predicts a text\n\n"
    "exp of the mean negative log-probability of a token, with its standard error; lower is better, and only values of\n"
    "one vocabulary, one text and one context compare. The text (less a line break at its end) is cut as llama.cpp's\n"
    "llama-perplexity does by default: chunks of --context consecutive tokens, the rest dropped; BOS in place of the\n"
    "first token of each chunk if the vocabulary adds BOS; the second half of each chunk is scored. Special tokens\n"
    "written in the text are plain text. The steps are those that serve.";
constexpr std::string_view kExamples =
    "  headrace perplexity smollm2 --text book.txt\n"
    "  headrace perplexity smollm2 --text book.txt --weights q4_0      # what rounding to 4 bits costs\n"
    "  headrace perplexity model.gguf --text book.txt --exact --json\n";

struct PerplexityCommand {
  ModelOptions model;
  std::string text;
  int64_t context = 512;
  bool json = false;
};

Result<std::unique_ptr<engine::Scorer>> open_scorer(const PerplexityCommand& command) {
  HR_ASSIGN_OR_RETURN(const std::string path, resolve_model(command.model.path));
  ProgressBar bar("loading");
  engine::ServingOptions serving = command.model.serving;
  serving.progress = [&bar](double fraction, std::string_view what) { bar.update(fraction, what); };
  return engine::Scorer::open(path, serving, command.context);
}

struct Tokens {
  std::vector<int32_t> ids;
  int32_t bos_id = -1;
};
Result<Tokens> encode(std::string_view text, const text::Tokenizer& tokenizer) {
  HR_ASSIGN_OR_RETURN(text::Encoding encoding, tokenizer.encode(text, {.special = text::SpecialTokens::nowhere}));
  HR_ASSIGN_OR_RETURN(const text::Encoding frame, tokenizer.encode(""));
  const bool adds_bos = !frame.ids.empty() && frame.ids.front() == tokenizer.bos_id();
  return Tokens{std::move(encoding.ids), adds_bos ? tokenizer.bos_id() : -1};
}

Status run(const PerplexityCommand& command) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(command.text));
  std::string_view text = file.text();
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return make_status(Code::invalid_argument, "--text {}: the file is empty", printable(command.text));
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Scorer> scorer, open_scorer(command));
  HR_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, scorer->tokenizer());
  HR_ASSIGN_OR_RETURN(const Tokens tokens, encode(text, *tokenizer));
  const TimePoint start = Clock::now();
  engine::Perplexity result;
  {
    const InterruptGuard guard(InterruptGuard::Mode::once);
    ProgressBar bar("scoring");
    engine::PerplexityOptions options{.context = command.context, .bos_id = tokens.bos_id};
    options.progress = [&bar](const engine::Perplexity& so_far, int64_t num_chunks) {
      bar.update(static_cast<double>(so_far.chunks) / static_cast<double>(num_chunks),
                 fmt::format("{} of {} chunks, perplexity {:.4f}", so_far.chunks, num_chunks, so_far.value));
      return !InterruptGuard::interrupted();
    };
    HR_ASSIGN_OR_RETURN(result, engine::perplexity(tokens.ids, options, [&](std::span<const int32_t> ids, int64_t first) {
                          return scorer->score(ids, first);
                        }));
  }
  const double seconds = seconds_between(start, Clock::now());
  const double per_second = static_cast<double>(result.chunks * command.context) / seconds;
  if (command.json) {
    const nlohmann::ordered_json out = {{"model", command.model.path},
                                        {"text", command.text},
                                        {"text_tokens", tokens.ids.size()},
                                        {"context", command.context},
                                        {"chunks", result.chunks},
                                        {"scored_tokens", result.scored_tokens},
                                        {"perplexity", result.value},
                                        {"standard_error", result.standard_error},
                                        {"mean_nll", result.mean_nll},
                                        {"seconds", seconds},
                                        {"tokens_per_s", per_second}};
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return {};
  }
  fmt::print("{:.4f} +/- {:.4f}\n", result.value, result.standard_error);
  note("[{} chunks of {} tokens, {} tokens scored; {:.1f} s, {:.1f} tokens/s]\n", result.chunks, command.context,
             result.scored_tokens, seconds, per_second);
  return {};
}

}  // namespace

Status perplexity_command(const std::vector<std::string>& args) {
  Options options("perplexity", kAbout, kExamples);
  PerplexityCommand command;
  command.model.declare_model(options);
  options.text(command.text, "--text", "FILE", "The text, UTF-8");
  options.integer(command.context, "--context", "N", "Tokens of a chunk (512)", 4, 1 << 20);
  options.flag(command.json, "--json", "Print one JSON object");
  command.model.declare_engine(options, {"--max-context", "--max-seqs", "--max-batched-tokens", "--max-queue", "--kv-tokens"});
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (command.text.empty()) return make_status(Code::invalid_argument, "--text: want the name of a file to score");
  return run(command);
}

}  // namespace headrace::cli

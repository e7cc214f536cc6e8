// `headrace run`: one answer, or a chat.
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/answer.h"
#include "cli/chat.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "text/utf8.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace run - answer a prompt, or chat\n\n"
    "Streams the answer to standard output, then one line of figures to standard error: prompt tokens,\n"
    "time to the first token (TTFT), time per further token (TPOT), tokens per second, peak memory.\n"
    "Without a PROMPT it opens a chat. Temperature 0, the default, always picks the likeliest token.";
constexpr std::string_view kExamples =
    "  headrace run model.gguf \"What is a mill race?\"\n"
    "  headrace run model.gguf                                     # a chat; /help lists its commands\n"
    "  headrace run model.gguf \"Write a poem.\" --temperature 0.8 --seed 7 --max-tokens 100\n"
    "  headrace run model.gguf \"Once upon a time\" --raw            # continue a text, no chat template\n"
    "  headrace run model.gguf - < question.txt                    # the prompt from standard input\n"
    "  headrace run model.gguf \"Hi\" --json                         # one object: ids, text, figures\n"
    "Next: headrace serve MODEL answers over HTTP; headrace bench MODEL measures speed.\n";

struct RunOptions {
  ModelOptions model;
  AnswerOptions answer;
  std::string prompt, system;
  int64_t max_tokens = 512, top_k = 0, seed = 0;
  double temperature = 0, top_p = 1, min_p = 0, typical_p = 1;
  double repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  bool raw = false, json = false;

  void declare(Options& options) {
    model.declare_model(options);
    options.positional(prompt, "PROMPT", "What to answer; - reads it from standard input; none opens a chat", false);
    options.text(system, "--system", "S", "What the model is told about its role");
    options.integer(max_tokens, "--max-tokens", "N", "The longest answer in tokens (512)", 1, 1 << 24);
    options.number(temperature, "--temperature", "T", "0: the likeliest token; higher: more varied (0)", 0, 2);
    options.number(top_p, "--top-p", "P", "Draw from the likeliest tokens that together have this probability (1)", 0, 1);
    options.number(min_p, "--min-p", "P", "Draw from tokens this likely, relative to the likeliest (0)", 0, 1);
    options.integer(top_k, "--top-k", "K", "Draw from the K likeliest tokens; 0: from all (0)", 0, 1 << 24);
    options.number(typical_p, "--typical-p", "P", "Draw from the most typical tokens of this probability in all (1)", 0, 1);
    options.number(repetition_penalty, "--repetition-penalty", "R",
                   "More than 1: tokens of the prompt and the answer become less likely (1)", 0.01, 100);
    options.number(frequency_penalty, "--frequency-penalty", "F",
                   "Take F from a token's score for each time that the answer has it (0)", -2, 2);
    options.number(presence_penalty, "--presence-penalty", "F",
                   "Take F from the score of tokens that the answer has (0)", -2, 2);
    options.integer(seed, "--seed", "S", "The same seed gives the same answer (0)", 0,
                    std::numeric_limits<int64_t>::max());
    options.texts(answer.stop, "--stop", "TEXT", "End the answer before this text; may be repeated");
    options.flag(raw, "--raw", "Skip the chat template: continue the prompt as it stands");
    options.flag(answer.allow_special, "--allow-special",
                 "Recognise special tokens written in messages: whoever writes them can then speak as anybody");
    options.flag(json, "--json", "Print one JSON object instead of the streamed text");
    model.declare_engine(options, {"--max-seqs", "--max-queue"});
  }
};

Status check_text(std::string_view what, const std::string& text) {
  if (text::is_valid_utf8(text)) return {};
  return make_status(Code::invalid_argument, "{}: want valid UTF-8, got bytes that are not", what);
}

Status check(RunOptions& run, const Options& options) {
  if (options.given("PROMPT")) {
    if (run.prompt == "-") run.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    if (run.prompt.empty()) return make_status(Code::invalid_argument, "PROMPT: want some text, got none");
    HR_RETURN_IF_ERROR(check_text("PROMPT", run.prompt));
  } else if (run.json) {
    return make_status(Code::invalid_argument, "--json: want a PROMPT to answer; a chat has no JSON form");
  }
  HR_RETURN_IF_ERROR(check_text("--system", run.system));
  if (run.raw && !run.system.empty()) {
    return make_status(Code::invalid_argument, "--system: it is the chat template that says it, and --raw skips that");
  }
  if (run.top_p == 0) return make_status(Code::invalid_argument, "--top-p: want a number above 0, got 0");
  if (run.typical_p == 0) return make_status(Code::invalid_argument, "--typical-p: want a number above 0, got 0");
  for (const std::string& stop : run.answer.stop) {
    if (stop.empty()) return make_status(Code::invalid_argument, "--stop: want some text, got none");
    HR_RETURN_IF_ERROR(check_text("--stop", stop));
  }
  if (run.raw && run.answer.allow_special) {
    return make_status(Code::invalid_argument, "--allow-special: --raw recognises special tokens in any case");
  }
  run.answer.starts_text = !run.raw;
  run.answer.max_tokens = static_cast<int32_t>(run.max_tokens);
  run.answer.sampling = {.temperature = static_cast<float>(run.temperature),
                         .top_p = static_cast<float>(run.top_p),
                         .min_p = static_cast<float>(run.min_p),
                         .top_k = static_cast<int32_t>(run.top_k),
                         .typical_p = static_cast<float>(run.typical_p),
                         .repetition_penalty = static_cast<float>(run.repetition_penalty),
                         .frequency_penalty = static_cast<float>(run.frequency_penalty),
                         .presence_penalty = static_cast<float>(run.presence_penalty),
                         .seed = static_cast<uint64_t>(run.seed)};
  return {};
}

std::string to_json(const Answer& answer, const runtime::RunnerMemory& memory) {
  const nlohmann::ordered_json out = {{"prompt_tokens", answer.timing.prompt_tokens},
                                      {"completion_tokens", answer.token_ids.size()},
                                      {"token_ids", answer.token_ids},
                                      {"text", answer.text},
                                      {"finish_reason", engine::finish_reason_name(answer.finish)},
                                      {"ttft_ms", answer.timing.ttft_ms()},
                                      {"tpot_ms", answer.timing.tpot_ms()},
                                      {"tokens_per_s", answer.timing.tokens_per_s()},
                                      {"peak_rss_bytes", peak_rss_bytes()},
                                      {"peak_device_bytes", memory.peak}};
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Status answer_once(engine::ServingModel& model, const RunOptions& run) {
  HR_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                      run.raw ? model.encode_raw(run.prompt)
                              : model.encode_chat(one_turn(run.system, run.prompt), {.allow_special = run.answer.allow_special}));
  const InterruptGuard guard(InterruptGuard::Mode::once);
  HR_ASSIGN_OR_RETURN(const Answer reply, answer(model, std::move(prompt), run.answer, !run.json));
  if (run.json) {
    fmt::print("{}\n", to_json(reply, model.engine().memory()));
  } else {
    if (!reply.text.ends_with('\n')) fmt::print("\n");
    std::fflush(stdout);
    note("[{}]\n", figures_line(reply.timing));
  }
  if (reply.finish == engine::FinishReason::abort && std::ferror(stdout) == 0) {
    return make_status(Code::cancelled, "stopped");
  }
  return {};
}

}  // namespace

Status run_command(const std::vector<std::string>& args) {
  Options options("run", kAbout, kExamples);
  RunOptions run;
  run.model.serving.config.max_seqs = 1;
  run.declare(options);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  HR_RETURN_IF_ERROR(check(run, options));
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::ServingModel> model, open_model(run.model));
  if (!model->has_tokenizer()) {
    return make_status(Code::not_found, "{}: no vocabulary in the file, and no tokenizer.json beside it", run.model.path);
  }
  if (!options.given("PROMPT")) return chat(*model, run.answer, run.system, run.raw);
  return answer_once(*model, run);
}

}  // namespace headrace::cli

#include "testing/tiny_engine.h"

#include <algorithm>

#include "base/check.h"
#include "io/model_source.h"
#include "runtime/local_runner.h"
#include "testing/golden.h"

namespace headrace::testing {
namespace {

std::string list_difference(const std::vector<engine::TokenLogprob>& got, const std::vector<engine::TokenLogprob>& wanted, bool whole) {
  if (whole ? got.size() != wanted.size() : got.size() > wanted.size()) {
    return fmt::format("{} log-probabilities, want {}", got.size(), wanted.size());
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].id == wanted[i].id && got[i].logprob == wanted[i].logprob && got[i].top == wanted[i].top) continue;
    return fmt::format("log-probability {}: id {} {:a}, want id {} {:a}", i, got[i].id, got[i].logprob, wanted[i].id, wanted[i].logprob);
  }
  return {};
}

}  // namespace

std::unique_ptr<engine::Engine> open_tiny_engine(const TinyEngineOptions& options) {
  const auto source = io::ModelSource::open(golden_path(options.checkpoint));
  CHECK(source.has_value());
  runtime::RunnerOptions runner_options;
  runner_options.model_name = options.checkpoint;
  runner_options.policy = options.policy;
  runner_options.isa = options.isa;
  runner_options.skip_passes = options.skip_passes;
  runner_options.row_invariant = options.row_invariant;
  runner_options.max_seqs = static_cast<int32_t>(options.config.max_seqs);
  runner_options.max_tokens = static_cast<int32_t>(options.config.max_batched_tokens);
  runner_options.kv_tokens = options.kv_tokens;
  const auto queue = options.queue != nullptr ? options.queue : std::make_shared<runtime::DeviceQueue>(options.threads, 0);
  auto runner = runtime::LocalRunner::open(**source, queue, runner_options);
  CHECK(runner.has_value());
  return std::make_unique<engine::Engine>(std::move(*runner), options.config, options.eos_ids);
}

Answer answer_of(const CollectingSink& sink, int32_t choices) {
  Answer answer;
  for (int32_t choice = 0; choice < choices; ++choice) {
    answer.choices.push_back({sink.tokens(choice), sink.logprobs(choice), sink.end_token(choice), sink.finish(choice)});
  }
  answer.prompt_logprobs = sink.prompt_logprobs();
  answer.cached_tokens = sink.last_event().timing.cached_tokens;
  return answer;
}

Answer ask(engine::Engine& engine, const engine::Request& request) {
  const auto sink = std::make_shared<CollectingSink>(request.n);
  const auto id = engine.submit(request, sink);
  CHECK(id.has_value() && sink->wait());
  return answer_of(*sink, request.n);
}

std::string difference(const Answer& got, const Answer& wanted, bool whole) {
  if (got.choices.size() != wanted.choices.size()) return fmt::format("{} choices, want {}", got.choices.size(), wanted.choices.size());
  for (size_t i = 0; i < got.choices.size(); ++i) {
    const Answer::Choice &g = got.choices[i], &w = wanted.choices[i];
    const std::string in_choice = fmt::format("choice {}: ", i);
    const size_t same = static_cast<size_t>(std::ranges::mismatch(g.tokens, w.tokens).in1 - g.tokens.begin());
    if (same < g.tokens.size() || (whole && g.tokens.size() != w.tokens.size())) {
      return fmt::format("{}token {} of {} differs, want {} tokens", in_choice, same, g.tokens.size(), w.tokens.size());
    }
    if (std::string text = list_difference(g.logprobs, w.logprobs, whole); !text.empty()) return in_choice + text;
    if (whole && (g.finish != w.finish || g.end_token != w.end_token)) {
      return fmt::format("{}ended with {}, want {}", in_choice, engine::finish_reason_name(g.finish), engine::finish_reason_name(w.finish));
    }
  }
  if (!whole && got.prompt_logprobs.empty()) return {};
  const std::string text = list_difference(got.prompt_logprobs, wanted.prompt_logprobs, true);
  return text.empty() ? text : "prompt: " + text;
}

}  // namespace headrace::testing

#include "testing/compose.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "testing/tiny_engine.h"

namespace headrace::testing {
namespace {

using engine::Request;

constexpr int32_t kPromptTokens = 40, kMaxTokens = 24, kChunk = 16;

// What a pair asks for: the request, the model, and what happens around it.
struct Setting {
  Request request;
  std::string checkpoint = "tiny_decoders/llama3_rope";
  DtypePolicy policy;
  bool repeat = false;   // it is sent twice; the second answer counts
  bool chunked = false;  // its prompt takes several steps
  bool rivals = false;   // others take its memory while it runs
};

struct Outcome {
  Answer answer;
  std::string refusal;
  uint64_t preemptions = 0;
  int largest_step = 0;  // tokens
};

struct Feature {
  const char* name;
  const char* how;
  // `without`: the answer to the request that lacks this feature alone.
  void (*ask)(Setting& setting, const Answer& without);
  // Whether it showed.
  bool (*showed)(const Setting& setting, const Outcome& outcome, const Answer& without);
};

bool changed(const Setting&, const Outcome& outcome, const Answer& without) { return !difference(outcome.answer, without).empty(); }

const Feature kFeatures[] = {
    {"prefix cache", "the request is repeated, and its prompt found (with prompt_logprobs: computed again)",
     [](Setting& s, const Answer&) { s.repeat = true; },
     [](const Setting& s, const Outcome& o, const Answer&) { return (o.answer.cached_tokens > 0) == (s.request.prompt_logprobs < 0); }},
    {"chunked prefill", "a prompt of 40 tokens in steps of 16", [](Setting& s, const Answer&) { s.chunked = true; },
     [](const Setting&, const Outcome& o, const Answer&) { return o.largest_step == kChunk; }},
    {"preemption", "requests of a better class take its memory", [](Setting& s, const Answer&) { s.rivals = true; },
     [](const Setting&, const Outcome& o, const Answer&) { return o.preemptions > 0; }},
    {"int8 KV", "--kv-dtype i8", [](Setting& s, const Answer&) { s.policy.kv = DType::i8; }, changed},
    {"n > 1", "three choices", [](Setting& s, const Answer&) { s.request.n = 3; },
     [](const Setting&, const Outcome& o, const Answer&) { return o.answer.choices.size() == 3; }},
    {"beam search", "the two best of three beams",
     [](Setting& s, const Answer&) {
       s.request.beam.width = 3;
       s.request.n = std::max(s.request.n, 2);
     },
     [](const Setting&, const Outcome& o, const Answer&) { return o.answer.choices[0].tokens != o.answer.choices[1].tokens; }},
    {"logprobs", "each token's and the four best",
     [](Setting& s, const Answer&) { s.request.logprobs = 4; },
     [](const Setting&, const Outcome& o, const Answer&) {
       const Answer::Choice& choice = o.answer.choices.back();
       return !choice.tokens.empty() && choice.logprobs.size() == choice.tokens.size() && choice.logprobs.back().top.size() >= 4;
     }},
    {"prompt_logprobs", "each prompt token's and the two best", [](Setting& s, const Answer&) { s.request.prompt_logprobs = 2; },
     [](const Setting& s, const Outcome& o, const Answer&) { return o.answer.prompt_logprobs.size() == s.request.prompt.size() - 1; }},
    {"penalties", "repetition, frequency and presence",
     [](Setting& s, const Answer&) {
       s.request.sampling.repetition_penalty = 2.0f;
       s.request.sampling.frequency_penalty = 2.0f;
       s.request.sampling.presence_penalty = 1.0f;
     },
     changed},
    {"seed", "temperature 5 and a seed",
     [](Setting& s, const Answer&) {
       s.request.sampling.temperature = 5.0f;
       s.request.sampling.seed = 12345;
     },
     changed},
    {"stop", "an id that the answer comes to",
     [](Setting& s, const Answer& without) { s.request.stop_token_ids.push_back(without.choices[0].tokens[5]); }, changed},
    {"min_tokens", "an id that ends the answer, and 12 tokens before it may",
     [](Setting& s, const Answer& without) {
       s.request.stop_token_ids.push_back(without.choices[0].tokens[0]);
       s.request.min_tokens = 12;
     },
     [](const Setting&, const Outcome& o, const Answer&) {
       return std::ranges::all_of(o.answer.choices, [](const Answer::Choice& choice) { return choice.tokens.size() >= 12; });
     }},
    {"window", "a model with layers that see few tokens and layers that see all",
     [](Setting& s, const Answer&) { s.checkpoint = "tiny_decoders/qwen2_window"; }, changed},
};

Setting plain_setting() {
  Setting setting;
  for (int32_t i = 0; i < kPromptTokens; ++i) setting.request.prompt.push_back((i * 11 + 5) % 61);
  setting.request.max_tokens = kMaxTokens;
  setting.request.sampling.temperature = 0;
  setting.request.priority = 1;
  setting.request.logprobs = 0;
  return setting;
}

class LargestStep final : public engine::EngineObserver {
 public:
  void on_step(double, int tokens, int) override { tokens_ = std::max(tokens_, tokens); }
  void on_finish(const engine::RequestTiming&, engine::FinishReason) override {}
  int tokens() const { return tokens_; }

 private:
  int tokens_ = 0;  // read once the engine is gone
};

// Starts something at its first event, between two steps.
class Starter final : public CollectingSink {
 public:
  Starter(int32_t choices, std::function<void()> start) : CollectingSink(choices), start_(std::move(start)) {}
  void on_event(engine::Event event) override {
    if (start_) std::exchange(start_, nullptr)();
    CollectingSink::on_event(std::move(event));
  }

 private:
  std::function<void()> start_;
};

// Four choices of a better class: they begin with 4 blocks and hold 8 after one token, 12 after 17.
Request rival() {
  Request request;
  for (int32_t i = 0; i < 15; ++i) request.prompt.push_back(i * 3 + 1);
  request.max_tokens = 40;
  request.n = 4;
  request.sampling.temperature = 20;  // no two alike, whose blocks would be one
  request.sampling.seed = 3;
  return request;
}

TinyEngineOptions engine_options(const Setting& setting) {
  TinyEngineOptions options{.checkpoint = setting.checkpoint, .policy = setting.policy};
  options.config.max_seqs = 8;
  return options;
}

Outcome run(const Setting& setting) {
  TinyEngineOptions options = engine_options(setting);
  options.threads = 2;
  if (setting.chunked) options.config.max_batched_tokens = kChunk;
  // As many blocks as the request may hold, and fewer than its rivals want beside that.
  const bool wide = setting.request.beam.width > 1;
  if (setting.rivals) options.kv_tokens = (wide ? 16 : 12) * kKvBlockTokens;
  const auto observer = std::make_shared<LargestStep>();
  Outcome outcome;
  {
    const std::unique_ptr<engine::Engine> engine = open_tiny_engine(options);
    engine->set_observer(observer);
    const auto sink = std::make_shared<CollectingSink>(setting.request.n);
    Result<engine::RequestId> id = 0;
    const auto send = [&](const std::shared_ptr<CollectingSink>& to) { id = engine->submit(setting.request, to); };
    if (setting.repeat) {
      const auto first = std::make_shared<CollectingSink>(setting.request.n);
      send(first);
      CHECK(!id || first->wait());
    }
    if (setting.rivals) {
      const auto others = std::make_shared<Starter>(4, [&] { send(sink); });
      CHECK(engine->submit(rival(), others).has_value() && others->wait());
    } else {
      send(sink);
    }
    if (!id) {
      outcome.refusal = id.error().message();
      return outcome;
    }
    CHECK(sink->wait());
    outcome.answer = answer_of(*sink, setting.request.n);
    outcome.preemptions = engine->stats().preemptions;
  }
  outcome.largest_step = observer->tokens();
  return outcome;
}

// The same request alone, on one thread, in one chunk, with nothing cached.
Answer reference(const Setting& setting) { return ask(*open_tiny_engine(engine_options(setting)), setting.request); }

Pair run_pair(const Feature& first, const Feature& second, const Answer& nothing) {
  Pair pair{first.name, second.name, {}, {}};
  Setting only_first = plain_setting(), only_second = plain_setting();
  first.ask(only_first, nothing);
  second.ask(only_second, nothing);
  const Answer without_second = reference(only_first), without_first = reference(only_second);
  Setting both = plain_setting();
  first.ask(both, without_first);
  second.ask(both, without_second);
  const Outcome outcome = run(both);
  if (!outcome.refusal.empty()) {
    pair.refusal = outcome.refusal;
    return pair;
  }
  pair.failure = difference(outcome.answer, reference(both));
  if (!pair.failure.empty()) return pair;
  if (!first.showed(both, outcome, without_first)) pair.failure = fmt::format("{} did not show", first.name);
  if (!second.showed(both, outcome, without_second)) pair.failure = fmt::format("{} did not show", second.name);
  return pair;
}

}  // namespace

std::vector<Pair> run_pairs() {
  const Answer nothing = reference(plain_setting());
  std::vector<Pair> pairs;
  for (const Feature& first : kFeatures) {
    for (const Feature* second = &first + 1; second != std::end(kFeatures); ++second) pairs.push_back(run_pair(first, *second, nothing));
  }
  return pairs;
}

std::string composition_page(const std::vector<Pair>& pairs) {
  std::string page =
      "# What goes together\n\n"
      "Every pair of these features was run on a tiny checkpoint; its tokens and log-probabilities were, bit for bit, those of the same\n"
      "request alone on one thread, in one chunk, with nothing cached, and both features showed. A number: the pair has no meaning, and\n"
      "the request is refused with the message below. `testing_slow_test` runs the pairs and compares this page, which it writes with\n"
      "`HEADRACE_WRITE_DOCS=1`.\n\n| |";
  std::vector<std::string> refusals;
  for (const Feature& column : kFeatures) page += fmt::format(" {} |", column.name);
  page += "\n|---|";
  for (size_t i = 0; i < std::size(kFeatures); ++i) page += "---|";
  for (const Feature& row : kFeatures) {
    page += fmt::format("\n| **{}** |", row.name);
    for (const Feature& column : kFeatures) {
      const auto pair = std::ranges::find_if(pairs, [&](const Pair& p) { return p.first == row.name && p.second == column.name; });
      std::string cell;
      if (pair != pairs.end() && pair->refusal.empty()) cell = pair->failure.empty() ? "yes" : "FAILED";
      if (pair != pairs.end() && !pair->refusal.empty()) {
        refusals.push_back(pair->refusal);
        cell = fmt::format("{}", refusals.size());
      }
      page += fmt::format(" {} |", cell);
    }
  }
  page += "\n\n";
  for (size_t i = 0; i < refusals.size(); ++i) page += fmt::format("{}. {}\n", i + 1, refusals[i]);
  page += "\n| feature | as it was asked for |\n|---|---|\n";
  for (const Feature& feature : kFeatures) page += fmt::format("| {} | {} |\n", feature.name, feature.how);
  return page;
}

}  // namespace headrace::testing

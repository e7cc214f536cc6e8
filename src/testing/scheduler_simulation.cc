#include "testing/scheduler_simulation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "engine/step_builder.h"

namespace headrace::testing {
namespace {

using engine::PrefixCache;
using engine::ScheduledSequence;
using engine::Sequence;
using engine::SequencePtr;
using engine::SequenceState;

uint64_t weak_hash(uint64_t parent, PrefixCache::Tokens tokens, std::string_view key) {
  return PrefixCache::chain_hash(parent, tokens, key) % 16;
}

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        random_(options.seed),
        runner_(options.model),
        capacity_(runner_.limits().groups, options.limits.max_batched_tokens),
        blocks_(runner_.limits().groups, options.limits.max_batched_tokens, options.weak_hash ? weak_hash : PrefixCache::chain_hash),
        scheduler_(blocks_, options.limits) {}

  SimulationReport run() {
    // Long enough for every sequence left to run alone, twice over.
    const int64_t patience = options_.num_steps + 1000 + 2 * options_.num_steps * (options_.max_answer + options_.max_prompt);
    while (ok() && report_.steps < patience && (report_.steps < options_.num_steps || !live_.empty() || !in_flight_.empty())) {
      if (report_.steps < options_.num_steps && chance(options_.arrivals_per_step)) arrive();
      abort_some();
      submit();
      if (ok() && !in_flight_.empty()) retire();
      ++report_.steps;
      note(scheduler_.check());
    }
    if (ok() && !live_.empty()) fail(fmt::format("{} sequences never ended", live_.size()));
    if (ok() && blocks_.num_blocks_used() != blocks_.num_blocks_cached()) fail("a block did not come back");
    blocks_.clear_prefix_cache();
    if (ok() && blocks_.num_blocks_used() != 0) fail("a block did not come back from the prefix cache");
    report_.preemptions = scheduler_.num_preemptions();
    return report_;
  }

 private:
  struct InFlight {
    runtime::Ticket ticket;
    std::vector<ScheduledSequence> rows;
  };
  struct Live {
    std::vector<int32_t> expected;  // the whole sequence, prompt first
    int64_t arrived = 0;
  };

  bool ok() const { return report_.failure.empty(); }
  void fail(std::string why) {
    if (ok()) report_.failure = fmt::format("seed {} step {}: {}", options_.seed, report_.steps, why);
  }
  void note(const Status& status) {
    if (!status.ok()) fail(status.message());
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int32_t uniform(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

  std::vector<int32_t> random_prompt() {
    std::vector<int32_t> prompt(static_cast<size_t>(uniform(1, options_.max_prompt)));
    // Three families of beginnings, so that prefixes are shared and branch off at any token.
    const int32_t family = uniform(0, 2);
    const size_t common = static_cast<size_t>(uniform(0, options_.max_prompt));
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = i < common ? static_cast<int32_t>((i * 7 + static_cast<size_t>(family)) % 50) : uniform(0, 49);
    }
    return prompt;
  }

  void arrive() {
    const std::vector<int32_t> prompt = random_prompt();
    Sequence asked;
    asked.rank = {.priority = uniform(0, options_.priorities - 1), .request = next_request_++};
    asked.num_prompt_tokens = static_cast<int32_t>(prompt.size());
    const int64_t room = capacity_.tokens() - asked.num_prompt_tokens + 1;
    asked.max_tokens = static_cast<int32_t>(std::min<int64_t>(uniform(1, options_.max_answer), room));
    if (asked.max_tokens < 1) return;
    asked.sampling.temperature = chance(0.5) ? 0.0f : 0.5f + 0.1f * static_cast<float>(uniform(0, 9));
    asked.sampling.seed = random_();
    asked.cache_key = chance(0.1) ? "tenant" : "";
    asked.ids = prompt;
    const int32_t choices = uniform(1, options_.max_choices);
    SequencePtr leader;
    for (int32_t choice = 0; choice < choices; ++choice) {
      const auto sequence = std::make_shared<Sequence>(asked);
      sequence->rank.choice = choice;
      sequence->leader = leader;
      if (choice == 0) leader = sequence;
      Live& live = live_[sequence];
      live.arrived = report_.steps;
      live.expected = prompt;
      const FakeSampling sampling{.temperature = asked.sampling.temperature, .seed = asked.sampling.seed, .stream = choice};
      const auto answer = options_.model.answer(prompt, asked.max_tokens, sampling);
      live.expected.insert(live.expected.end(), answer.begin(), answer.end());
      scheduler_.add(sequence);
    }
  }

  void abort_some() {
    for (auto it = live_.begin(); it != live_.end();) {
      if (!chance(options_.abort_chance)) {
        ++it;
        continue;
      }
      scheduler_.finish(it->first);
      ++report_.aborted;
      it = live_.erase(it);
    }
  }

  void submit() {
    while (ok() && static_cast<int>(in_flight_.size()) <= options_.model.depth) {
      const auto rows = scheduler_.schedule();
      if (rows.empty()) break;
      check_rows(rows);
      blocks_.take_copies(copies_);
      builder_.build(++num_submitted_, rows, blocks_.num_groups(), copies_, plan_);
      const Result<runtime::Ticket> ticket = runner_.submit(plan_);
      if (!ticket) return fail(ticket.error().message());
      in_flight_.push_back({*ticket, {rows.begin(), rows.end()}});
    }
    if (in_flight_.empty() && !live_.empty()) fail("nothing advances though nothing is awaited");
  }

  void check_rows(std::span<const ScheduledSequence> rows) {
    int32_t tokens = 0;
    for (const ScheduledSequence& row : rows) tokens += row.count;
    if (tokens > options_.limits.max_batched_tokens) fail(fmt::format("{} tokens in a step", tokens));
    // Whoever stands first must not be held up.
    const SequencePtr& first = scheduler_.running().front();
    if (!first->fully_sampled() && std::ranges::find(rows, first, &ScheduledSequence::sequence) == rows.end()) {
      fail("the first running sequence does not advance");
    }
  }

  void retire() {
    const InFlight step = std::move(in_flight_.front());
    in_flight_.pop_front();
    const Result<runtime::StepResult> result = runner_.wait(step.ticket);
    if (!result) return fail(result.error().message());
    size_t sample = 0;
    for (const ScheduledSequence& row : step.rows) {
      sample += static_cast<size_t>(row.num_scored);
      const int32_t token = row.sample ? result->tokens[sample++] : 0;
      report_.tokens += row.count;
      if (!engine::Scheduler::is_current(row)) continue;
      scheduler_.complete(row);
      if (!row.sample) continue;
      scheduler_.append(row.sequence, token);
      judge(row.sequence, token);
    }
  }

  void judge(const SequencePtr& sequence, int32_t token) {
    const Live& live = live_.at(sequence);
    const size_t length = sequence->ids.size();
    const bool stopped = token == options_.model.eos_id;
    const std::span<const int32_t> known(sequence->ids.data(), stopped ? length - 1 : length);
    if (known.size() > live.expected.size() || !std::ranges::equal(known, std::span(live.expected).first(known.size()))) {
      return fail(fmt::format("request {} choice {}: token {} differs from a run alone", sequence->rank.request,
                              sequence->rank.choice, length - 1));
    }
    if (!stopped && length < static_cast<size_t>(sequence->num_prompt_tokens + sequence->max_tokens)) return;
    if (known.size() != live.expected.size()) return fail("an answer ended early");
    ++report_.finished;
    report_.cached_tokens += sequence->num_cached_tokens;
    report_.longest_wait_steps = std::max(report_.longest_wait_steps, report_.steps - live.arrived);
    scheduler_.finish(sequence);
    live_.erase(sequence);
  }

  struct ByRank {
    bool operator()(const SequencePtr& a, const SequencePtr& b) const { return a->rank < b->rank; }
  };

  const SimulationOptions options_;
  std::mt19937_64 random_;
  FakeRunner runner_;
  const engine::KvCapacity capacity_;
  engine::BlockManager blocks_;
  engine::Scheduler scheduler_;
  engine::StepBuilder builder_;
  std::vector<engine::BlockCopy> copies_;
  runtime::StepPlan plan_;
  std::map<SequencePtr, Live, ByRank> live_;
  std::deque<InFlight> in_flight_;
  uint64_t next_request_ = 1;
  uint64_t num_submitted_ = 0;
  SimulationReport report_;
};

}  // namespace

SimulationReport simulate_scheduler(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace headrace::testing

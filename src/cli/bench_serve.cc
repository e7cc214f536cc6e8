// `headrace bench serve`: a load on any OpenAI-compatible server. The load itself is load/; here are options, progress and
// output.
#include "cli/bench_serve.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "load/arrivals.h"
#include "load/client.h"
#include "load/prompts.h"
#include "load/report.h"
#include "load/sweep.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace bench serve - put a load on an OpenAI-compatible server and measure it\n\n"
    "Requests are streamed, and come at times of their own, whether the server keeps up or not (--rate), or as\n"
    "many at once as --concurrency says. Prompts are random words of the length that was asked, counted by the\n"
    "server's /tokenize where it has one. docs/load_testing.md defines every figure.";
constexpr std::string_view kExamples =
    "  headrace bench serve --url http://127.0.0.1:8000\n"
    "  headrace bench serve --url http://127.0.0.1:8000 --concurrency 16 --prompt-tokens 512 --output-tokens 128\n"
    "  headrace bench serve --url http://127.0.0.1:8000 --rate 4 --duration 60 --html report.html\n"
    "  headrace bench serve --url http://127.0.0.1:8000 --requests lengths.json --goal-ttft-ms 500 --goal-tpot-ms 50 --sweep\n"
    "  headrace bench serve --url http://127.0.0.1:8000 --endpoint chat --shared-prefix 1024 --prefixes 4\n";

constexpr double kAskSeconds = 60;  // for an answer before the load: a model's name, the tokens of a word

struct ServeBench {
  std::string url, model, endpoint = "completions", arrivals = "poisson", requests_file, json_file, html_file;
  std::optional<std::string> api_key;
  int64_t num_requests = 0, concurrency = 0, prompt_tokens = 256, output_tokens = 128, shared_prefix = 0, prefixes = 1;
  int64_t seed = 0, warmup = 0;
  double duration = 0, rate = load::Arrivals::kAtOnce, burstiness = 0.25, temperature = 0, timeout = 600, goal_share = 0.99;
  std::string extra_body;
  bool no_ignore_eos = false, sweep = false;
  load::Goal goal;
};

Status set_rate(std::string_view text, double& rate) {
  if (text == "inf") {
    rate = load::Arrivals::kAtOnce;
    return {};
  }
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || !(value > 0) || !(value <= 1e6)) {
    return make_status(Code::invalid_argument, "want inf or a number over 0, at most 1000000, got \"{}\"", printable(text));
  }
  rate = value;
  return {};
}

void declare(Options& options, ServeBench& bench) {
  options.heading("Server");
  options.text(bench.url, "--url", "URL", "The server, such as http://127.0.0.1:8000; https is not spoken");
  options.text(bench.model, "--model", "NAME", "Model to ask for (the first that the server lists)");
  options.custom("--api-key", "KEY", "Sent as a bearer token (OPENAI_API_KEY of the environment)",
                 [&bench](std::string_view key) -> Status {
                   bench.api_key = std::string(key);
                   return {};
                 });
  options.choice(bench.endpoint, "--endpoint", {"completions", "chat"}, "Which API is asked (completions)");
  options.text(bench.extra_body, "--extra-body", "JSON", "Fields added to every request; they replace those of the same name");

  options.heading("Load");
  options.integer(bench.num_requests, "--num-requests", "N",
                  "Requests in all (those of --requests, else 100; no bound with --duration)", 1, 100'000'000);
  options.number(bench.duration, "--duration", "S", "Send no request after S seconds; those under way may end", 0.001, 1e7);
  options.custom("--rate", "R|inf", "Requests a second in the mean; inf: all at once, as --concurrency lets them (inf)",
                 [&bench](std::string_view text) { return set_rate(text, bench.rate); });
  options.choice(bench.arrivals, "--arrivals", {"poisson", "constant", "burst"},
                 "Intervals: exponential, equal, or gamma (poisson)");
  options.number(bench.burstiness, "--burstiness", "G", "Shape of --arrivals burst: 1 is poisson, less comes in bunches (0.25)",
                 0.001, 1000);
  options.integer(bench.concurrency, "--concurrency", "N", "Requests under way at most (no limit)", 1, 1'000'000);
  options.integer(bench.warmup, "--warmup", "N", "Requests before the measurement, which are not counted (0)", 0, 1'000'000);
  options.number(bench.timeout, "--timeout", "S", "A request that has not ended by then has failed (600)", 0.001, 1e6);
  options.integer(bench.seed, "--seed", "S", "Of prompts and arrivals: the same seed sends the same (0)", 0, INT64_MAX);

  options.heading("Requests");
  options.integer(bench.prompt_tokens, "--prompt-tokens", "N", "Length of each prompt (256)", 1, 1 << 24);
  options.integer(bench.output_tokens, "--output-tokens", "N", "Length of each answer (128)", 1, 1 << 24);
  options.text(bench.requests_file, "--requests", "FILE", "Lengths instead: JSON with the lists `prompt` and `output`");
  options.integer(bench.shared_prefix, "--shared-prefix", "N", "Tokens before each prompt that others have too (0)", 0,
                  1 << 24);
  options.integer(bench.prefixes, "--prefixes", "K", "So many different ones, in turn (1)", 1, 1 << 16);
  options.number(bench.temperature, "--temperature", "T", "0 to 2; 0 takes the likeliest token (0)", 0, 2);
  options.flag(bench.no_ignore_eos, "--no-ignore-eos", "Let the model end answers early: `ignore_eos` is not sent");

  options.heading("Goal");
  options.number(bench.goal.ttft_ms, "--goal-ttft-ms", "MS", "Time to first token that a good request keeps", 0.001, 1e9);
  options.number(bench.goal.tpot_ms, "--goal-tpot-ms", "MS", "Time per output token after it", 0.001, 1e9);
  options.number(bench.goal.e2e_ms, "--goal-e2e-ms", "MS", "Time to the last token", 0.001, 1e9);
  options.flag(bench.sweep, "--sweep", "Find the highest rate at which the goal is met, by bisection; each point is one load");
  options.number(bench.goal_share, "--goal-share", "P", "Share of requests that must be good for it (0.99)", 0.001, 1);

  options.heading("Output");
  options.text(bench.json_file, "--json", "FILE", "Write the figures as JSON; - is standard output");
  options.text(bench.html_file, "--html", "FILE", "Write a page with plots");
}

Status check(const Options& options, ServeBench& bench) {
  const auto wrong = [](std::string_view what) { return make_status(Code::invalid_argument, "{}", what); };
  if (bench.url.empty()) return wrong("--url: name the server, such as --url http://127.0.0.1:8000");
  if (options.given("--requests") && (options.given("--prompt-tokens") || options.given("--output-tokens"))) {
    return wrong("--requests gives the lengths: leave out --prompt-tokens and --output-tokens");
  }
  if (options.given("--burstiness") && bench.arrivals != "burst") return wrong("--burstiness is of --arrivals burst");
  if (bench.sweep && !bench.goal.any()) return wrong("--sweep wants a goal: --goal-ttft-ms, --goal-tpot-ms or --goal-e2e-ms");
  if (bench.sweep && options.given("--rate")) return wrong("--sweep finds the rate: leave out --rate");
  const bool unbounded = bench.duration > 0 && bench.num_requests == 0 && !bench.sweep;
  if (unbounded && bench.rate == load::Arrivals::kAtOnce && bench.concurrency == 0) {
    return wrong("--duration without --rate wants --concurrency or --num-requests: requests without end would be sent at once");
  }
  return {};
}

class ServeRun {
 public:
  explicit ServeRun(ServeBench bench) : bench_(std::move(bench)) {}

  Status run() {
    HR_RETURN_IF_ERROR(prepare());
    const InterruptGuard guard(InterruptGuard::Mode::once);
    if (bench_.warmup > 0) {
      HR_ASSIGN_OR_RETURN(const load::LoadRun ignored, measure("warming up", load::Arrivals::kAtOnce, bench_.warmup, 0));
      if (ignored.interrupted) return make_status(Code::cancelled, "stopped before the measurement");
    }
    if (bench_.sweep) {
      HR_RETURN_IF_ERROR(run_sweep());
    } else {
      HR_ASSIGN_OR_RETURN(report_.run, measure("measuring", bench_.rate, count_, bench_.duration));
      report_.figures = load::figures_of(report_.run, bench_.goal);
    }
    HR_RETURN_IF_ERROR(write_reports());
    if (report_.figures.completed == 0) return nothing_completed();
    return {};
  }

 private:
  Status prepare() {
    HR_ASSIGN_OR_RETURN(endpoint_, load::parse_endpoint(bench_.url));
    const char* key = std::getenv("OPENAI_API_KEY");
    endpoint_.api_key = bench_.api_key.value_or(key != nullptr ? key : "");
    for (const char c : endpoint_.api_key) {
      if (static_cast<unsigned char>(c) <= 0x20)
        return make_status(Code::invalid_argument, "--api-key: a space or control character");
    }
    load::PromptOptions prompts;
    prompts.api = bench_.endpoint == "chat" ? load::Api::chat : load::Api::completions;
    prompts.lengths = {{static_cast<int32_t>(bench_.prompt_tokens)}, {static_cast<int32_t>(bench_.output_tokens)}};
    if (!bench_.requests_file.empty()) {
      HR_ASSIGN_OR_RETURN(prompts.lengths, load::read_lengths(bench_.requests_file));
    }
    count_ = bench_.num_requests;
    if (count_ == 0 && (bench_.duration <= 0 || bench_.sweep)) {
      count_ = bench_.requests_file.empty() ? 100 : static_cast<int64_t>(prompts.lengths.prompt.size());
    }
    if (bench_.model.empty()) {
      HR_ASSIGN_OR_RETURN(bench_.model, load::first_model(endpoint_, kAskSeconds));
    }
    prompts.model = bench_.model;
    prompts.shared_prefix = static_cast<int32_t>(bench_.shared_prefix);
    prompts.num_prefixes = static_cast<int32_t>(bench_.prefixes);
    prompts.temperature = bench_.temperature;
    prompts.ignore_eos = !bench_.no_ignore_eos;
    prompts.extra_body = bench_.extra_body;
    prompts.seed = static_cast<uint64_t>(bench_.seed);
    HR_ASSIGN_OR_RETURN(prompts_, load::Prompts::make(endpoint_, std::move(prompts), kAskSeconds));
    return {};
  }

  // Prompts of the warm-up are not those of the measurement: a prefix cache would know them. Each load goes on where the last
  // ended.
  Result<load::LoadRun> measure(const char* label, double rate, int64_t count, double duration) {
    const load::ArrivalKind kind = bench_.arrivals == "constant" ? load::ArrivalKind::constant
                                   : bench_.arrivals == "burst"  ? load::ArrivalKind::burst
                                                                 : load::ArrivalKind::poisson;
    load::Arrivals arrivals(kind, rate, bench_.burstiness, static_cast<uint64_t>(bench_.seed));
    int64_t sent = 0;
    ProgressBar bar(label);
    load::LoadOptions options;
    options.endpoint = endpoint_;
    options.path = load::path_of(bench_.endpoint == "chat" ? load::Api::chat : load::Api::completions);
    options.max_requests = count;
    options.duration_s = duration;
    options.concurrency = bench_.concurrency;
    options.timeout_s = bench_.timeout;
    options.next_arrival = [&arrivals] { return arrivals.next(); };
    options.request = [this, &sent](int64_t number) {
      sent = number + 1;
      number += next_number_;
      return load::Sending{prompts_->body(number), prompts_->prompt_tokens(number)};
    };
    options.cancelled = [] { return InterruptGuard::interrupted(); };
    options.progress = [&](const load::Progress& p) {
      double fraction = count > 0 ? static_cast<double>(p.ended) / static_cast<double>(count) : 0;
      if (duration > 0) fraction = std::max(fraction, p.seconds / duration);
      bar.update(fraction, fmt::format("{} of {} sent requests ended, {} failed, {:.0f} tokens/s", p.ended, p.sent, p.failed,
                                       p.seconds > 0 ? static_cast<double>(p.output_tokens) / p.seconds : 0.0));
    };
    auto run = load::run_load(options);
    next_number_ += sent;
    return run;
  }

  Status run_sweep() {
    load::SweepOptions options;
    options.share = bench_.goal_share;
    bool stopped = false, kept_met = false;
    double kept_rate = 0;
    const auto measure_rate = [&](double rate) -> Result<load::Figures> {
      HR_ASSIGN_OR_RETURN(load::LoadRun run, measure("sweeping", rate, count_, bench_.duration));
      stopped = run.interrupted;
      const load::Figures figures = load::figures_of(run, bench_.goal);
      const bool met = figures.good_share >= options.share;
      note("{:>12} requests/s: {:5.1f}% met the goal, goodput {:.2f}/s, TTFT p99 {:.1f} ms, TPOT p99 {:.2f} ms\n",
           std::isinf(rate) ? "all at once" : fmt::format("{:.3f}", rate), figures.good_share * 100, figures.goodput,
           figures.ttft_ms.p99, figures.tpot_ms.p99);
      // The run that is shown in full: at the best rate, or the lowest while none has met the goal.
      const bool better = met ? !kept_met || rate > kept_rate : !kept_met && (kept_rate == 0 || rate < kept_rate);
      if (better && (!stopped || kept_rate == 0)) {
        kept_rate = rate;
        kept_met = met;
        report_.figures = figures;
        report_.run = std::move(run);
      }
      return figures;
    };
    HR_ASSIGN_OR_RETURN(report_.sweep, load::sweep(options, measure_rate, [&stopped] { return stopped; }));
    return {};
  }

  void describe() {
    char date[32] = "";
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    if (::gmtime_r(&now, &utc) != nullptr) std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    report_.date = date;
    report_.goal = bench_.goal;
    report_.note = prompts_->note();
    const auto set = [this](const char* name, std::string value) { report_.config.emplace_back(name, std::move(value)); };
    set("url", bench_.url);
    set("model", bench_.model);
    set("endpoint", bench_.endpoint);
    set("prompts", load::prompt_kind_name(prompts_->kind()));
    if (count_ > 0) set("num_requests", std::to_string(count_));
    if (bench_.duration > 0) set("duration", fmt::format("{}", bench_.duration));
    set("rate", bench_.sweep ? "sweep" : std::isinf(bench_.rate) ? "inf" : fmt::format("{}", bench_.rate));
    set("arrivals", bench_.arrivals);
    if (bench_.arrivals == "burst") set("burstiness", fmt::format("{}", bench_.burstiness));
    set("concurrency", bench_.concurrency > 0 ? std::to_string(bench_.concurrency) : "no limit");
    if (bench_.requests_file.empty()) {
      set("prompt_tokens", std::to_string(bench_.prompt_tokens));
      set("output_tokens", std::to_string(bench_.output_tokens));
    } else {
      set("requests", bench_.requests_file);
    }
    if (bench_.shared_prefix > 0)
      set("shared_prefix", fmt::format("{} tokens, {} different", bench_.shared_prefix, bench_.prefixes));
    set("temperature", fmt::format("{}", bench_.temperature));
    set("ignore_eos", bench_.no_ignore_eos ? "false" : "true");
    if (!bench_.extra_body.empty()) set("extra_body", bench_.extra_body);
    set("warmup", std::to_string(bench_.warmup));
    set("timeout", fmt::format("{}", bench_.timeout));
    set("seed", std::to_string(bench_.seed));
    if (bench_.goal.any()) set("goal_share", fmt::format("{}", bench_.goal_share));
  }

  static Status write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return make_status(Code::resource_exhausted, "{}: cannot be written", path);
    return {};
  }

  Status write_reports() {
    describe();
    if (bench_.json_file == "-") {
      fmt::print("{}\n", load::report_json(report_));
    } else {
      print_text();
      if (!bench_.json_file.empty()) HR_RETURN_IF_ERROR(write_file(bench_.json_file, load::report_json(report_) + "\n"));
    }
    if (!bench_.html_file.empty()) HR_RETURN_IF_ERROR(write_file(bench_.html_file, load::report_html(report_)));
    return {};
  }

  void print_text() const {
    const load::Figures& f = report_.figures;
    const load::LoadRun& run = report_.run;
    fmt::print("{}, {} of {}: {} requests answered in {:.2f} s, {} failed{}\n", printable(bench_.url), bench_.endpoint,
               printable(bench_.model), f.completed, run.seconds, f.failed,
               run.interrupted ? fmt::format("; stopped, {} were under way", run.unfinished) : "");
    fmt::print("Prompts: {}{}; at most {} requests under way\n\n", load::prompt_kind_name(prompts_->kind()),
               report_.note.empty() ? "" : " (" + printable(report_.note) + ")", run.peak_concurrency);
    const auto line = [](const char* name, double value) { fmt::print("  {:<22} {:>10.2f}\n", name, value); };
    line("requests/s", f.requests_per_s);
    line("output tokens/s", f.output_tokens_per_s);
    line("total tokens/s", f.total_tokens_per_s);
    if (bench_.goal.any()) {
      line("goodput, requests/s", f.goodput);
      line("met the goal, %", f.good_share * 100);
    }
    fmt::print("\n  {:<22} {:>10} {:>10} {:>10} {:>10}\n", "", "mean", "p50", "p90", "p99");
    const auto row = [](const char* name, const load::Summary& s) {
      fmt::print("  {:<22} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, s.mean, s.p50, s.p90, s.p99);
    };
    row("TTFT, ms", f.ttft_ms);
    row("TPOT, ms", f.tpot_ms);
    row("inter-token, ms", f.itl_ms);
    row("E2E, ms", f.e2e_ms);
    if (!bench_.sweep && !std::isinf(bench_.rate)) row("sent late, ms", f.late_ms);
    fmt::print("\n{} prompt tokens, {} output tokens{}; client {:.1f}% of one core\n", f.prompt_tokens, f.output_tokens,
               f.counted_by_server ? "" : " (chunks were counted: the server says no usage)",
               run.seconds > 0 ? run.cpu_seconds / run.seconds * 100 : 0.0);
    for (int i = 1; i < load::kNumFailures; ++i) {
      const load::FailureCount& failure = run.failures[static_cast<size_t>(i)];
      if (failure.count == 0) continue;
      fmt::print("failed, {}: {}; the first: {}\n", load::failure_name(static_cast<load::Failure>(i)), failure.count,
                 printable(failure.example));
    }
    if (!report_.sweep) return;
    if (report_.sweep->best_rate > 0) {
      fmt::print("\nThe goal is met by {:g}% of the requests up to {:.3f} requests/s{}\n", bench_.goal_share * 100,
                 report_.sweep->best_rate,
                 report_.sweep->failed_rate > 0 ? fmt::format("; no longer at {:.3f}", report_.sweep->failed_rate)
                                                : "; the server answers no more a second, however many come");
    } else {
      fmt::print("\nThe goal was met at no rate that was tried\n");
    }
  }

  Status nothing_completed() const {
    for (const load::FailureCount& failure : report_.run.failures) {
      if (failure.count > 0)
        return make_status(Code::unavailable, "no request was answered; the first failed: {}", failure.example);
    }
    return make_status(Code::cancelled, "stopped before a request was answered");
  }

  ServeBench bench_;
  load::Endpoint endpoint_;
  std::unique_ptr<load::Prompts> prompts_;
  load::Report report_;
  int64_t count_ = 0;        // requests of one load; 0: no bound
  int64_t next_number_ = 0;  // of the next load's first prompt
};

}  // namespace

Status bench_serve(const std::vector<std::string>& args) {
  Options options("bench serve", kAbout, kExamples);
  ServeBench bench;
  declare(options, bench);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  HR_RETURN_IF_ERROR(check(options, bench));
  return ServeRun(std::move(bench)).run();
}

}  // namespace headrace::cli

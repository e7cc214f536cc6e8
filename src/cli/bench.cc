// `headrace bench`: prefill and decode speed of a model through the engine, beside what the machine can do at most.
// docs/metrics.md defines every figure.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench_requests.h"
#include "cli/bench_serve.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/roof_json.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAbout =
    "headrace bench - measure prefill and decode speed\n\n"
    "Prompts are made-up ids, answers are generated to full length whatever the model says. Each figure is the\n"
    "median of the repeats, with the least and the most; one more repeat comes first and is not counted.\n"
    "The bandwidth and arithmetic that the speed amounts to stand beside this machine's own, measured in the\n"
    "same run. With --requests, many requests of given lengths are there at once instead.\n"
    "headrace bench serve puts a load on a server: headrace bench serve --help.";
constexpr std::string_view kExamples =
    "  headrace bench model.gguf\n"
    "  headrace bench model.gguf --prompt-tokens 128 --gen-tokens 64 --batch 8 --threads 2\n"
    "  headrace bench ./folder --dummy-weights --json     # config.json alone; weights are random, seed 0\n"
    "  headrace bench model.gguf --isa generic            # without AVX2 and AVX-512\n"
    "  headrace bench model.gguf --requests lengths.json --max-seqs 32    # a day's requests, all at once\n"
    "  headrace bench serve --url http://127.0.0.1:8000   # a load on a running server\n"
    "Next: headrace roof shows the machine's own figures for every thread count and cache level.\n";

struct BenchOptions {
  ModelOptions model;
  int64_t prompt_tokens = 512, gen_tokens = 128, batch = 1, repeat = 5;
  bool json = false;
};

// When the tokens of one request came.
class Arrivals final : public engine::EventSink {
 public:
  void on_event(engine::Event event) override {
    const TimePoint now = Clock::now();
    const std::lock_guard lock(mutex_);
    times_.insert(times_.end(), event.tokens.size(), now);
    if (!event.last) return;
    status_ = std::move(event.status);
    timing_ = event.timing;
    ended_ = true;
    done_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return ended_; });
    return status_;
  }
  // After wait().
  const std::vector<TimePoint>& times() const { return times_; }
  const engine::RequestTiming& timing() const { return timing_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<TimePoint> times_;  // guarded by mutex_ until the end, like what follows
  Status status_;
  engine::RequestTiming timing_;
  bool ended_ = false;
};

// Any ids do: the work does not depend on them. A key of its own keeps a prompt out of every other's cached prefix.
engine::Request make_request(const BenchOptions& bench, int64_t vocab_size, int64_t max_tokens, int64_t number) {
  engine::Request request;
  request.prompt.resize(static_cast<size_t>(bench.prompt_tokens));
  uint64_t state = static_cast<uint64_t>(number) + 1;
  for (int32_t& id : request.prompt) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size));
  }
  request.max_tokens = static_cast<int32_t>(max_tokens);
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  request.cache_key = fmt::format("bench {}", number);
  return request;
}

Result<std::vector<std::shared_ptr<Arrivals>>> run_batch(engine::ServingModel& model, const BenchOptions& bench,
                                                         int64_t max_tokens, int64_t& next_number) {
  std::vector<engine::Request> requests;
  for (int64_t i = 0; i < bench.batch; ++i) {
    requests.push_back(make_request(bench, model.card().vocab_size, max_tokens, next_number++));
  }
  std::vector<std::shared_ptr<Arrivals>> arrivals;
  for (engine::Request& request : requests) {
    arrivals.push_back(std::make_shared<Arrivals>());
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const engine::RequestId id,
                        model.engine().submit(std::move(request), arrivals.back()));
  }
  for (const auto& arrival : arrivals) HR_RETURN_IF_ERROR(arrival->wait());
  return arrivals;
}

struct Sample {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0, ttft_ms = 0, tpot_ms = 0;
  double prefill_ms = 0;                    // first batch: to the last first token
  double first_tokens_ms = 0, total_ms = 0;  // second batch: to the last first token, to the last token of all
};

Result<Sample> measure_once(engine::ServingModel& model, const BenchOptions& bench, int64_t& next_number) {
  Sample sample;
  const double batch = static_cast<double>(bench.batch);
  // Prefill: from the first submission to the last first token, with nothing to decode in between.
  HR_ASSIGN_OR_RETURN(const auto prefills, run_batch(model, bench, 1, next_number));
  TimePoint begin = prefills.front()->timing().arrived, end = begin;
  for (const auto& p : prefills) {
    begin = std::min(begin, p->timing().arrived);
    end = std::max(end, p->timing().first_token);
    sample.ttft_ms += p->timing().ttft_ms() / batch;
  }
  sample.prefill_tokens_per_s = batch * static_cast<double>(bench.prompt_tokens) / seconds_between(begin, end);
  sample.prefill_ms = seconds_between(begin, end) * 1e3;
  if (bench.gen_tokens < 2) return sample;
  // Decode: from the moment when every sequence has its first token to the last token of all.
  HR_ASSIGN_OR_RETURN(const auto decodes, run_batch(model, bench, bench.gen_tokens, next_number));
  begin = end = decodes.front()->timing().first_token;
  TimePoint arrived = decodes.front()->timing().arrived;
  for (const auto& d : decodes) {
    arrived = std::min(arrived, d->timing().arrived);
    begin = std::max(begin, d->times().front());
    end = std::max(end, d->times().back());
    sample.tpot_ms += d->timing().tpot_ms() / batch;
  }
  double tokens = 0;
  for (const auto& d : decodes) {
    tokens += static_cast<double>(std::count_if(d->times().begin(), d->times().end(), [&](TimePoint t) { return t > begin; }));
  }
  sample.decode_tokens_per_s = tokens / seconds_between(begin, end);
  sample.first_tokens_ms = seconds_between(arrived, begin) * 1e3;
  sample.total_ms = seconds_between(arrived, end) * 1e3;
  return sample;
}

struct Spread {
  double median = 0, min = 0, max = 0;
};

Spread spread_of(const std::vector<Sample>& samples, double Sample::*field, double scale = 1) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field * scale);
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

struct Report {
  Spread prefill, decode, ttft, tpot;
  Spread prefill_tflops, decode_tflops, decode_gbps;
  std::vector<Sample> samples;
  std::optional<runtime::RoofRow> roof;  // none on a device: its memory is the model's now (`headrace roof --device`)
  int threads = 0;
  int64_t ready_unix_ms = 0;  // when the model could take requests
};

Report make_report(const std::vector<Sample>& samples, const engine::ModelCard& card, const BenchOptions& bench) {
  Report report;
  report.prefill = spread_of(samples, &Sample::prefill_tokens_per_s);
  report.decode = spread_of(samples, &Sample::decode_tokens_per_s);
  report.ttft = spread_of(samples, &Sample::ttft_ms);
  report.tpot = spread_of(samples, &Sample::tpot_ms);
  // A decode step reads the weights once for the whole batch, and each sequence's keys and values; the mean context is
  // that of the middle token.
  const double context = static_cast<double>(bench.prompt_tokens) + static_cast<double>(bench.gen_tokens) / 2;
  const double bytes_per_token = static_cast<double>(card.weight_bytes) / static_cast<double>(bench.batch) +
                                 static_cast<double>(card.kv_bytes_per_token) * context;
  report.decode_gbps = spread_of(samples, &Sample::decode_tokens_per_s, bytes_per_token * 1e-9);
  report.prefill_tflops = spread_of(samples, &Sample::prefill_tokens_per_s, card.flops_per_token * 1e-12);
  report.decode_tflops = spread_of(samples, &Sample::decode_tokens_per_s, card.flops_per_token * 1e-12);
  report.samples = samples;
  return report;
}

Json to_json(const Sample& s) {
  return {{"prefill_ms", s.prefill_ms}, {"first_tokens_ms", s.first_tokens_ms}, {"total_ms", s.total_ms}};
}
Json to_json(const Spread& spread) { return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}}; }

void print_json(const Report& report, const engine::ServingModel& model, const BenchOptions& bench, uint64_t device_peak) {
  const engine::ModelCard& card = model.card();
  Json out = {{"model", card.id},
              {"model_type", card.model_type},
              {"device", device_name(bench.model.serving.device)},
              {"isa", isa_name(bench.model.serving.isa)},
              {"threads", report.threads},
              {"activations", bench.model.serving.exact ? "f32" : "default"},
              {"dummy_weights", bench.model.serving.dummy_weights}};
  if (bench.model.serving.weights) out["weights"] = format_info(*bench.model.serving.weights).name;
  if (bench.model.serving.dummy_weights) {
    out["dummy_seed"] = 0;
    out["dummy_format"] = format_info(bench.model.serving.dummy_format).name;
  }
  out.update({{"prompt_tokens", bench.prompt_tokens},
              {"gen_tokens", bench.gen_tokens},
              {"batch", bench.batch},
              {"repeat", bench.repeat},
              {"prefill_tokens_per_s", to_json(report.prefill)},
              {"decode_tokens_per_s", to_json(report.decode)},
              {"ttft_ms", to_json(report.ttft)},
              {"tpot_ms", to_json(report.tpot)},
              {"prefill_tflop_per_s", to_json(report.prefill_tflops)},
              {"decode_tflop_per_s", to_json(report.decode_tflops)},
              {"decode_gb_per_s", to_json(report.decode_gbps)},
              {"samples", Json::array()},
              {"roof", report.roof ? Json::parse(roof_row_json(*report.roof)) : Json()},
              {"ready_unix_ms", report.ready_unix_ms},
              {"weight_bytes", card.weight_bytes},
              {"kv_bytes_per_token", card.kv_bytes_per_token},
              {"flops_per_token", card.flops_per_token},
              {"load_seconds", card.load_seconds},
              {"peak_rss_bytes", peak_rss_bytes()},
              {"peak_device_bytes", device_peak}});
  for (const Sample& sample : report.samples) out["samples"].push_back(to_json(sample));
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_roof(const runtime::RoofRow& roof, double decode_gbps, Isa isa) {
  const double memory = roof.memory_bytes_per_s() * 1e-9;
  fmt::print("\nThis machine, same threads: memory {:.1f} GB/s read", memory);
  if (memory > 0) fmt::print(" (decode is at {:.0f}%)", decode_gbps / memory * 100);
  if (const runtime::ArithmeticRate* peak = roof.find(isa)) {
    fmt::print("; {} peaks: f32 {:.3f} TFLOP/s", isa_name(peak->isa), peak->f32 * 1e-12);
    if (peak->bf16 > 0) fmt::print(", bf16 {:.3f} TFLOP/s", peak->bf16 * 1e-12);
    if (peak->int8 > 0) fmt::print(", int8 {:.3f} TOP/s", peak->int8 * 1e-12);
  }
}

void print_text(const Report& report, const engine::ServingModel& model, const BenchOptions& bench) {
  const engine::ModelCard& card = model.card();
  fmt::print("{}: {:.1f} million parameters, {:.1f} MB of weights, loaded in {:.2f} s\n"
             "{} on {} threads, {}; {} x {} prompt tokens, {} generated; {} repeats\n\n",
             printable(card.id), card.num_parameters * 1e-6, static_cast<double>(card.weight_bytes) * 1e-6,
             card.load_seconds, report.roof ? isa_name(bench.model.serving.isa) : device_name(bench.model.serving.device), report.threads,
             bench.model.serving.exact ? "float32 activations" : "default activations", bench.batch,
             bench.prompt_tokens, bench.gen_tokens, bench.repeat);
  fmt::print("  {:<22} {:>10} {:>10} {:>10}\n", "", "median", "min", "max");
  const auto line = [](const char* name, const Spread& s) {
    fmt::print("  {:<22} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, s.median, s.min, s.max);
  };
  line("prefill, tokens/s", report.prefill);
  line("decode, tokens/s", report.decode);
  line("TTFT, ms", report.ttft);
  line("TPOT, ms", report.tpot);
  line("prefill, TFLOP/s", report.prefill_tflops);
  line("decode, TFLOP/s", report.decode_tflops);
  line("decode, GB/s", report.decode_gbps);
  if (report.roof) print_roof(*report.roof, report.decode_gbps.median, bench.model.serving.isa);
  fmt::print("\nPeak memory {:.0f} MB\n", static_cast<double>(peak_rss_bytes()) * 1e-6);
}

// Options that belong to the other way of measuring are refused: ignored, they would mislead.
Status check_mode(const Options& options) {
  const bool requests = options.given("--requests");
  const std::vector<std::string_view> strange = requests ? std::vector<std::string_view>{"--prompt-tokens", "--gen-tokens", "--batch", "--repeat"}
                                                         : std::vector<std::string_view>{"--limit", "--static", "--max-seqs", "--max-context"};
  for (const std::string_view flag : strange) {
    if (!options.given(flag)) continue;
    return make_status(Code::invalid_argument, "{}: {}", flag, requests ? "--requests gives the lengths and their number" : "goes with --requests FILE");
  }
  if (options.given("--static") && (options.given("--max-seqs") || options.given("--max-context"))) {
    return make_status(Code::invalid_argument, "--static: a batch has its own size; leave out --max-seqs and --max-context");
  }
  return {};
}

}  // namespace

Status bench_command(const std::vector<std::string>& args) {
  if (!args.empty() && args.front() == "serve") return bench_serve({args.begin() + 1, args.end()});
  Options options("bench", kAbout, kExamples);
  BenchOptions bench;
  RequestsBench requests;
  bench.model.declare_model(options);
  options.integer(bench.prompt_tokens, "--prompt-tokens", "N", "Length of each prompt (512)", 1, 1 << 24);
  options.integer(bench.gen_tokens, "--gen-tokens", "N", "Tokens generated for each prompt (128)", 1, 1 << 24);
  options.integer(bench.batch, "--batch", "N", "Requests side by side (1)", 1, 4096);
  options.integer(bench.repeat, "--repeat", "N", "Measurements (5)", 1, 10'000);
  options.flag(bench.model.serving.dummy_weights, "--dummy-weights",
               "Random normal weights, seed 0: MODEL is a folder with config.json alone");
  options.custom("--dummy-format", "NAME", "Storage format of dummy weights: bf16, f16, q8_0, q4_0, q4_1 ... (bf16)",
                 [&bench](std::string_view name) -> Status {
                   const std::optional<Format> format = format_from_name(name);
                   if (!format) return make_status(Code::invalid_argument, "no such format: \"{}\"", printable(name));
                   bench.model.serving.dummy_format = *format;
                   return {};
                 });
  options.flag(bench.json, "--json", "Print one JSON object");
  options.heading("Requests of given lengths");
  options.text(requests.file, "--requests", "FILE", "All at once: JSON with the lists `prompt` and `output` of their lengths in tokens");
  options.integer(requests.limit, "--limit", "K", "The first K of them (all)", 1, 1 << 24);
  options.integer(requests.static_batch, "--static", "N", "Static left-padded batches of N instead of the engine, as a baseline", 1, 2048);
  bench.model.declare_engine(options, {"--max-queue"});
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  HR_RETURN_IF_ERROR(check_mode(options));
  // All requests are there at once: it is throughput that is asked for, unless the caller says otherwise.
  if (!options.given("--target-tpot-ms")) bench.model.serving.config.target_tpot_ms = 0;
  if (!requests.file.empty()) {
    requests.json = bench.json;
    return bench_requests(requests, std::move(bench.model));
  }
  engine::EngineConfig& config = bench.model.serving.config;
  config.max_seqs = bench.batch;
  config.max_context = bench.prompt_tokens + bench.gen_tokens;
  config.max_queue = std::max(config.max_queue, bench.batch);

  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::ServingModel> model, open_model(bench.model));
  const auto ready = std::chrono::system_clock::now().time_since_epoch();
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : usable_cpus();
  std::optional<runtime::RoofRow> roof;
  if (bench.model.serving.device.kind == DeviceKind::cpu) {
    constexpr int kRoofRepeats = 3;
    HR_ASSIGN_OR_RETURN(const runtime::RoofReport measured, measure_roof_with_progress(threads, kRoofRepeats));
    roof = measured.rows.back();
  }

  std::vector<Sample> samples;
  {
    ProgressBar bar("measuring");
    int64_t next_number = 0;
    for (int64_t i = 0; i <= bench.repeat; ++i) {
      bar.update(static_cast<double>(i) / static_cast<double>(bench.repeat + 1), "");
      HR_ASSIGN_OR_RETURN(const Sample sample, measure_once(*model, bench, next_number));
      if (i > 0) samples.push_back(sample);  // the first warms caches and plans
    }
  }
  Report report = make_report(samples, model->card(), bench);
  report.roof = std::move(roof);
  report.threads = threads;
  report.ready_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(ready).count();
  if (bench.json) {
    print_json(report, *model, bench, model->engine().memory().peak);
  } else {
    print_text(report, *model, bench);
  }
  return {};
}

}  // namespace headrace::cli

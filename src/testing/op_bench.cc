#include "testing/op_bench.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/clock.h"
#include "ops/device_plugin.h"
#include "ops/op_table.h"
#include "testing/op_case_data.h"

namespace headrace::testing {
namespace {

// Calls are timed in batches of about this, well above what the clock costs, or the launch of a graph.
constexpr double kBatchSeconds = 200e-6, kDeviceBatchSeconds = 5e-3;
constexpr int64_t kMaxGraphCalls = 2000;
constexpr size_t kPastCaches = 256u << 20;  // copies of the data together, when cold
constexpr int kMaxCopies = 512;
constexpr int kMinSamples = 7;

// The data of a case for one kernel; copies that pass the caches together, when cold.
using Copies = std::vector<std::unique_ptr<KernelMemory>>;
Copies make_copies(const CaseData& data, const Kernel& kernel, int threads, bool cold) {
  const Result<std::vector<HostTensor>> outputs = output_tensors(data, data.inputs);
  CHECK(outputs.has_value());
  const KernelMemory::Options options{.team_size = threads, .constants = true, .for_timing = true};
  Copies copies;
  size_t total = 0;
  do {
    copies.push_back(std::make_unique<KernelMemory>(data, kernel, data.inputs, *outputs, options));
    total += copies.back()->bytes();
  } while (cold && total < kPastCaches && static_cast<int>(copies.size()) < kMaxCopies);
  return copies;
}

// One case on one kernel and team, ready to run.
class Bench {
 public:
  Bench(const CaseData& data, const Kernel& kernel, int threads, bool cold)
      : kernel_(kernel), copies_(make_copies(data, kernel, threads, cold)) {}

  // Seconds of `calls` runs, with the barriers that the executor places.
  double time(const RunOnTeam& run_on_team, int64_t calls) {
    const int64_t first = next_copy_;
    next_copy_ += calls;
    const auto work = [&](Team& team) {
      for (int64_t call = 0; call < calls; ++call) {
        const KernelMemory& memory = *copies_[(first + call) % copies_.size()];
        kernel_.run(StepContext{}, memory.args(), team);
        team.barrier();
      }
    };
    const TimePoint start = Clock::now();
    if (kernel_.outside_team) {
      TeamState alone(1);
      Team team(alone, 0);
      work(team);
    } else {
      run_on_team(work);
    }
    return seconds_between(start, Clock::now());
  }

 private:
  const Kernel& kernel_;
  const Copies copies_;
  int64_t next_copy_ = 0;
};

// The same on device 0: calls are one captured graph.
class DeviceBench {
 public:
  DeviceBench(const DevicePlugin& plugin, const CaseData& data, const Kernel& kernel, bool cold)
      : plugin_(plugin), kernel_(kernel), copies_(make_copies(data, kernel, 1, cold)) {}
  DeviceBench(const DeviceBench&) = delete;
  DeviceBench& operator=(const DeviceBench&) = delete;
  ~DeviceBench() {
    if (graph_ != nullptr) plugin_.drop_graph(graph_);
    for (void* event : {begin_, end_}) {
      if (event != nullptr) plugin_.drop_event(event);
    }
    if (stream_ != nullptr) plugin_.drop_stream(0, stream_);
  }

  Status open() {
    if (!plugin_.make_stream(0, &stream_) || !plugin_.make_event(0, &begin_) || !plugin_.make_event(0, &end_)) return failed();
    run(0);  // loads the kernel, which a capture cannot
    return plugin_.synchronize(stream_) ? Status() : failed();
  }

  // Seconds of `calls` runs, by the device's clock.
  Result<double> time(int64_t calls) {
    if (calls != recorded_) HR_RETURN_IF_ERROR(record(calls));
    float ms = 0;
    const bool timed = plugin_.record_event(begin_, stream_) && plugin_.launch_graph(graph_, stream_) &&
                       plugin_.record_event(end_, stream_) && plugin_.wait_event(end_) && plugin_.elapsed_ms(begin_, end_, &ms);
    if (!timed) return tl::unexpected<Status>(failed());
    return ms * 1e-3;
  }

 private:
  void run(int64_t call) {
    TeamState alone(1);
    Team team(alone, 0);
    kernel_.run(StepContext{.stream = stream_}, copies_[static_cast<size_t>(call) % copies_.size()]->args(), team);
  }
  Status record(int64_t calls) {
    if (graph_ != nullptr) plugin_.drop_graph(std::exchange(graph_, nullptr));
    if (!plugin_.begin_capture(stream_)) return failed();
    for (int64_t call = 0; call < calls; ++call) run(call);
    if (!plugin_.end_capture(stream_, &graph_)) return failed();
    recorded_ = calls;
    return {};
  }
  Status failed() const { return make_status(Code::internal, "{}: {}", kernel_.name, plugin_.last_error()); }

  const DevicePlugin& plugin_;
  const Kernel& kernel_;
  const Copies copies_;
  void *stream_ = nullptr, *begin_ = nullptr, *end_ = nullptr, *graph_ = nullptr;
  int64_t recorded_ = 0;
};

// `time(calls)` gives the seconds of so many calls.
Status measure(const std::function<Result<double>(int64_t calls)>& time, double batch_seconds, int64_t max_calls, double seconds,
               BenchRow& row) {
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const double first, time(1));
  HR_ASSIGN_OR_RETURN(const double once, time(1));
  const auto calls = std::min(max_calls, static_cast<int64_t>(std::max(1.0, batch_seconds / std::max(once, 1e-8))));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const double warm, time(calls));
  std::vector<double> samples;
  const TimePoint start = Clock::now();
  while (static_cast<int>(samples.size()) < kMinSamples || seconds_between(start, Clock::now()) < seconds) {
    HR_ASSIGN_OR_RETURN(const double batch, time(calls));
    samples.push_back(batch / static_cast<double>(calls) * 1e6);
  }
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  row.samples = static_cast<int>(count);
  row.median_us = samples[count / 2];
  row.min_us = samples[0];
  row.spread = (samples[count * 9 / 10] - samples[count / 10]) / row.median_us;
  return {};
}

void fill_rates(const CaseData& data, const BenchOptions& options, BenchRow& row) {
  const Cost cost = data.op->cost({data.input_types, data.output_types, data.declared->attrs, Bindings()});
  row.gb_per_s = cost.bytes / row.median_us * 1e-3;
  row.tflop_per_s = cost.flops / row.median_us * 1e-6;
  if (options.roof_gb_per_s > 0) row.share_of_roof = row.gb_per_s / options.roof_gb_per_s;
  if (options.roof_tflop_per_s > 0)
    row.share_of_roof = std::max(row.share_of_roof, row.tflop_per_s / options.roof_tflop_per_s);
}

bool wanted(const Kernel& kernel, const CaseData& data, const BenchOptions& options) {
  if (kernel.device != options.device || kernel.isa > detect_isa()) return false;
  if (!options.isa.empty() && isa_name(kernel.isa) != options.isa) return false;
  return kernel.supports == nullptr ||
         kernel.supports(data.input_types, data.output_types, data.declared->attrs);
}

std::string_view isa_of(const Kernel& kernel) { return kernel.device == DeviceKind::cpu ? isa_name(kernel.isa) : "cuda"; }

// What a kernel's support line lists of a case: the weight's format, the pool's dtype, or the first input's
// dtype.
std::string_view kind_of(const CaseData& data) {
  for (const ValueType& type : data.input_types) {
    if (type.kind == ValueType::Kind::weight && type.shape.rank() == 2) return format_info(type.format).name;
    if (type.kind == ValueType::Kind::kv) return dtype_name(type.kv.dtype);
  }
  for (const ValueType& type : data.input_types) {
    if (type.kind == ValueType::Kind::weight) return format_info(type.format).name;
  }
  return dtype_name(data.input_types[0].dtype);
}

// How the kernel wants its weight matrices; empty for an op without weights.
std::string_view layout_name(const Op& op, const Kernel& kernel) {
  const std::vector<OpCase> cases = op.cases();
  if (cases.empty()) return "";
  for (const CaseInput& input : cases[0].inputs) {
    if (input.kind != ValueType::Kind::weight) continue;
    switch (kernel.layout) {
      case WeightLayout::row_major:
        return "row_major";
      case WeightLayout::dense_f32:
        return "dense_f32";
      case WeightLayout::tile16:
        return "tile16";
    }
  }
  return "";
}

Status measure_row(const BenchOptions& options, const CaseData& data, const Kernel& kernel,
                   const std::function<RunOnTeam(int threads)>& make_team, BenchRow& row) {
  if (kernel.device == DeviceKind::cuda) {
    HR_ASSIGN_OR_RETURN(const DevicePlugin* plugin, load_cuda_plugin());
    DeviceBench bench(*plugin, data, kernel, options.cold);
    HR_RETURN_IF_ERROR(bench.open());
    return measure([&](int64_t calls) { return bench.time(calls); }, kDeviceBatchSeconds, kMaxGraphCalls, options.seconds, row);
  }
  Bench bench(data, kernel, row.threads, options.cold);
  const RunOnTeam run_on_team = kernel.outside_team ? RunOnTeam() : make_team(row.threads);
  return measure([&](int64_t calls) -> Result<double> { return bench.time(run_on_team, calls); }, kBatchSeconds,
                 std::numeric_limits<int64_t>::max(), options.seconds, row);
}

}  // namespace

std::string BenchRow::to_json() const {
  return fmt::format(
      R"({{"op": "{}", "case": "{}", "phase": "{}", "kernel": "{}", "isa": "{}", "threads": {}, "samples": {}, )"
      R"("median_us": {:.3f}, "min_us": {:.3f}, "spread": {:.3f}, "gb_per_s": {:.2f}, "tflop_per_s": {:.4f}, "share_of_roof": {:.3f}}})",
      op, name, phase, kernel, isa, threads, samples, median_us, min_us, spread, gb_per_s, tflop_per_s,
      share_of_roof);
}

Status run_op_bench(const BenchOptions& options, const std::function<RunOnTeam(int threads)>& make_team,
                    const std::function<void(const BenchRow&)>& take) {
  bool any = false;
  for (const Op* op : all_ops()) {
    if (!options.op.empty() && op->name != options.op) continue;
    for (const OpCase& one : op->cases()) {
      if (!one.bench || one.name.find(options.case_filter) == std::string::npos) continue;
      if (!options.phase.empty() && one.phase != options.phase) continue;
      if (for_devices_alone(one) && options.device == DeviceKind::cpu) continue;
      HR_ASSIGN_OR_RETURN(const CaseData data, make_case_data(*op, one, /*host_values=*/false));
      for (const Kernel* kernel : kernels_of(*op)) {
        if (!wanted(*kernel, data, options)) continue;
        for (const int threads : options.device == DeviceKind::cpu ? options.threads : std::vector<int>{1}) {
          BenchRow row{std::string(op->name),
                       one.name,
                       one.phase,
                       std::string(kernel->name),
                       std::string(isa_of(*kernel)),
                       threads};
          HR_RETURN_IF_ERROR(measure_row(options, data, *kernel, make_team, row));
          fill_rates(data, options, row);
          take(row);
          any = true;
        }
      }
    }
  }
  if (any) return {};
  return make_status(Code::not_found, "no bench case for op \"{}\", case \"{}\", isa \"{}\" on this machine",
                     options.op, options.case_filter, options.isa);
}

std::string support_table() {
  std::string text =
      "| op | kernel | instruction set | weight layout | formats | row-invariant "
      "|\n|---|---|---|---|---|---|\n";
  for (const Op* op : all_ops()) {
    if (op->effects.view) {
      text += fmt::format("| `{}` | a view: no kernel | | | | |\n", op->name);
      continue;
    }
    std::map<const Kernel*, std::vector<std::string_view>> kinds;
    for (const OpCase& one : op->cases()) {
      if (one.bench) continue;
      const Result<CaseData> data = make_case_data(*op, one, /*host_values=*/false);
      if (!data) continue;
      for (const Kernel* kernel : kernels_of(*op)) {
        if (kernel->supports != nullptr &&
            !kernel->supports(data->input_types, data->output_types, one.attrs))
          continue;
        std::vector<std::string_view>& names = kinds[kernel];
        const std::string_view kind = kind_of(*data);
        if (std::find(names.begin(), names.end(), kind) == names.end()) names.push_back(kind);
      }
    }
    for (const Kernel* kernel : kernels_of(*op)) {
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op->name, kernel->name,
                          isa_of(*kernel), layout_name(*op, *kernel), fmt::join(kinds[kernel], ", "),
                          kernel->row_invariant ? "yes" : "no");
    }
  }
  return text;
}

}  // namespace headrace::testing

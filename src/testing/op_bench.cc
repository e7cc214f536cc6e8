#include "testing/op_bench.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "ops/op_table.h"
#include "testing/op_case_data.h"

namespace headrace::testing {
namespace {

constexpr double kBatchSeconds =
    200e-6;  // calls are timed in batches of about this, well above the clock's cost
constexpr size_t kPastCaches = 256u << 20;  // copies of the data together, when cold
constexpr int kMaxCopies = 512;
constexpr int kMinSamples = 7;

// One case on one kernel and team, ready to run.
class Bench {
 public:
  Bench(const CaseData& data, const Kernel& kernel, int threads, bool cold) : kernel_(kernel) {
    const Result<std::vector<HostTensor>> outputs = output_tensors(data, data.inputs);
    CHECK(outputs.has_value());
    size_t total = 0;
    do {
      copies_.push_back(std::make_unique<KernelMemory>(data, kernel, data.inputs, *outputs,
                                                       KernelMemory::Options{.team_size = threads, .constants = true}));
      total += copies_.back()->bytes();
    } while (cold && total < kPastCaches && static_cast<int>(copies_.size()) < kMaxCopies);
  }

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
  std::vector<std::unique_ptr<KernelMemory>> copies_;
  int64_t next_copy_ = 0;
};

void measure(Bench& bench, const RunOnTeam& run_on_team, double seconds, BenchRow& row) {
  bench.time(run_on_team, 1);
  const double once = std::max(bench.time(run_on_team, 1), 1e-8);
  const auto calls = static_cast<int64_t>(std::max(1.0, kBatchSeconds / once));
  bench.time(run_on_team, calls);
  std::vector<double> samples;
  const TimePoint start = Clock::now();
  while (static_cast<int>(samples.size()) < kMinSamples || seconds_between(start, Clock::now()) < seconds) {
    samples.push_back(bench.time(run_on_team, calls) / static_cast<double>(calls) * 1e6);
  }
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  row.samples = static_cast<int>(count);
  row.median_us = samples[count / 2];
  row.min_us = samples[0];
  row.spread = (samples[count * 9 / 10] - samples[count / 10]) / row.median_us;
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
  if (kernel.device != DeviceKind::cpu || kernel.isa > detect_isa()) return false;
  if (!options.isa.empty() && isa_name(kernel.isa) != options.isa) return false;
  return kernel.supports == nullptr ||
         kernel.supports(data.input_types, data.output_types, data.declared->attrs);
}

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
      HR_ASSIGN_OR_RETURN(const CaseData data, make_case_data(*op, one, /*host_weights=*/false));
      for (const Kernel* kernel : kernels_of(*op)) {
        if (!wanted(*kernel, data, options)) continue;
        for (const int threads : options.threads) {
          BenchRow row{std::string(op->name),
                       one.name,
                       one.phase,
                       std::string(kernel->name),
                       std::string(isa_name(kernel->isa)),
                       threads};
          Bench bench(data, *kernel, threads, options.cold);
          measure(bench, kernel->outside_team ? RunOnTeam() : make_team(threads), options.seconds, row);
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
      const Result<CaseData> data = make_case_data(*op, one, /*host_weights=*/false);
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
                          kernel->device == DeviceKind::cpu ? isa_name(kernel->isa) : "cuda",
                          layout_name(*op, *kernel), fmt::join(kinds[kernel], ", "),
                          kernel->row_invariant ? "yes" : "no");
    }
  }
  return text;
}

}  // namespace headrace::testing

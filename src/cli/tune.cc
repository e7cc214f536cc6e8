// `headrace tune`: measures the library's algorithms for a model's matrix products and keeps the fastest in the card's plan.
#include "cli/tune.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "io/model_source.h"
#include "runtime/matmul_plan.h"
#include "runtime/step_program.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace tune - choose the fastest matrix products on a GPU, once\n\n"
    "Measures cuBLASLt's algorithms for every product of the model at every number of tokens, some 50 ms to a\n"
    "second each, and keeps the fastest in the card's plan, which every later start loads. Products of other\n"
    "models that the plan holds stay in it. Weights are not read. A plan belongs to a card and to a version of\n"
    "the library: tune again when either changes. Nothing else may run on the card meanwhile.";
constexpr std::string_view kExamples =
    "  headrace tune ./Meta-Llama-3-8B\n"
    "  headrace tune ./folder --dummy-weights --max-tokens 16384     # config.json alone\n"
    "  headrace tune model.gguf --device cuda:1 --out my.plan        # HEADRACE_PLAN=my.plan then loads it\n";

constexpr int64_t kMaxRows = 512;  // of logits: as many sequences as a recorded step may have

Result<std::vector<DeviceMatmul>> products_of(const TuneOptions& options) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, engine::open_source(options.model.path, options.model.serving));
  const auto rows = static_cast<int32_t>(std::min(options.max_tokens, kMaxRows));
  HR_ASSIGN_OR_RETURN(const runtime::StepProgram step,
                      runtime::StepProgram::build(*source, {.policy = engine::policy_of(options.model.serving),
                                                            .skip_passes = options.model.serving.skip_passes,
                                                            .device = DeviceKind::cuda,
                                                            .row_invariant = false,
                                                            .max_seqs = rows,
                                                            .max_tokens = static_cast<int32_t>(options.max_tokens),
                                                            .max_logit_rows = rows}));
  return runtime::matmul_products(step.program->graph(), step.bucket(options.max_tokens));
}

struct Row {
  DeviceMatmul product;
  DeviceTuning tuning{};
};

std::string row_text(const DeviceMatmul& product, const DeviceTuning& tuning) {
  const auto n = static_cast<double>(product.n), k = static_cast<double>(product.k), tokens = static_cast<double>(product.tokens);
  const double bytes = (n + tokens) * k * static_cast<double>(dtype_bytes(product.dtype)) +
                       n * tokens * static_cast<double>(dtype_bytes(product.out));
  const std::string name = fmt::format("{}->{}{}", dtype_name(product.dtype), dtype_name(product.out), product.bias ? " bias" : "");
  const std::string gain = tuning.first_guess_us > 0 ? fmt::format("{:+.1f}%", (tuning.first_guess_us / tuning.us - 1) * 100) : "-";
  return fmt::format("{:>16} {:>7} {:>7} {:>6} {:>10.1f} {:>8.1f} {:>6.2f} {:>7}\n", name, product.n, product.k, product.tokens, tuning.us,
                     2 * n * k * tokens / tuning.us * 1e-6, bytes / tuning.us * 1e-6, gain);
}

std::string table_of(const std::vector<Row>& rows) {
  std::string table =
      fmt::format("{:>16} {:>7} {:>7} {:>6} {:>10} {:>8} {:>6} {:>7}\n", "product", "N", "K", "T", "us", "TFLOP/s", "TB/s", "gain");
  for (const Row& row : rows) table += row_text(row.product, row.tuning);
  return table;
}

Status tune_all(const runtime::Accelerator& accelerator, std::vector<Row>& rows) {
  const InterruptGuard guard(InterruptGuard::Mode::once);
  ProgressBar bar("tuning");
  for (size_t i = 0; i < rows.size(); ++i) {
    const DeviceMatmul& product = rows[i].product;
    bar.update(static_cast<double>(i) / static_cast<double>(rows.size()),
               fmt::format("N={} K={} T={}", product.n, product.k, product.tokens));
    HR_ASSIGN_OR_RETURN(rows[i].tuning, accelerator.tune_matmul(product));
    if (InterruptGuard::interrupted()) return make_status(Code::cancelled, "stopped; the plan stays as it was");
  }
  return {};
}

Status tune(TuneOptions& options) {
  HR_ASSIGN_OR_RETURN(const auto accelerator, runtime::Accelerator::cuda(options.model.serving.device.index));
  HR_ASSIGN_OR_RETURN(const DeviceFacts facts, accelerator->facts());
  if (options.out.empty()) {
    HR_ASSIGN_OR_RETURN(options.out, runtime::matmul_plan_to_write(facts.name));
  }
  HR_ASSIGN_OR_RETURN(const std::string table, tune_model(*accelerator, options));
  fmt::print("{}, {}\n{}", printable(facts.name), accelerator->plugin().name, table);
  note("{}: written\n", printable(options.out));
  return {};
}

}  // namespace

Result<std::string> tune_model(const runtime::Accelerator& accelerator, const TuneOptions& options) {
  HR_ASSIGN_OR_RETURN(const std::vector<DeviceMatmul> products, products_of(options));
  std::vector<Row> rows;
  for (DeviceMatmul product : products) {
    for (const int64_t tokens : runtime::tuned_tokens(product.tokens)) {
      product.tokens = tokens;
      rows.push_back({product});
    }
  }
  HR_RETURN_IF_ERROR(tune_all(accelerator, rows));
  HR_RETURN_IF_ERROR(accelerator.save_matmul_plan(options.out));
  return table_of(rows);
}

Status tune_command(const std::vector<std::string>& args) {
  Options options("tune", kAbout, kExamples);
  TuneOptions tuned;
  tuned.model.serving.device = {DeviceKind::cuda, 0};
  tuned.model.declare_model(options);
  options.custom("--device", "cuda|cuda:N", "The GPU (cuda)", [&tuned](std::string_view name) -> Status {
    HR_ASSIGN_OR_RETURN(tuned.model.serving.device, parse_device(name));
    if (tuned.model.serving.device.kind == DeviceKind::cuda) return {};
    return make_status(Code::invalid_argument, "want cuda or cuda:N: the CPU's kernels have no plan");
  });
  options.integer(tuned.max_tokens, "--max-tokens", "N", "The most tokens of one step (8192)", 1, 16384);
  options.flag(tuned.model.serving.exact, "--exact", "The float32 products of --exact instead of those in bf16");
  options.flag(tuned.model.serving.dummy_weights, "--dummy-weights", "MODEL is a folder with a config.json alone");
  options.text(tuned.out, "--out", "FILE", "Where the plan is written (the one that the card loads)");
  declare_log_level(options);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (options.given("--out") && tuned.out.empty()) return make_status(Code::invalid_argument, "--out: want a file's name");
  HR_ASSIGN_OR_RETURN(tuned.model.path, resolve_model(tuned.model.path));
  return tune(tuned);
}

}  // namespace headrace::cli

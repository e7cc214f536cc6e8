// `headrace roof`: what this machine can do at most.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/roof_json.h"
#include "cli/terminal.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAbout =
    "headrace roof - measure what this machine can do at most\n\n"
    "Read bandwidth of every cache level and of memory, copy bandwidth, and the arithmetic peaks of every\n"
    "instruction set, for 1 to n threads. `headrace bench` shows its figures beside the same measurement.\n"
    "Medians; other load on the machine lowers them. With --device cuda: reading and copying of the device's\n"
    "memory, bf16 products by cuBLASLt, and the time that an empty kernel takes in a captured graph and outside.";
constexpr std::string_view kExamples =
    "  headrace roof\n"
    "  headrace roof --threads 2 --json\n"
    "  headrace roof --device cuda\n";

std::string size_text(uint64_t bytes) {
  if (bytes >= 1u << 20) return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{} KiB", bytes >> 10);
}

void print_text(const runtime::RoofReport& report) {
  fmt::print("{}\n", report.processor.empty() ? "unknown processor" : printable(report.processor));
  for (const runtime::CacheLevel& cache : report.caches) {
    fmt::print("  {}: {}, shared by {}\n", cache.name, size_text(cache.bytes), cache.shared_by);
  }
  if (report.rows.empty()) return;
  fmt::print("\nBandwidth, GB/s\n  threads");
  for (const runtime::ReadRate& read : report.rows.front().reads) fmt::print("  {:>11}", "read " + read.name);
  fmt::print("  {:>11}\n", "copy");
  for (const runtime::RoofRow& row : report.rows) {
    fmt::print("  {:>7}", row.threads);
    for (const runtime::ReadRate& read : row.reads) fmt::print("  {:>11.1f}", read.bytes_per_s * 1e-9);
    fmt::print("  {:>11.1f}\n", row.copy_bytes_per_s * 1e-9);
  }
  fmt::print("\nArithmetic, TFLOP/s (int8: TOP/s); multiply and add count apart\n"
             "  threads  {:<8}  {:>8}  {:>8}  {:>8}\n", "set", "f32", "bf16", "int8");
  const auto cell = [](double rate) { return rate > 0 ? fmt::format("{:.3f}", rate * 1e-12) : std::string("-"); };
  for (const runtime::RoofRow& row : report.rows) {
    for (const runtime::ArithmeticRate& rate : row.arithmetic) {
      fmt::print("  {:>7}  {:<8}  {:>8}  {:>8}  {:>8}\n", row.threads, isa_name(rate.isa), cell(rate.f32),
                 cell(rate.bf16), cell(rate.int8));
    }
  }
}

}  // namespace

Result<runtime::RoofReport> measure_roof_with_progress(int threads, int repeats) {
  ProgressBar bar("measuring");
  runtime::RoofOptions options;
  options.threads = threads;
  options.repeats = repeats;
  options.progress = [&bar](std::string_view what, int done, int total) {
    bar.update(total > 0 ? static_cast<double>(done) / total : 0, what);
  };
  return runtime::measure_roof(options);
}

std::string roof_row_json(const runtime::RoofRow& row) {
  Json out = {{"threads", row.threads}};
  for (const runtime::ReadRate& read : row.reads) {
    out["read"].push_back({{"level", read.name}, {"working_set_bytes", read.working_set}, {"gb_per_s", read.bytes_per_s * 1e-9}});
  }
  out["copy_gb_per_s"] = row.copy_bytes_per_s * 1e-9;
  const auto peak = [](double rate) { return rate > 0 ? Json(rate * 1e-12) : Json(); };
  for (const runtime::ArithmeticRate& rate : row.arithmetic) {
    out["peak"].push_back({{"isa", isa_name(rate.isa)},
                           {"f32_tflop_per_s", peak(rate.f32)},
                           {"bf16_tflop_per_s", peak(rate.bf16)},
                           {"int8_top_per_s", peak(rate.int8)}});
  }
  return out.dump();
}

Status roof_command(const std::vector<std::string>& args) {
  Options options("roof", kAbout, kExamples);
  int64_t threads = 0;
  std::string device = "cpu";
  bool json = false;
  options.choice(device, "--device", {"cpu", "cuda"}, "What to measure (cpu)");
  options.integer(threads, "--threads", "N", "The most threads to measure; 0: the processors this process may use (0)", 0, 4096);
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (device == "cuda") {
    if (options.given("--threads")) return make_status(Code::invalid_argument, "--threads: goes with --device cpu");
    return cuda_roof(json);
  }

  HR_ASSIGN_OR_RETURN(const runtime::RoofReport report,
                      measure_roof_with_progress(static_cast<int>(threads), runtime::RoofOptions().repeats));
  if (!json) {
    print_text(report);
    return {};
  }
  Json out = {{"processor", report.processor}, {"seconds", report.seconds}};
  for (const runtime::CacheLevel& cache : report.caches) {
    out["caches"].push_back({{"level", cache.name}, {"bytes", cache.bytes}, {"shared_by", cache.shared_by}});
  }
  for (const runtime::RoofRow& row : report.rows) out["rows"].push_back(Json::parse(roof_row_json(row)));
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
  return {};
}

}  // namespace headrace::cli

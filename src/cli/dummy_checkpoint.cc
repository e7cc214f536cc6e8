// `headrace dummy-checkpoint`: a Hugging Face folder with random weights.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "engine/config.h"
#include "io/mapped_file.h"
#include "io/safetensors_writer.h"
#include "runtime/device_queue.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace dummy-checkpoint - write a checkpoint with random weights\n\n"
    "The weights of a config.json, random normal (mean 0, deviation 0.02; norms 1 + noise), as a Hugging Face folder:\n"
    "for measuring how fast a model of that shape starts, without having one. They are those of --dummy-weights with\n"
    "the same seed. The folder appears under its name when it is whole.";
constexpr std::string_view kExamples =
    "  headrace dummy-checkpoint config.json ./random-8b\n"
    "  headrace dummy-checkpoint ./Qwen3-0.6B ./random-0.6b --seed 7 --shard-size 1GiB\n";

struct DummyOptions {
  std::string config, folder;
  int64_t seed = 0, threads = 0;
  uint64_t shard_bytes = uint64_t{5} << 30;
};

Status write_checkpoint(const DummyOptions& options) {
  std::error_code ignored;
  const std::string config_path = std::filesystem::is_directory(options.config, ignored)
                                      ? (std::filesystem::path(options.config) / "config.json").string()
                                      : options.config;
  HR_ASSIGN_OR_RETURN(const std::string config, io::read_file(config_path));
  HR_ASSIGN_OR_RETURN(const auto source, io::ModelSource::open_dummy(config_path, static_cast<uint64_t>(options.seed), Format::bf16));
  HR_ASSIGN_OR_RETURN(const auto writer, io::SafetensorsWriter::create(options.folder, config, *source, options.shard_bytes));
  HR_ASSIGN_OR_RETURN(const auto queue, runtime::DeviceQueue::cpu(static_cast<int>(options.threads), 0));
  {
    const InterruptGuard guard(InterruptGuard::Mode::once);
    ProgressBar bar("writing");
    const std::string what = fmt::format("{:.1f} MB", static_cast<double>(writer->data_bytes()) * 1e-6);
    HR_RETURN_IF_ERROR(writer->write([&](const std::function<void(Team&)>& work) { queue->run(work); },
                                     [&](double fraction) {
                                       bar.update(fraction, what);
                                       return !InterruptGuard::interrupted();
                                     }));
  }
  HR_RETURN_IF_ERROR(writer->finish());
  note("{}: {} tensors in {} files, {:.1f} MB\n", printable(options.folder), source->tensors().size(), writer->num_files(),
       static_cast<double>(writer->data_bytes()) * 1e-6);
  return {};
}

}  // namespace

Status dummy_checkpoint_command(const std::vector<std::string>& args) {
  Options options("dummy-checkpoint", kAbout, kExamples);
  DummyOptions dummy;
  options.positional(dummy.config, "CONFIG", "A config.json, or a folder with one");
  options.positional(dummy.folder, "DIR", "The folder to make; DIR.part beside it while it grows");
  options.integer(dummy.seed, "--seed", "N", "Other weights (0)", 0, int64_t{1} << 62);
  options.custom("--shard-size", "SIZE", "The most bytes of tensors in one file, such as 1GiB (5GiB)",
                 [&dummy](std::string_view size) -> Status {
                   HR_ASSIGN_OR_RETURN(dummy.shard_bytes, engine::parse_bytes(size));
                   if (dummy.shard_bytes > 0) return {};
                   return make_status(Code::invalid_argument, "want at least a byte");
                 });
  options.integer(dummy.threads, "--threads", "N", "Threads; 0: the processors this process may use (0)", 0, 1024);
  declare_log_level(options);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  return write_checkpoint(dummy);
}

}  // namespace headrace::cli

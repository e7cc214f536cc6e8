// `headrace convert`: a model as one GGUF file.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "engine/text_parts.h"
#include "io/gguf_form.h"
#include "io/requantized_source.h"
#include "io/vocab_metadata.h"
#include "models/model.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "runtime/device_queue.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAbout =
    "headrace convert - write a model as a GGUF file, in another format\n\n"
    "From a GGUF file metadata and names stay as they are. From a Hugging Face folder of a family that generates text\n"
    "configuration, tokenizer and chat template become GGUF's metadata; a tokenizer or a configuration that GGUF\n"
    "cannot say is refused. Without --weights every format is kept, but for vectors of a folder, which become f32.\n"
    "The file appears under its name when it is whole. llama.cpp reads it.";
constexpr std::string_view kExamples =
    "  headrace convert smollm2 --weights q8_0 --out smollm2-q8_0.gguf\n"
    "  headrace convert ./Qwen3-0.6B --out qwen3-0.6b-bf16.gguf         # from safetensors\n"
    "  headrace convert ./Qwen3-0.6B --weights q4_1 --out qwen3-0.6b-q4_1.gguf --force\n";

struct ConvertOptions {
  std::string model;
  std::string out;
  std::optional<Format> weights;
  bool force = false;
  int64_t threads = 0;
};

// The step program before any pass: all that a configuration decides.
Result<Graph> program_of(const io::ModelSource& source, const io::ConfigMap& config) {
  HR_ASSIGN_OR_RETURN(const std::string model_type, config.get_string("model_type"));
  HR_ASSIGN_OR_RETURN(const models::ModelFamily* family, models::find_family(model_type));
  if (family->build_step == nullptr) return error(Code::unsupported, "a {} model generates no text", model_type);
  return family->build_step({config, models::tensors_of(source), DtypePolicy(), {}});
}

// What GGUF stores otherwise for the same numbers: pairs of a rotation, the one of a norm.
Attrs without_conventions(const Node& node) {
  if (node.op == &ops::rope) {
    auto attrs = node.attrs.as<ops::RopeAttrs>();
    attrs.interleaved = false;
    return attrs;
  }
  if (node.op == &ops::rms_norm) {
    auto attrs = node.attrs.as<ops::RmsNormAttrs>();
    attrs.offset = 0;
    return attrs;
  }
  return node.attrs;
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kRelative = 1e-5;  // GGUF keeps numbers as f32
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::fabs(x - y) <= kRelative * std::fabs(x); });
}

// Whether the written file says what the source says.
Status check_same_program(const Graph& source, const Graph& written) {
  const auto differs = [](std::string_view where, std::string_view want, std::string_view got) {
    return make_status(Code::unsupported, "the metadata of a GGUF file cannot say this configuration: {}: want {}, it would run as {}",
                       where, want, got);
  };
  if (source.nodes.size() != written.nodes.size()) {
    return differs("operators", std::to_string(source.nodes.size()), std::to_string(written.nodes.size()));
  }
  for (size_t i = 0; i < source.nodes.size(); ++i) {
    const Node &a = source.nodes[i], &b = written.nodes[i];
    if (a.op != b.op || a.inputs.size() != b.inputs.size() || !(without_conventions(a) == without_conventions(b))) {
      return differs(a.name, fmt::format("{} {}", a.op->name, a.attrs.describe()), fmt::format("{} {}", b.op->name, b.attrs.describe()));
    }
  }
  for (const Value& value : source.values) {
    if (value.role != ValueRole::constant && value.role != ValueRole::state) continue;
    const ValueId id = written.find(value.name);
    const bool same = id != kNone && (value.role == ValueRole::constant ? close(constant_values(value), constant_values(written.values[id]))
                                                                        : value.type == written.values[id].type);
    if (!same) return differs(value.name, "that of the source", "another");
  }
  return {};
}

// GGUF has no words for Llama 3's rotation but a divisor for each frequency.
Result<std::vector<float>> rope_factors(const io::ModelSource& source, const Graph& program) {
  io::ConfigMap plain = source.config();
  bool llama3 = false;
  for (const char* key : {"rope_scaling.type", "rope_scaling.rope_type", "rope_parameters.rope_type"}) {
    HR_ASSIGN_OR_RETURN(const std::string type, plain.get_string_or(key, ""));
    if (type != "llama3") continue;
    llama3 = true;
    plain.set(key, std::string("default"));
  }
  std::vector<float> factors;
  if (!llama3) return factors;
  HR_ASSIGN_OR_RETURN(const Graph unscaled, program_of(source, plain));
  const ValueId id = program.find("inv_freq"), plain_id = unscaled.find("inv_freq");
  if (id == kNone || plain_id == kNone) return error(Code::unsupported, "rope_type llama3 in a family with two rotations");
  const std::vector<double> scaled = constant_values(program.values[id]), base = constant_values(unscaled.values[plain_id]);
  for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(base[i] / scaled[i]));
  return factors;
}

// A GGUF file's own metadata, but for what says how it is stored.
Result<io::GgufMetadata> copied_metadata(const io::GgufModel& model, bool reformatted) {
  io::GgufMetadata metadata;
  for (const io::GgufEntry& entry : model.files().front().metadata()) {
    const bool of_format = entry.key == "general.file_type" || entry.key == "general.quantization_version";
    if (entry.key.starts_with("split.") || (of_format && reformatted)) continue;
    metadata.add(entry);
  }
  return metadata;
}

Result<io::GgufMetadata> folder_metadata(const io::ModelSource& source, const io::Family& family) {
  io::GgufMetadata metadata;
  HR_RETURN_IF_ERROR(add_config(source.config(), family, metadata));
  metadata.add_text("general.type", "model");
  const fs::path folder(source.path());
  metadata.add_text("general.name", fs::absolute(folder / ".").lexically_normal().parent_path().filename().string());
  const auto vocab = engine::export_text_parts(source);
  if (vocab) {
    add_vocab(*vocab, metadata);
    return metadata;
  }
  if (vocab.error().code() != Code::not_found) return tl::unexpected(vocab.error());
  note("{}: no tokenizer.json: the result takes token ids alone, and neither `run` nor `serve` can use it\n", printable(source.path()));
  metadata.add_text("tokenizer.ggml.model", "none");
  return metadata;
}

Status convert(const ConvertOptions& options) {
  HR_ASSIGN_OR_RETURN(const std::string path, resolve_model(options.model));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<io::ModelSource> source, io::ModelSource::open(path));
  HR_ASSIGN_OR_RETURN(const Graph program, program_of(*source, source->config()));
  HR_ASSIGN_OR_RETURN(const std::string model_type, source->config().get_string("model_type"));
  io::GgufForm form;
  HR_ASSIGN_OR_RETURN(form.family, io::family_in_gguf(model_type));
  std::error_code ignored;
  form.from_hugging_face = fs::is_directory(path, ignored);
  io::GgufMetadata metadata;
  uint64_t alignment = io::GgufWriter::Options().alignment;
  if (form.from_hugging_face) {
    HR_ASSIGN_OR_RETURN(form.rope_factors, rope_factors(*source, program));
    HR_ASSIGN_OR_RETURN(metadata, folder_metadata(*source, *form.family));
  } else {
    HR_ASSIGN_OR_RETURN(const io::GgufModel model, io::GgufModel::open(path));
    HR_ASSIGN_OR_RETURN(metadata, copied_metadata(model, options.weights.has_value()));
    alignment = model.files().front().alignment();
  }
  if (options.weights) {
    HR_ASSIGN_OR_RETURN(source, io::requantize(std::move(source), *options.weights));
  }
  HR_ASSIGN_OR_RETURN(source, io::gguf_form(std::move(source), form));
  if (form.from_hugging_face || options.weights) add_file_type(*source, metadata);

  HR_ASSIGN_OR_RETURN(const auto writer,
                      io::GgufWriter::create(options.out, metadata, *source, {.alignment = alignment, .overwrite = options.force}));
  HR_ASSIGN_OR_RETURN(const auto queue, runtime::DeviceQueue::cpu(static_cast<int>(options.threads), 0));
  {
    const InterruptGuard guard(InterruptGuard::Mode::once);
    ProgressBar bar("converting");
    const std::string what = fmt::format("{:.1f} MB", static_cast<double>(writer->file_bytes()) * 1e-6);
    HR_RETURN_IF_ERROR(writer->write([&](const std::function<void(Team&)>& work) { queue->run(work); },
                                     [&](double fraction) {
                                       bar.update(fraction, what);
                                       return !InterruptGuard::interrupted();
                                     }));
  }
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> written, io::ModelSource::open(writer->part_path()));
  HR_ASSIGN_OR_RETURN(const Graph read_back, program_of(*written, written->config()));
  HR_RETURN_IF_ERROR(check_same_program(program, read_back));
  HR_RETURN_IF_ERROR(writer->finish());
  note("{}: {} tensors, {:.1f} MB\n", printable(options.out), source->tensors().size(),
             static_cast<double>(writer->file_bytes()) * 1e-6);
  return {};
}

}  // namespace

Status convert_command(const std::vector<std::string>& args) {
  Options options("convert", kAbout, kExamples);
  ConvertOptions convert_options;
  options.positional(convert_options.model, "MODEL", kModelHelp);
  options.text(convert_options.out, "--out", "FILE", "The file to write; FILE.part beside it while it grows");
  declare_weights(options, convert_options.weights,
                  "The format of the matrices, rounded to nearest; with q4_0 and q4_1 the embedding and the head become q8_0 "
                  "(as stored)");
  options.flag(convert_options.force, "--force", "Replace FILE where it is there");
  options.integer(convert_options.threads, "--threads", "N", "Threads; 0: the processors this process may use (0)", 0, 1024);
  declare_log_level(options);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (convert_options.out.empty()) return make_status(Code::invalid_argument, "--out: want the name of the file to write");
  return convert(convert_options);
}

}  // namespace headrace::cli

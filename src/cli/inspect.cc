// `headrace inspect`: what a model file holds and how it would run, without loading the model.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan.h"
#include "cli/resolve_model.h"
#include "cli/terminal.h"
#include "io/gguf.h"
#include "io/model_source.h"
#include "io/safetensors.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAbout =
    "headrace inspect - show what a model holds, or how it would run\n\n"
    "Prints the metadata and a summary of the tensors; long arrays (the vocabulary) are cut short. With --plan:\n"
    "the step program after every pass, the kernel of each node, and the memory plan with its planned peak, the\n"
    "live-set bound that no plan can beat, and the naive sum. Weights are not read.";
constexpr std::string_view kExamples =
    "  headrace inspect model.gguf                       # metadata and a summary\n"
    "  headrace inspect model.gguf --tensors | grep attn_q\n"
    "  headrace inspect model.gguf --plan --tokens 1     # the step of one answer\n"
    "  headrace inspect model.gguf --plan --skip-pass all\n"
    "  headrace inspect model.gguf --json | python3 -m json.tool\n";

constexpr size_t kShownElements = 8;   // of an array
constexpr size_t kShownBytes = 200;      // of a string, on a terminal

std::string dump(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json array_to_json(const io::GgufArray& array);

template <class T>
Json first_of(const std::vector<T>& values) {
  Json first = Json::array();
  for (size_t i = 0; i < values.size() && i < kShownElements; ++i) {
    if constexpr (std::is_same_v<T, io::GgufArray>) {
      first.push_back(array_to_json(values[i]));
    } else {
      first.push_back(values[i]);
    }
  }
  return first;
}

Json array_to_json(const io::GgufArray& array) {
  Json first = Json::array();
  if (const auto strings = array.strings()) {
    first = first_of(*strings);
  } else if (const auto integers = array.integers()) {
    first = first_of(*integers);
  } else if (const auto numbers = array.numbers()) {
    first = first_of(*numbers);
  } else if (const auto arrays = array.arrays()) {
    first = first_of(*arrays);
  }
  if (array.count() <= kShownElements) return first;
  return {{"array_of", gguf_type_name(array.element())}, {"count", array.count()}, {"first", std::move(first)}};
}

Json value_to_json(const io::GgufEntry& entry) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, io::GgufArray>) {
          return array_to_json(value);
        } else {
          return Json(value);
        }
      },
      entry.value);
}

struct TensorRow {
  std::string name;
  Format format;
  std::vector<uint64_t> shape;  // outermost first
  uint64_t bytes;
  std::optional<uint64_t> offset;  // in the file; a folder may hold several
};

// What a file or a folder holds, whatever its container.
struct Contents {
  Json head;      // container and its version
  Json metadata;  // an object
  std::vector<TensorRow> tensors;

  uint64_t elements = 0, bytes = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_format;  // name -> tensors, bytes

  void add(TensorRow row) {
    uint64_t count = 1;
    for (const uint64_t dim : row.shape) count *= dim;
    elements += count;
    bytes += row.bytes;
    auto& [format_tensors, format_bytes] = by_format[std::string(format_info(row.format).name)];
    ++format_tensors;
    format_bytes += row.bytes;
    tensors.push_back(std::move(row));
  }
};

Result<Contents> read_gguf(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::GgufFile file, io::GgufFile::open(path));
  Contents out;
  out.head = {{"container", "gguf"}, {"version", file.version()}, {"alignment", file.alignment()}};
  out.metadata = Json::object();
  for (const io::GgufEntry& entry : file.metadata()) out.metadata[std::string(entry.key)] = value_to_json(entry);
  for (const io::GgufTensor& tensor : file.tensors()) {
    TensorRow row{std::string(tensor.name), tensor.format, {}, tensor.bytes, tensor.offset};
    for (uint32_t i = tensor.rank; i-- > 0;) row.shape.push_back(tensor.dims[i]);
    out.add(std::move(row));
  }
  return out;
}

Result<Contents> read_safetensors(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::SafetensorsFile file, io::SafetensorsFile::open(path));
  Contents out;
  out.head = {{"container", "safetensors"}};
  out.metadata = Json(file.metadata());
  for (const io::SafetensorsTensor& tensor : file.tensors()) {
    out.add({tensor.name, tensor.format, {tensor.shape.begin(), tensor.shape.end()}, tensor.bytes, tensor.offset});
  }
  return out;
}

// A Hugging Face folder: config.json stands for the metadata, the tensors are those of all its files.
Result<Contents> read_folder(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, io::ModelSource::open(path));
  Contents out;
  out.head = {{"container", "folder"}};
  out.metadata = Json::object();
  for (const auto& [key, value] : source->config().values()) {
    out.metadata[key] = std::visit([](const auto& held) { return Json(held); }, value);
  }
  for (const io::SourceTensor& tensor : source->tensors()) {
    out.add({tensor.name, tensor.format, {tensor.shape.begin(), tensor.shape.end()}, tensor.bytes, std::nullopt});
  }
  return out;
}

Result<Contents> read_contents(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return read_folder(path);
  return path.ends_with(".safetensors") ? read_safetensors(path) : read_gguf(path);
}

Json to_json(const std::string& path, const Contents& contents, bool tensors) {
  Json out = {{"path", path}};
  out.update(contents.head);
  out["parameters"] = contents.elements;
  out["tensor_bytes"] = contents.bytes;
  for (const auto& [name, counts] : contents.by_format) {
    out["formats"][name] = {{"tensors", counts.first}, {"bytes", counts.second}};
  }
  out["metadata"] = contents.metadata;
  if (!tensors) return out;
  Json& list = out["tensors"] = Json::array();
  for (const TensorRow& row : contents.tensors) {
    list.push_back({{"name", row.name}, {"format", format_info(row.format).name}, {"shape", row.shape}, {"bytes", row.bytes}});
    if (row.offset) list.back()["offset"] = *row.offset;
  }
  return out;
}

void print_text(const std::string& path, const Contents& contents, bool tensors) {
  fmt::print("{}: {}, {} tensors, {:.1f} million parameters, {:.1f} MB of weights\n", printable(path),
             contents.head["container"].get<std::string>(), contents.tensors.size(),
             static_cast<double>(contents.elements) * 1e-6, static_cast<double>(contents.bytes) * 1e-6);
  for (const auto& [name, counts] : contents.by_format) {
    fmt::print("  {:<6} {:>5} tensors {:>10.1f} MB\n", name, counts.first, static_cast<double>(counts.second) * 1e-6);
  }
  if (!contents.metadata.empty()) fmt::print("\nMetadata\n");
  for (const auto& [key, json_value] : contents.metadata.items()) {
    std::string value = dump(json_value);
    if (value.size() > kShownBytes) value = value.substr(0, kShownBytes) + fmt::format(" ... ({} bytes)", value.size());
    fmt::print("  {:<40} {}\n", printable(key), printable(value));
  }
  if (!tensors) return;
  fmt::print("\nTensors (shape: outermost first)\n");
  for (const TensorRow& row : contents.tensors) {
    fmt::print("  {:<32} {:<6} {:<16} {:>12} bytes{}\n", printable(row.name), format_info(row.format).name,
               fmt::format("[{}]", fmt::join(row.shape, ", ")), row.bytes,
               row.offset ? fmt::format(" at {}", *row.offset) : std::string());
  }
}

}  // namespace

Status inspect_command(const std::vector<std::string>& args) {
  Options options("inspect", kAbout, kExamples);
  ModelOptions model;
  bool tensors = false, json = false, plan = false;
  int64_t plan_tokens = 512;
  options.positional(model.path, "MODEL", kModelHelp);
  options.flag(tensors, "--tensors", "List every tensor: name, format, shape, bytes, offset");
  options.flag(plan, "--plan", "Show the step program instead: passes, nodes with their kernels, memory plan");
  options.integer(plan_tokens, "--tokens", "N", "Plan the bucket of a step with N tokens (512)", 1, 1 << 20);
  options.flag(json, "--json", "Print one JSON object");
  model.declare_engine(options, {"--max-queue", "--kv-tokens"});
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  HR_ASSIGN_OR_RETURN(model.path, resolve_model(model.path));

  if (plan && !json) {
    HR_ASSIGN_OR_RETURN(const PlanPage page, make_plan_page(model, plan_tokens));
    fmt::print("{}", printable(page.text));
    return {};
  }
  HR_ASSIGN_OR_RETURN(const Contents contents, read_contents(model.path));
  if (!json) {
    print_text(model.path, contents, tensors);
    return {};
  }
  Json out = to_json(model.path, contents, tensors);
  if (plan) {
    HR_ASSIGN_OR_RETURN(const PlanPage page, make_plan_page(model, plan_tokens));
    out["plan"] = Json::parse(page.json);
  }
  fmt::print("{}\n", dump(out, 2));
  return {};
}

}  // namespace headrace::cli

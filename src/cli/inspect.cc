// `headrace inspect`: what a model file holds, read without loading the model.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "io/gguf.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAbout =
    "headrace inspect - show what a model file holds, without loading it\n\n"
    "Prints the metadata and a summary of the tensors. Long arrays (the vocabulary) are cut short.";
constexpr std::string_view kExamples =
    "  headrace inspect model.gguf                       # metadata and a summary\n"
    "  headrace inspect model.gguf --tensors | grep q_proj\n"
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

std::vector<uint64_t> shape_of(const io::GgufTensor& tensor) {  // outermost first
  std::vector<uint64_t> shape;
  for (uint32_t i = tensor.rank; i-- > 0;) shape.push_back(tensor.dims[i]);
  return shape;
}

struct TensorSummary {
  uint64_t tensors = 0, elements = 0, bytes = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_format;  // name -> tensors, bytes
};

TensorSummary summarize(const io::GgufFile& file) {
  TensorSummary summary;
  for (const io::GgufTensor& tensor : file.tensors()) {
    uint64_t elements = 1;
    for (const uint64_t dim : tensor.dims) elements *= dim;
    ++summary.tensors;
    summary.elements += elements;
    summary.bytes += tensor.bytes;
    auto& [count, bytes] = summary.by_format[std::string(format_info(tensor.format).name)];
    ++count;
    bytes += tensor.bytes;
  }
  return summary;
}

void print_json(const std::string& path, const io::GgufFile& file, bool tensors) {
  Json out = {{"path", path}, {"container", "gguf"}, {"version", file.version()}, {"alignment", file.alignment()}};
  const TensorSummary summary = summarize(file);
  out["parameters"] = summary.elements;
  out["tensor_bytes"] = summary.bytes;
  for (const auto& [name, counts] : summary.by_format) {
    out["formats"][name] = {{"tensors", counts.first}, {"bytes", counts.second}};
  }
  Json& metadata = out["metadata"] = Json::object();
  for (const io::GgufEntry& entry : file.metadata()) metadata[std::string(entry.key)] = value_to_json(entry);
  if (tensors) {
    Json& list = out["tensors"] = Json::array();
    for (const io::GgufTensor& tensor : file.tensors()) {
      list.push_back({{"name", tensor.name},
                      {"format", format_info(tensor.format).name},
                      {"shape", shape_of(tensor)},
                      {"offset", tensor.offset},
                      {"bytes", tensor.bytes}});
    }
  }
  fmt::print("{}\n", dump(out, 2));
}

void print_text(const std::string& path, const io::GgufFile& file, bool tensors) {
  const TensorSummary summary = summarize(file);
  fmt::print("{}: GGUF version {}, {} tensors, {:.1f} million parameters, {:.1f} MB of weights\n", printable(path),
             file.version(), summary.tensors, summary.elements * 1e-6, summary.bytes * 1e-6);
  for (const auto& [name, counts] : summary.by_format) {
    fmt::print("  {:<6} {:>5} tensors {:>10.1f} MB\n", name, counts.first, counts.second * 1e-6);
  }
  fmt::print("\nMetadata\n");
  for (const io::GgufEntry& entry : file.metadata()) {
    std::string value = dump(value_to_json(entry));
    if (value.size() > kShownBytes) value = value.substr(0, kShownBytes) + fmt::format(" ... ({} bytes)", value.size());
    fmt::print("  {:<40} {}\n", printable(entry.key), printable(value));
  }
  if (!tensors) return;
  fmt::print("\nTensors (shape: outermost first)\n");
  for (const io::GgufTensor& tensor : file.tensors()) {
    fmt::print("  {:<32} {:<6} {:<16} {:>12} bytes at {}\n", printable(tensor.name), format_info(tensor.format).name,
               fmt::format("[{}]", fmt::join(shape_of(tensor), ", ")), tensor.bytes, tensor.offset);
  }
}

}  // namespace

Status inspect_command(const std::vector<std::string>& args) {
  Options options("inspect", kAbout, kExamples);
  std::string model;
  bool tensors = false, json = false;
  options.positional(model, "MODEL", "A GGUF file");
  options.flag(tensors, "--tensors", "List every tensor: name, format, shape, bytes, offset");
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const io::GgufFile file, io::GgufFile::open(model));
  json ? print_json(model, file, tensors) : print_text(model, file, tensors);
  return {};
}

}  // namespace headrace::cli

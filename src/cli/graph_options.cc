#include "cli/graph_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/passes.h"
#include "io/mapped_file.h"
#include "onnx/file.h"
#include "onnx/npy.h"

namespace headrace::cli {
namespace {

using onnx::Session;
using onnx::Tensor;
using onnx::Type;
using onnx::Value;
using Values = std::map<std::string, Value>;

// "NAME=REST". The name may hold anything but '='.
Result<std::pair<std::string, std::string>> split_assignment(std::string_view flag, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) return error(Code::invalid_argument, "{}: want NAME=..., got \"{}\"", flag, text);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Result<Value> read_input(const std::string& path, Type::Kind kind) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  auto value = path.ends_with(".npy") ? onnx::parse_npy(file.bytes()).map([](Tensor&& tensor) { return Value(std::move(tensor)); })
                                      : onnx::parse_value(file.bytes(), kind);
  if (!value) return tl::unexpected<Status>(value.error().with_context(path));
  return value;
}

// SplitMix64: a seed gives the same inputs on every machine.
uint64_t next_random(uint64_t& state) {
  uint64_t value = state += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

template <class T>
T draw(uint64_t& state) {
  const uint64_t bits = next_random(state);
  const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;
  if constexpr (std::is_same_v<T, f16>) return to_f16(unit);
  else if constexpr (std::is_same_v<T, bf16>) return to_bf16(unit);
  else if constexpr (std::is_same_v<T, bool>) return (bits >> 63) != 0;
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(unit);
  else return static_cast<T>(bits >> 61);
}

Result<Value> draw_input(const onnx::ValueInfo& input, const std::map<std::string, int64_t>& dims, uint64_t& state) {
  if (input.type.kind != Type::Kind::tensor || !input.type.shape) {
    return error(Code::invalid_argument, "input {}: {} cannot be drawn; give it with --input", input.name, onnx::describe(input.type));
  }
  onnx::Dims shape;
  for (const Type::Dim& dim : *input.type.shape) {
    const auto named = dims.find(dim.symbol.empty() ? fmt::format("{}.{}", input.name, shape.size()) : dim.symbol);
    shape.push_back(dim.value >= 0 ? dim.value : named == dims.end() ? 1 : named->second);
  }
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, onnx::count_elements(shape));
  Tensor tensor(input.type.dtype, shape);
  const bool known = onnx::dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool>(
      tensor.dtype(), [&]<class T>() {
        for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<T>()[i] = draw<T>(state);
      });
  if (!known) return error(Code::invalid_argument, "input {}: {} cannot be drawn; give it with --input", input.name, onnx::describe(input.type));
  return tensor;
}

}  // namespace

void GraphOptions::declare(Options& options) {
  options.positional(model, "MODEL", "An ONNX file");
  options.texts(inputs, "--input", "NAME=FILE", "An input's values: a .npy file, or a TensorProto (.pb); may be repeated");
  options.integer(seed, "--random", "SEED", "Draw the inputs that no --input gives: floats in [0, 1), integers in [0, 8)", 0,
                  std::numeric_limits<int64_t>::max());
  options.texts(dims, "--dim", "NAME=N", "What an open dim is, 1 when inputs are drawn; INPUT.AXIS stands for one without a name; may be repeated");
  options.integer(threads, "--threads", "N", "Threads (as many as the process may use)", 1, 4096);
  options.custom("--isa", "generic|avx2|avx512", "Instruction set of the kernels (the best this machine has)",
                 [this](std::string_view name) -> Status {
                   HR_ASSIGN_OR_RETURN(isa, parse_isa(name));
                   return {};
                 });
  options.texts(skip_passes, "--skip-pass", "NAME", "Leave a pass out, \"all\" for every one; may be repeated");
  options.flag(strict, "--strict", "Fail where a node would run by a reference operator, and say why");
  options.flag(reference, "--reference", "Run every operator by its reference: slow, by the letter of the operator document");
  options.flag(no_library, "--no-library", "Leave out the kernels of libraries (oneDNN)");
}

Result<Session> GraphOptions::open() const {
  Session::Options options;
  options.threads = static_cast<int>(threads);
  options.reference = reference;
  options.compile.isa = isa;
  options.compile.strict = strict;
  options.compile.library_kernels = !no_library;
  options.compile.skip_passes.insert(skip_passes.begin(), skip_passes.end());
  return Session::load(model, options);
}

Result<std::map<std::string, int64_t>> GraphOptions::parse_dims() const {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : dims) {
    HR_ASSIGN_OR_RETURN(const auto pair, split_assignment("--dim", text));
    char* end = nullptr;
    sizes[pair.first] = std::strtoll(pair.second.c_str(), &end, 10);
    if (pair.second.empty() || *end != '\0' || sizes[pair.first] < 0) {
      return error(Code::invalid_argument, "--dim {}: want a number of 0 or more, got \"{}\"", pair.first, pair.second);
    }
  }
  return sizes;
}

Result<Values> GraphOptions::make_inputs(const Session& session) const {
  std::map<std::string, std::string> files;
  for (const std::string& text : inputs) {
    HR_ASSIGN_OR_RETURN(auto pair, split_assignment("--input", text));
    if (std::ranges::find(session.inputs(), pair.first, &onnx::ValueInfo::name) == session.inputs().end()) {
      std::vector<std::string> names;
      for (const onnx::ValueInfo& input : session.inputs()) names.push_back(input.name);
      return error(Code::invalid_argument, "--input {}: the model's inputs are {}", pair.first, fmt::join(names, ", "));
    }
    files.insert(std::move(pair));
  }
  HR_ASSIGN_OR_RETURN(const auto sizes, parse_dims());
  Values values;
  auto state = static_cast<uint64_t>(seed);
  for (const onnx::ValueInfo& input : session.inputs()) {
    const auto file = files.find(input.name);
    if (file != files.end()) {
      HR_ASSIGN_OR_RETURN(values[input.name], read_input(file->second, input.type.kind));
    } else if (session.may_be_left_out(input)) {
      continue;
    } else if (seed >= 0) {
      HR_ASSIGN_OR_RETURN(values[input.name], draw_input(input, sizes, state));
    } else {
      return error(Code::invalid_argument, "input {}, {}: give it with --input {}=FILE, or draw what is missing with --random SEED", input.name,
                   onnx::describe(input.type), input.name);
    }
  }
  return values;
}

}  // namespace headrace::cli

// ONNX models: parses the file, infers its types, runs it on inputs of ones within tight limits, writes and reads its outputs. What was
// inferred must hold of these. The mutator changes one node
// of a model that protobuf can read, attributes and all, half of the time: lengths before it stay true.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include <onnx/onnx-ml.pb.h>

#include "onnx/file.h"
#include "onnx/infer.h"
#include "onnx/interpreter.h"
#include "reached.h"

namespace headrace {
namespace {

constexpr onnx::RunLimits kLimits{.nodes = 256, .made_bytes = 1 << 16};
constexpr int64_t kMaxElements = 4096;  // of an input

// Ones (dims that nobody knows are 2); nothing for what is no tensor, or too large.
std::optional<onnx::Tensor> make_input(const onnx::Type& type) {
  if (type.kind != onnx::Type::Kind::tensor) return std::nullopt;
  onnx::Dims dims;
  if (type.shape) {
    for (const auto& dim : *type.shape) dims.push_back(dim.value < 0 ? 2 : dim.value);
  }
  const auto elements = onnx::count_elements(dims);
  if (!elements || *elements > kMaxElements) return std::nullopt;
  onnx::Tensor tensor(type.dtype, dims);
  for (uint64_t i = 0; i < tensor.bytes(); i += std::max<size_t>(1, dtype_bytes(type.dtype))) tensor.raw()[i] = std::byte{1};
  return tensor;
}

void check_value(const onnx::Value& value) {
  const auto bytes = onnx::value_bytes(value);
  if (!bytes) std::abort();
  const onnx::Type::Kind kind = value.sequence() != nullptr   ? onnx::Type::Kind::sequence
                                : value.optional() != nullptr ? onnx::Type::Kind::optional
                                                              : onnx::Type::Kind::tensor;
  if (value.has_value() && !onnx::parse_value(std::as_bytes(std::span(*bytes)), kind)) std::abort();
}

// Whether what was inferred of a value's element type, rank and dims is so. Of what is empty the type alone counts: what a
// loop collects that never turns has the dims that its body declares.
bool holds(const onnx::Type& type, const onnx::Value& value) {
  const onnx::Tensor* tensor = value.tensor();
  if (type.kind == onnx::Type::Kind::unknown || tensor == nullptr) return true;
  if (type.kind != onnx::Type::Kind::tensor || type.dtype != tensor->dtype()) return false;
  if (!type.shape || tensor->elements() == 0) return true;
  if (std::ssize(*type.shape) != tensor->rank()) return false;
  for (int i = 0; i < tensor->rank(); ++i) {
    const int64_t dim = (*type.shape)[static_cast<size_t>(i)].value;
    if (dim >= 0 && dim != tensor->dim(i)) return false;
  }
  return true;
}

// By name, from the dims of these inputs; nothing where the model is refused.
std::map<std::string, onnx::ValueFact> infer(const onnx::Model& model, const std::map<std::string, onnx::Value>& inputs) {
  std::map<std::string, onnx::Type> types;
  for (const auto& [name, value] : inputs) types[name] = onnx::type_of(value);
  auto facts = onnx::infer_types(model, types, {.fold_elements = 64});
  if (!facts) {
    if (facts.error().message().empty()) std::abort();
    return {};
  }
  return std::move(*facts);
}

void run(const onnx::Model& model) {
  std::map<std::string, onnx::Value> inputs;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    if (model.graph.initializers.contains(input.name)) continue;
    auto tensor = make_input(input.type);
    if (!tensor) return;
    inputs[input.name] = std::move(*tensor);
  }
  const auto facts = infer(model, inputs);
  const auto outputs = onnx::interpret(model, inputs, kLimits);
  if (!outputs) {
    if (outputs.error().message().empty()) std::abort();
    return;
  }
  for (const auto& [name, value] : *outputs) {
    check_value(value);
    if (const auto fact = facts.find(name); fact != facts.end() && !holds(fact->second.type, value)) std::abort();
  }
}

void parse_and_run(std::span<const std::byte> bytes) {
  static fuzz::Reached reached("nodes with attributes");
  reached.input();
  const auto model = onnx::parse_model(bytes, "");
  if (!model) {
    if (model.error().message().empty()) std::abort();
    return;
  }
  infer(*model, {});
  if (std::ranges::any_of(model->graph.nodes, [](const onnx::Node& node) { return !node.attributes.empty(); })) reached.hit();
  run(*model);
}

}  // namespace
}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headrace::parse_and_run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  ::onnx::ModelProto model;
  const bool whole = seed % 2 == 0 || !model.ParseFromArray(data, static_cast<int>(size)) || model.graph().node_size() == 0;
  if (whole) return LLVMFuzzerMutate(data, size, max_size);
  auto& node = *model.mutable_graph()->mutable_node(static_cast<int>(seed / 2 % static_cast<unsigned>(model.graph().node_size())));
  std::string bytes = node.SerializeAsString();
  const size_t before = bytes.size();
  bytes.resize(before + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), before, bytes.size()));
  ::onnx::NodeProto changed;
  if (!changed.ParseFromString(bytes)) return LLVMFuzzerMutate(data, size, max_size);
  node = changed;
  const std::string result = model.SerializeAsString();
  if (result.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(result.begin(), result.end(), data);
  return result.size();
}

// ONNX models: parses the file, infers its types, runs it on small inputs within tight limits by the reference operators and compiled with
// and without passes, writes and reads its outputs. What was inferred must hold of these, and the compiled ways must give what the
// reference gives. What compiles whole is written as ONNX again. The mutator changes one node, one input's type or one opset of a model
// that protobuf can read: lengths before it stay true.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>

#include <onnx/onnx-ml.pb.h>

#include "onnx/file.h"
#include "onnx/infer.h"
#include "onnx/interpreter.h"
#include "onnx/optimize.h"
#include "reached.h"
#include "testing/onnx_ways.h"

namespace headrace {
namespace {

constexpr onnx::RunLimits kLimits{.nodes = 256, .made_bytes = 1 << 16};
constexpr int64_t kMaxElements = 4096;  // of an input

[[noreturn]] void fail(std::string_view what, std::string_view detail = "") {
  std::cerr << "onnx_model: " << what << ": " << detail << "\n";
  std::abort();
}

// Small numbers that differ, by element: 1, 0, 2, 1, ... for integers, halves around 0 for floats.
void fill(onnx::Tensor& tensor) {
  const bool known = onnx::dispatch<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool>(
      tensor.dtype(), [&]<class T>() {
        for (int64_t i = 0; i < tensor.elements(); ++i) {
          const int64_t number = (i * 7 + 1) % 11;
          if constexpr (std::is_floating_point_v<T>) tensor.data<T>()[i] = static_cast<T>(number - 5) / 2;
          else tensor.data<T>()[i] = static_cast<T>(std::is_same_v<T, bool> ? number % 2 : number % 3);
        }
      });
  if (known || tensor.dtype() == DType::string) return;
  for (uint64_t i = 0; i < tensor.bytes(); i += std::max<size_t>(1, dtype_bytes(tensor.dtype()))) tensor.raw()[i] = std::byte{1};
}

// Small numbers (dims that nobody knows are 2); nothing for what is no tensor, or too large.
std::optional<onnx::Tensor> make_input(const onnx::Type& type) {
  if (type.kind != onnx::Type::Kind::tensor) return std::nullopt;
  onnx::Dims dims;
  if (type.shape) {
    for (const auto& dim : *type.shape) dims.push_back(dim.value < 0 ? 2 : dim.value);
  }
  const auto elements = onnx::count_elements(dims);
  if (!elements || *elements > kMaxElements) return std::nullopt;
  onnx::Tensor tensor(type.dtype, dims);
  fill(tensor);
  return tensor;
}

void check_value(const onnx::Value& value) {
  const auto bytes = onnx::value_bytes(value);
  if (!bytes) fail("write", bytes.error().message());
  const onnx::Type::Kind kind = value.sequence() != nullptr   ? onnx::Type::Kind::sequence
                                : value.optional() != nullptr ? onnx::Type::Kind::optional
                                                              : onnx::Type::Kind::tensor;
  if (value.has_value() && !onnx::parse_value(std::as_bytes(std::span(*bytes)), kind)) fail("read", "a value that was written");
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
    if (facts.error().message().empty()) fail("error", "without a message");
    return {};
  }
  return std::move(*facts);
}

// ---- the three ways

// Whether a node gives what numbers it likes: drawn at random, or of an order that is not said.
bool is_random(const onnx::Node& node) {
  const auto within = [](const auto& nodes) { return std::ranges::any_of(nodes, is_random); };
  for (const auto& [name, attribute] : node.attributes) {
    if (std::ranges::any_of(attribute.graphs, [&](const auto& graph) { return within(graph->nodes); })) return true;
  }
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial" || node.op == "Dropout";
}

// Floats within a hundredth of the largest: what sums in another order give. What is not finite is not compared: overflow depends on the
// order too. Integers follow from floats in many a model, where a rounding may fall otherwise: their values are not compared.
bool close(const onnx::Tensor& a, const onnx::Tensor& b) {
  bool same = true;
  onnx::dispatch<float, double>(a.dtype(), [&]<class T>() {
    const auto x = a.values<T>(), y = b.values<T>();
    double largest = 1;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return;
      largest = std::max({largest, std::abs(static_cast<double>(x[i])), std::abs(static_cast<double>(y[i]))});
    }
    for (size_t i = 0; i < x.size(); ++i) same = same && std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])) <= largest / 100;
  });
  return same;
}

std::string type_text(const onnx::Value& value) { return onnx::describe(onnx::type_of(value)); }

void compare(const testing::OnnxWay& way, const onnx::Model& model, const std::map<std::string, onnx::Value>& want,
             const std::map<std::string, onnx::Value>& got) {
  const bool random = std::ranges::any_of(model.graph.nodes, is_random) || !model.functions.empty();
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    if (found == got.end()) fail(way.name, "no output " + name);
    const onnx::Tensor *a = value.tensor(), *b = found->second.tensor();
    if ((a == nullptr) != (b == nullptr)) fail(way.name, "output " + name + " of another kind");
    if (a == nullptr) continue;
    if (a->dtype() != b->dtype() || (!random && a->dims() != b->dims())) {
      fail(way.name, "output " + name + " is " + type_text(found->second) + ", want " + type_text(value));
    }
    if (!random && a->dims() == b->dims() && !close(*a, *b)) fail(way.name, "output " + name + " has other values");
  }
}

// What compiles whole is written as a model that reads well.
void export_model(const onnx::Session& session) {
  onnx::OptimizeOptions options;
  for (const onnx::ValueInfo& input : session.inputs()) {
    if (session.may_be_left_out(input) || !input.type.shape) continue;
    for (size_t axis = 0; axis < input.type.shape->size(); ++axis) {
      const auto& dim = (*input.type.shape)[axis];
      if (dim.value < 0) options.dims[dim.symbol.empty() ? input.name + "." + std::to_string(axis) : dim.symbol] = 2;
    }
  }
  const auto model = onnx::optimize(session, options);
  if (!model && model.error().message().empty()) fail("optimize", "an error without a message");
  if (!model && model.error().code() == Code::internal) fail("optimize", model.error().message());
}

void compile_and_run(const onnx::Model& model, const std::map<std::string, onnx::Value>& inputs,
                     const Result<std::map<std::string, onnx::Value>>& want) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    if (way.reference) continue;
    onnx::Session::Options options{.limits = kLimits, .threads = 1, .memory_limit = 32 << 20};
    if (!way.passes) options.compile.skip_passes = {"all"};
    const auto session = onnx::Session::make(model, options);
    const auto got = session ? session->run(inputs) : Result<std::map<std::string, onnx::Value>>(tl::unexpected(session.error()));
    if (session && way.passes) export_model(*session);
    if (got && want) compare(way, model, *want, *got);
    if (got) continue;
    if (got.error().message().empty()) fail(way.name, "an error without a message");
    if (got.error().code() == Code::internal) fail(way.name, got.error().message());
    // Without limits' help the reference had an answer.
    if (want && got.error().code() != Code::resource_exhausted) fail(way.name, got.error().message());
  }
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
  compile_and_run(model, inputs, outputs);
  if (!outputs) {
    if (outputs.error().message().empty()) fail("error", "without a message");
    return;
  }
  for (const auto& [name, value] : *outputs) {
    check_value(value);
    if (const auto fact = facts.find(name); fact != facts.end() && !holds(fact->second.type, value)) {
      fail("infer", name + " is " + onnx::describe(onnx::type_of(value)) + ", inferred " + onnx::describe(fact->second.type));
    }
  }
}

void parse_and_run(std::span<const std::byte> bytes) {
  static fuzz::Reached reached("nodes with attributes");
  reached.input();
  const auto model = onnx::parse_model(bytes, "");
  if (!model) {
    if (model.error().message().empty()) fail("error", "without a message");
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

namespace {

// Changes one message by its bytes; false where they are none any more.
template <class Message>
bool mutate(Message& message) {
  std::string bytes = message.SerializeAsString();
  const size_t before = bytes.size();
  bytes.resize(before + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), before, bytes.size()));
  Message changed;
  if (!changed.ParseFromString(bytes)) return false;
  message = changed;
  return true;
}

// Element `seed` of a list, counted round.
template <class List>
auto* pick(List* list, unsigned seed) {
  return list->size() == 0 ? nullptr : list->Mutable(static_cast<int>(seed % static_cast<unsigned>(list->size())));
}

// Sets one of the integers that attributes, dims and small constants hold to one that is often special.
void set_integer(::onnx::NodeProto& node, unsigned seed) {
  constexpr int64_t kSpecial[] = {
      0, 1, -1, 2, 3, -2, 4, 7, 8, 9, -9, int64_t{1} << 28, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, INT64_MIN,
  };
  const int64_t value = kSpecial[seed / 64 % std::size(kSpecial)];
  auto* attribute = pick(node.mutable_attribute(), seed);
  if (attribute == nullptr) return;
  if (attribute->ints_size() > 0) attribute->set_ints(static_cast<int>(seed / 8 % static_cast<unsigned>(attribute->ints_size())), value);
  else if (attribute->has_i()) attribute->set_i(value);
}

bool change_one(::onnx::ModelProto& model, unsigned seed) {
  auto& graph = *model.mutable_graph();
  const unsigned at = seed / 8;
  switch (seed % 8) {
    case 0: {
      auto* input = pick(graph.mutable_input(), at);
      if (input == nullptr) return false;
      auto& tensor = *input->mutable_type()->mutable_tensor_type();
      auto* dim = pick(tensor.mutable_shape()->mutable_dim(), at / 4);
      // A long axis beside one of 0: a tensor without elements whose loops must end all the same.
      constexpr int64_t kDims[] = {0, 1, 2, 3, 5, 8, 64, int64_t{1} << 33};
      if (dim != nullptr && at % 4 != 0) dim->set_dim_value(kDims[at / 64 % std::size(kDims)]);
      else if (at % 8 == 0) tensor.mutable_shape()->add_dim()->set_dim_value(at / 64 % 3);
      else tensor.set_elem_type(static_cast<int>(at / 64 % 26));
      return true;
    }
    case 1: {
      auto* opset = pick(model.mutable_opset_import(), at);
      if (opset != nullptr) opset->set_version(7 + at % 20);
      return opset != nullptr;
    }
    case 2: {
      auto* tensor = pick(graph.mutable_initializer(), at);
      return tensor != nullptr && mutate(*tensor);
    }
    case 3:
    case 4: {
      auto* node = pick(graph.mutable_node(), at);
      if (node != nullptr) set_integer(*node, at / 2);
      return node != nullptr;
    }
    default: {
      auto* node = pick(graph.mutable_node(), at);
      return node != nullptr && mutate(*node);
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  ::onnx::ModelProto model;
  if (seed % 4 == 0 || !model.ParseFromArray(data, static_cast<int>(size)) || !change_one(model, seed / 4)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::string result = model.SerializeAsString();
  if (result.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(result.begin(), result.end(), data);
  return result.size();
}

#include "onnx/shape_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "onnx/function.h"
#include "onnx/infer.h"
#include "onnx/interpreter.h"

namespace headrace::onnx {
namespace {

// Of one node whose inputs are constants, for each element that it may read and write.
constexpr uint64_t kFoldBytesPerElement = 256;

// ---- what follows from contents

class NoGraphs final : public GraphRunner, public GraphInference {
 public:
  explicit NoGraphs(uint64_t bytes = 0) : left_(bytes) {}
  Result<std::vector<Value>> run(const Graph&, std::vector<Value>) override {
    return error(Code::unsupported, "a graph within a constant");
  }
  Result<std::vector<Type>> infer(const Graph& graph, const std::vector<ValueFact>&) override {
    return std::vector<Type>(graph.outputs.size());
  }
  Result<std::vector<ValueFact>> infer(const Graph& graph, std::vector<ValueFact>) override {
    return std::vector<ValueFact>(graph.outputs.size());
  }
  Status charge(uint64_t bytes) override {
    if (bytes > left_) return make_status(Code::resource_exhausted, "a constant that is too large");
    left_ -= bytes;
    return {};
  }

 private:
  uint64_t left_;
};

// One node, with what is known of its inputs and, so far, of its outputs.
class Contents {
 public:
  Contents(const OpRow& row, const Node& node, int64_t opset, std::span<const ValueFact> inputs, const InferOptions& options,
           std::vector<ValueFact>& outputs)
      : row_(row), node_(node), opset_(opset), inputs_(inputs), most_(options.fold_elements), outputs_(outputs) {}

  // Computes the node where all inputs are constants, or moves what is known of their elements. Errors: those of the operator that the
  // contents cause.
  Status follow() {
    if (!row_.traits.pure || keeps_constants() || !outputs_are_small()) return {};
    bool constant = true, single = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].left_out) continue;
      if (inputs_[i].constant && is_small(*inputs_[i].constant)) continue;
      constant = false;
      if (!inputs_[i].elements || !is_moved(i)) return {};
      single = true;
    }
    if (constant) return compute();
    return single ? move_elements() : Status();
  }

 private:
  // Weights of 8 bits stay what they are, however small: arithmetic of 8 bits (fuse_qdq) wants to see them.
  bool keeps_constants() const { return row_.name == "DequantizeLinear"; }
  bool is_small(const Tensor& tensor) const { return tensor.elements() <= most_ && tensor.dtype() != DType::string; }
  bool is_moved(size_t input) const { return input < 32 && (row_.traits.moves >> input & 1) != 0; }

  bool outputs_are_small() const {
    for (const ValueFact& output : outputs_) {
      if (output.constant) return false;  // known by its rule
      if (output.type.kind == Type::Kind::unknown) continue;
      if (output.type.kind != Type::Kind::tensor || output.type.dtype == DType::string) return false;
      const std::optional<Dims> dims = output.type.shape ? known_dims(*output.type.shape) : std::nullopt;
      if (!dims) continue;
      const auto count = count_elements(*dims);
      if (!count || *count > most_) return false;
    }
    return true;
  }

  // The operator's outputs; nothing where it would need more than is allowed here.
  Result<std::vector<Value>> run(const std::vector<Value>& values) const {
    NoGraphs graphs(static_cast<uint64_t>(std::max<int64_t>(most_, 0)) * kFoldBytesPerElement);
    OpContext context(node_, opset_, values, graphs);
    if (const Status status = row_.run(context); !status.ok()) {
      if (status.code() == Code::malformed || status.code() == Code::invalid_argument) return tl::unexpected(status);
      return std::vector<Value>();
    }
    return context.take_outputs();
  }

  Status compute() {
    std::vector<Value> values;
    for (const ValueFact& input : inputs_) values.push_back(input.left_out ? Value() : Value(*input.constant));
    HR_ASSIGN_OR_RETURN(const std::vector<Value> results, run(values));
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor* tensor = results[i].tensor();
      if (tensor == nullptr) continue;
      if (is_small(*tensor)) outputs_[i] = constant_fact(*tensor);
      else outputs_[i].type = type_of(results[i]);
    }
    return {};
  }

  // The operator is given numbers of elements in the place of the elements themselves; where these come out they stand again.
  Status move_elements() {
    if (node_.attributes.contains("reduction") || outputs_.empty()) return {};
    const ValueFact* first = nullptr;
    Elements all;
    std::vector<Value> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ValueFact& input = inputs_[i];
      if (input.left_out || !is_moved(i)) {
        values.push_back(input.left_out ? Value() : Value(*input.constant));
        continue;
      }
      if (first == nullptr) first = &input;
      const auto start = static_cast<int64_t>(all.size());
      if (input.elements) {
        all.insert(all.end(), input.elements->begin(), input.elements->end());
      } else {
        const auto integers = integers_of(*input.constant);
        if (!integers) return {};
        for (const int64_t value : *integers) all.push_back({value, ""});
      }
      const std::optional<Dims> dims = input.type.shape ? known_dims(*input.type.shape) : std::nullopt;
      if (!dims || count_elements(*dims).value_or(-1) != std::ssize(all) - start) return {};
      Tensor numbers(DType::i64, *dims);
      for (int64_t k = 0; k < numbers.elements(); ++k) numbers.data<int64_t>()[k] = start + k;
      values.push_back(std::move(numbers));
    }
    HR_ASSIGN_OR_RETURN(const std::vector<Value> results, run(values));
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor* numbers = results[i].tensor();
      // Of a rank above 1 nothing is kept; Cast to what is no index is none of ours.
      if (numbers == nullptr || numbers->rank() > 1 || outputs_[i].type.kind != Type::Kind::tensor) continue;
      const DType dtype = outputs_[i].type.dtype;
      if (dtype != DType::i64 && dtype != DType::i32) continue;
      Elements moved;
      for (const int64_t number : integers_of(*numbers).value_or(Dims())) moved.push_back(all[static_cast<size_t>(number)]);
      for (Element& element : moved) {
        if (element.number && dtype == DType::i32) element.number = static_cast<int32_t>(*element.number);  // as Cast does
      }
      NoGraphs graphs;
      InferContext context(node_, opset_, inputs_, graphs);
      context.set_elements(static_cast<int>(i), dtype, numbers->rank(), std::move(moved));
      outputs_[i] = context.take_outputs()[i];
    }
    return {};
  }

  const OpRow& row_;
  const Node& node_;
  const int64_t opset_;
  const std::span<const ValueFact> inputs_;
  const int64_t most_;
  std::vector<ValueFact>& outputs_;
};

Result<std::vector<ValueFact>> infer_operator(const Node& node, int64_t opset, std::span<const ValueFact> inputs,
                                              const InferOptions& options, GraphInference& graphs) {
  const OpRow* row = node.domain.empty() ? find_op(node.op, opset) : nullptr;
  if (row == nullptr) {
    return error(Code::unsupported, "no operator {}{}{} in opset {}", node.domain, node.domain.empty() ? "" : ".", node.op, opset);
  }
  InferContext context(node, opset, inputs, graphs);
  if (row->infer != nullptr) HR_RETURN_IF_ERROR(row->infer(context));
  std::vector<ValueFact> outputs = context.take_outputs();
  HR_RETURN_IF_ERROR(Contents(*row, node, opset, inputs, options, outputs).follow());
  return outputs;
}

// ---- graphs

using Opsets = std::map<std::string, int64_t>;

struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, ValueFact> facts;

  const ValueFact* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      const auto found = scope->facts.find(name);
      if (found != scope->facts.end()) return &found->second;
    }
    return nullptr;
  }
};

class Inference {
 public:
  Inference(const Model& model, const InferOptions& options) : functions_(model), options_(options) {}

  Status nodes(std::span<const Node> nodes, const Opsets& opsets, Scope& scope, int depth);
  Result<std::vector<ValueFact>> graph(const Graph& graph, std::vector<ValueFact> inputs, const Opsets& opsets, const Scope& outer,
                                       int depth);

 private:
  Result<std::vector<ValueFact>> node(const Node& node, const Opsets& opsets, const Scope& scope, int depth);
  Result<std::vector<ValueFact>> function(const Function& function, const Node& call, std::vector<ValueFact> inputs, int depth);

  const FunctionTable functions_;
  const InferOptions& options_;
  int64_t num_nodes_ = 0;  // looked at, those of bodies each time
};

// The graphs that one node holds.
class NodeGraphs final : public GraphInference {
 public:
  NodeGraphs(Inference& inference, const Opsets& opsets, const Scope& scope, int depth)
      : inference_(inference), opsets_(opsets), scope_(scope), depth_(depth) {}
  Result<std::vector<ValueFact>> infer(const Graph& graph, std::vector<ValueFact> inputs) override {
    return inference_.graph(graph, std::move(inputs), opsets_, scope_, depth_ + 1);
  }

 private:
  Inference& inference_;
  const Opsets& opsets_;
  const Scope& scope_;
  const int depth_;
};

Status Inference::nodes(std::span<const Node> nodes, const Opsets& opsets, Scope& scope, int depth) {
  if (depth > Interpreter::kMaxDepth) {
    return make_status(Code::resource_exhausted, "graphs and functions deeper than {}", Interpreter::kMaxDepth);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (++num_nodes_ > Interpreter::kMaxNodes) {
      return make_status(Code::resource_exhausted, "types of more than {} nodes, those of bodies each time", Interpreter::kMaxNodes);
    }
    auto outputs = node(nodes[i], opsets, scope, depth);
    if (!outputs) return outputs.error().with_context(nodes[i].describe(i));
    for (size_t k = 0; k < nodes[i].outputs.size() && k < outputs->size(); ++k) {
      if (!nodes[i].outputs[k].empty()) scope.facts[nodes[i].outputs[k]] = std::move((*outputs)[k]);
    }
  }
  return {};
}

Result<std::vector<ValueFact>> Inference::node(const Node& node, const Opsets& opsets, const Scope& scope, int depth) {
  std::vector<ValueFact> inputs;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.push_back({.left_out = true});
      continue;
    }
    const ValueFact* fact = scope.find(name);
    if (fact == nullptr) return error(Code::malformed, "no value \"{}\"", name);
    inputs.push_back(*fact);
  }
  if (const Function* called = functions_.find(node)) return function(*called, node, std::move(inputs), depth + 1);
  const auto imported = opsets.find(node.domain);
  if (node.opset == 0 && imported == opsets.end()) {
    return error(Code::malformed, "no opset is imported for the domain \"{}\"", node.domain);
  }
  NodeGraphs graphs(*this, opsets, scope, depth);
  return infer_operator(node, node.opset != 0 ? node.opset : imported->second, inputs, options_, graphs);
}

Result<ValueFact> output_of(const Scope& scope, const std::string& name) {
  const ValueFact* fact = scope.find(name);
  if (fact == nullptr) return error(Code::malformed, "no value for output \"{}\"", name);
  return *fact;
}

Result<std::vector<ValueFact>> Inference::graph(const Graph& graph, std::vector<ValueFact> inputs, const Opsets& opsets, const Scope& outer,
                                                int depth) {
  if (inputs.size() > graph.inputs.size()) {
    return error(Code::malformed, "a graph of {} inputs is given {}", graph.inputs.size(), inputs.size());
  }
  Scope scope{&outer, {}};
  for (const auto& [name, tensor] : graph.initializers) scope.facts[name] = constant_fact(tensor);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const bool given = i < inputs.size() && !inputs[i].left_out;
    if (given) scope.facts[graph.inputs[i].name] = std::move(inputs[i]);
    else scope.facts.try_emplace(graph.inputs[i].name, ValueFact{.left_out = true});
  }
  HR_RETURN_IF_ERROR(nodes(graph.nodes, opsets, scope, depth));
  std::vector<ValueFact> outputs;
  for (const ValueInfo& output : graph.outputs) {
    HR_ASSIGN_OR_RETURN(outputs.emplace_back(), output_of(scope, output.name));
  }
  return outputs;
}

Result<std::vector<ValueFact>> Inference::function(const Function& function, const Node& call, std::vector<ValueFact> inputs, int depth) {
  HR_ASSIGN_OR_RETURN(const std::vector<Node> body, bind_function(function, call));
  Scope scope;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    scope.facts[function.inputs[i]] = i < inputs.size() ? std::move(inputs[i]) : ValueFact{.left_out = true};
  }
  HR_RETURN_IF_ERROR(nodes(body, function.opsets, scope, depth));
  std::vector<ValueFact> outputs;
  for (const std::string& output : function.outputs) {
    HR_ASSIGN_OR_RETURN(outputs.emplace_back(), output_of(scope, output));
  }
  return outputs;
}

// The declared type of an input and the one that is given for it. Errors: invalid_argument where they contradict each other.
Result<Type> input_type(const ValueInfo& declared, const Type& given) {
  const Type& own = declared.type;
  if (own.kind == Type::Kind::unknown) return given;
  const auto differs = [&] {
    return error(Code::invalid_argument, "input {}: want {}, got {}", declared.name, describe(own), describe(given));
  };
  if (own.kind != given.kind || (own.kind == Type::Kind::tensor && own.dtype != given.dtype)) return differs();
  if (own.kind != Type::Kind::tensor || !own.shape || !given.shape) return given.shape || own.kind != Type::Kind::tensor ? given : own;
  auto shape = agreed(*given.shape, *own.shape, "dims");
  if (!shape) return differs();
  return tensor_type(own.dtype, std::move(*shape));
}

}  // namespace

Result<std::vector<ValueFact>> infer_node(const Node& node, int64_t opset, std::span<const ValueFact> inputs, const InferOptions& options) {
  if (inputs.size() != node.inputs.size()) {
    return error(Code::invalid_argument, "{}: facts of {} inputs, the node has {}", node.op, inputs.size(), node.inputs.size());
  }
  NoGraphs graphs;
  return infer_operator(node, opset, inputs, options, graphs);
}

Result<std::map<std::string, ValueFact>> infer_types(const Model& model, const std::map<std::string, Type>& inputs,
                                                     const InferOptions& options) {
  const Graph& graph = model.graph;
  Scope scope;
  for (const auto& [name, tensor] : graph.initializers) scope.facts[name] = constant_fact(tensor);
  std::set<std::string_view> names;
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, type] : inputs) {
    if (!names.contains(name)) {
      return error(Code::invalid_argument, "input {}: the model has none of that name", name);
    }
  }
  for (const ValueInfo& input : graph.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      scope.facts.try_emplace(input.name, ValueFact{.type = input.type});
      continue;
    }
    HR_ASSIGN_OR_RETURN(Type type, input_type(input, given->second));
    scope.facts[input.name] = {.type = std::move(type)};
  }
  Inference inference(model, options);
  HR_RETURN_IF_ERROR(inference.nodes(graph.nodes, model.opsets, scope, 0));
  return std::move(scope.facts);
}

Result<std::vector<Type>> infer_held_graph(const Graph& graph, const std::vector<ValueFact>& inputs,
                                           const std::map<std::string, ValueFact>& outer,
                                           const std::map<std::string, int64_t>& opsets, const Model& functions) {
  const Scope around{nullptr, outer};
  const InferOptions options;
  Inference inference(functions, options);
  HR_ASSIGN_OR_RETURN(const std::vector<ValueFact> outputs, inference.graph(graph, inputs, opsets, around, 0));
  std::vector<Type> types;
  for (const ValueFact& output : outputs) types.push_back(output.type);
  return types;
}

}  // namespace headrace::onnx

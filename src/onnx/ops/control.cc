// If, Loop and Scan.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

// Both branches must be there, whichever is taken: what an If is does not depend on the run.
Result<const Graph*> branch_of(OpContext& context, bool taken) {
  const Graph* chosen = nullptr;
  for (const bool then_branch : {true, false}) {
    HR_ASSIGN_OR_RETURN(const Graph* graph, context.graph(then_branch ? "then_branch" : "else_branch"));
    if (static_cast<int>(graph->outputs.size()) < context.num_outputs()) {
      return error(Code::malformed, "the branch has {} outputs, the node {}", graph->outputs.size(), context.num_outputs());
    }
    if (then_branch == taken) chosen = graph;
  }
  return chosen;
}

Status run_if(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* condition, context.input(0));
  HR_ASSIGN_OR_RETURN(const bool taken, truth_of(*condition));
  HR_ASSIGN_OR_RETURN(const Graph* graph, branch_of(context, taken));
  HR_ASSIGN_OR_RETURN(std::vector<Value> outputs, context.graphs().run(*graph, {}));
  for (int i = 0; i < context.num_outputs(); ++i) context.set(i, std::move(outputs[static_cast<size_t>(i)]));
  return {};
}

// Tensors of one type and shape, side by side along a new axis. `axis` counts in the result.
Result<Tensor> stack(OpContext& context, std::vector<Tensor> slices, int axis) {
  for (Tensor& slice : slices) {
    Dims dims = slice.dims();
    dims.insert(dims.begin() + std::min(axis, slice.rank()), 1);
    slice = slice.reshaped(std::move(dims));
  }
  auto all = concatenated(context, slices, axis);
  if (!all) return tl::unexpected(all.error().with_context("what is collected in each turn"));
  return all;
}

// The tensor at `index` along `axis`.
Result<Tensor> slice_at(OpContext& context, const Tensor& tensor, int axis, int64_t index) {
  HR_ASSIGN_OR_RETURN(const Tensor slice, part_of(context, tensor, axis, index, 1));
  Dims dims = tensor.dims();
  dims.erase(dims.begin() + axis);
  return slice.reshaped(std::move(dims));
}

Result<Tensor> tensor_of(Value value, const char* what) {
  if (Tensor* tensor = std::get_if<Tensor>(&value.what)) return std::move(*tensor);
  return error(Code::malformed, "{}: want a tensor", what);
}

// The type of what a body would give in each turn: what follows from its nodes, else what it declares. Errors: malformed without either.
Result<Type> slice_type(const Type& inferred, const ValueInfo& declared) {
  const Type& type = inferred.kind == Type::Kind::unknown ? declared.type : inferred;
  if (type.kind == Type::Kind::tensor) return type;
  return error(Code::malformed, "no turn is taken, and what the body gives as \"{}\" has no type that it declares or that follows",
               declared.name);
}

// What is collected when the loop never turns: nothing, `axis` (counted in the result) 0 long; unknown dims are 0.
Result<Tensor> empty_collection(const Type& slice, int64_t axis) {
  Dims dims;
  if (slice.shape) {
    for (const Dim& dim : *slice.shape) dims.push_back(std::max<int64_t>(dim.value, 0));
  }
  HR_ASSIGN_OR_RETURN(const int at, normalize_axis(axis, static_cast<int>(dims.size()) + 1));
  dims.insert(dims.begin() + at, 0);
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(dims));
  return Tensor(slice.dtype, dims);
}

// What a body's outputs from `first` on collect without a turn. `inputs`: what it would be given. `axes`: as Scan has them.
Result<std::vector<Tensor>> empty_collections(OpContext& context, const Graph& body, size_t first, const std::vector<ValueFact>& inputs,
                                              const std::vector<int64_t>& axes) {
  auto inferred = context.graphs().infer(body, inputs);
  if (!inferred && inferred.error().code() == Code::resource_exhausted) return tl::unexpected(inferred.error());
  // A body that would fail never runs.
  std::vector<Type> types = inferred ? *std::move(inferred) : std::vector<Type>();
  types.resize(body.outputs.size());
  std::vector<Tensor> collections;
  for (size_t i = first; i < body.outputs.size(); ++i) {
    HR_ASSIGN_OR_RETURN(const Type slice, slice_type(types[i], body.outputs[i]));
    HR_ASSIGN_OR_RETURN(Tensor nothing, empty_collection(slice, i - first < axes.size() ? axes[i - first] : 0));
    collections.push_back(std::move(nothing));
  }
  return collections;
}

// What a loop's body is given in a turn: its number, that it is taken, the state.
std::vector<ValueFact> turn_facts(const std::vector<ValueFact>& state) {
  std::vector<ValueFact> inputs = {{.type = tensor_type(DType::i64, Shape())}, constant_fact(Tensor::scalar(true))};
  inputs.insert(inputs.end(), state.begin(), state.end());
  return inputs;
}

Status run_loop(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  int64_t most = std::numeric_limits<int64_t>::max();
  bool go_on = true;
  if (context.has_input(0)) {
    HR_ASSIGN_OR_RETURN(const std::vector<int64_t> count, context.integers(0));
    if (count.size() != 1) return make_status(Code::malformed, "the number of turns: want one integer, got {}", count.size());
    most = count[0];
  }
  if (context.has_input(1)) {
    HR_ASSIGN_OR_RETURN(const Tensor* condition, context.input(1));
    HR_ASSIGN_OR_RETURN(go_on, truth_of(*condition));
  }
  const size_t carried = static_cast<size_t>(std::max(0, context.num_inputs() - 2));
  if (body->inputs.size() != carried + 2 || body->outputs.size() < carried + 1) {
    return make_status(Code::malformed, "the body has {} inputs and {} outputs, the node carries {} values", body->inputs.size(),
                       body->outputs.size(), carried);
  }
  std::vector<Value> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(context.value(static_cast<int>(i) + 2));
  std::vector<std::vector<Tensor>> collected(body->outputs.size() - carried - 1);
  for (int64_t turn = 0; turn < most && go_on; ++turn) {
    std::vector<Value> inputs = {Tensor::scalar(turn), Tensor::scalar(true)};
    for (Value& value : state) inputs.push_back(std::move(value));
    HR_ASSIGN_OR_RETURN(std::vector<Value> outputs, context.graphs().run(*body, std::move(inputs)));
    HR_ASSIGN_OR_RETURN(const Tensor condition, tensor_of(std::move(outputs[0]), "the body's condition"));
    HR_ASSIGN_OR_RETURN(go_on, truth_of(condition));
    for (size_t i = 0; i < carried; ++i) state[i] = std::move(outputs[i + 1]);
    for (size_t i = 0; i < collected.size(); ++i) {
      HR_ASSIGN_OR_RETURN(Tensor slice, tensor_of(std::move(outputs[carried + 1 + i]), "what the body gives in each turn"));
      collected[i].push_back(std::move(slice));
    }
  }
  if (!collected.empty() && collected[0].empty()) {
    std::vector<ValueFact> now;
    for (const Value& value : state) now.push_back({.type = type_of(value)});
    HR_ASSIGN_OR_RETURN(std::vector<Tensor> nothing, empty_collections(context, *body, carried + 1, turn_facts(now), {}));
    for (size_t i = 0; i < nothing.size(); ++i) context.set(static_cast<int>(carried + i), std::move(nothing[i]));
    collected.clear();
  }
  for (size_t i = 0; i < carried; ++i) context.set(static_cast<int>(i), std::move(state[i]));
  for (size_t i = 0; i < collected.size(); ++i) {
    const auto output = static_cast<int>(carried + i);
    HR_ASSIGN_OR_RETURN(Tensor all, stack(context, std::move(collected[i]), 0));
    context.set(output, std::move(all));
  }
  return {};
}

// `sequences`: the scanned inputs, all as long along their axes.
Result<std::vector<Value>> scan(OpContext& context, const Graph& body, std::vector<Value> state, const std::vector<Tensor>& sequences,
                                const std::vector<int64_t>& input_axes, const std::vector<int64_t>& input_backward,
                                const std::vector<int64_t>& output_axes, const std::vector<int64_t>& output_backward) {
  const size_t carried = state.size(), scanned = sequences.size(), collected_count = body.outputs.size() - carried;
  std::vector<int> axes;
  int64_t length = -1;
  for (size_t i = 0; i < scanned; ++i) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(i < input_axes.size() ? input_axes[i] : 0, sequences[i].rank()));
    axes.push_back(axis);
    const int64_t own = sequences[i].dim(axis);
    if (length >= 0 && own != length) return error(Code::malformed, "scanned inputs are {} and {} long", length, own);
    length = own;
  }
  std::vector<std::vector<Tensor>> collected(collected_count);
  for (int64_t turn = 0; turn < length; ++turn) {
    std::vector<Value> inputs;
    for (Value& value : state) inputs.push_back(std::move(value));
    for (size_t i = 0; i < scanned; ++i) {
      const bool backward = i < input_backward.size() && input_backward[i] != 0;
      HR_ASSIGN_OR_RETURN(Tensor slice, slice_at(context, sequences[i], axes[i], backward ? length - 1 - turn : turn));
      inputs.push_back(std::move(slice));
    }
    HR_ASSIGN_OR_RETURN(std::vector<Value> outputs, context.graphs().run(body, std::move(inputs)));
    for (size_t i = 0; i < carried; ++i) state[i] = std::move(outputs[i]);
    for (size_t i = 0; i < collected_count; ++i) {
      HR_ASSIGN_OR_RETURN(Tensor slice, tensor_of(std::move(outputs[carried + i]), "what the body gives in each turn"));
      collected[i].push_back(std::move(slice));
    }
  }
  if (collected_count > 0 && collected[0].empty()) {
    std::vector<ValueFact> inputs;
    for (const Value& value : state) inputs.push_back({.type = type_of(value)});
    for (size_t i = 0; i < scanned; ++i) {
      Dims dims = sequences[i].dims();
      dims.erase(dims.begin() + axes[i]);
      inputs.push_back({.type = tensor_type(sequences[i].dtype(), shape_of(dims))});
    }
    HR_ASSIGN_OR_RETURN(std::vector<Tensor> nothing, empty_collections(context, body, carried, inputs, output_axes));
    std::ranges::move(nothing, std::back_inserter(state));
    return state;
  }
  for (size_t i = 0; i < collected_count; ++i) {
    if (i < output_backward.size() && output_backward[i] != 0) std::ranges::reverse(collected[i]);
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(i < output_axes.size() ? output_axes[i] : 0, collected[i].front().rank() + 1));
    HR_ASSIGN_OR_RETURN(Tensor all, stack(context, std::move(collected[i]), axis));
    state.push_back(std::move(all));
  }
  return state;
}

Result<std::vector<Tensor>> tensors_from(const OpContext& context, int first) {
  std::vector<Tensor> tensors;
  for (int i = first; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(i));
    tensors.push_back(*tensor);
  }
  return tensors;
}

// Which of the node's inputs and outputs a body's are; `fixed`: inputs before them all.
Status check_scan(const NodeReader& context, const Graph& body, int64_t scanned, int fixed) {
  const int64_t inputs = context.num_inputs() - fixed;
  const bool fits = scanned >= 1 && scanned <= inputs && std::ssize(body.inputs) == inputs && std::ssize(body.outputs) >= inputs - scanned;
  if (fits) return {};
  return make_status(Code::malformed, "num_scan_inputs: want 1 to {} for {} inputs and a body of {} and {} outputs, got {}",
                     std::max<int64_t>(inputs, 0), inputs, body.inputs.size(), body.outputs.size(), scanned);
}

Status run_scan(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  HR_ASSIGN_OR_RETURN(const int64_t scanned, context.integer("num_scan_inputs", 0));
  HR_RETURN_IF_ERROR(check_scan(context, *body, scanned, 0));
  HR_ASSIGN_OR_RETURN(const auto input_axes, context.integers("scan_input_axes", {}));
  HR_ASSIGN_OR_RETURN(const auto input_backward, context.integers("scan_input_directions", {}));
  HR_ASSIGN_OR_RETURN(const auto output_axes, context.integers("scan_output_axes", {}));
  HR_ASSIGN_OR_RETURN(const auto output_backward, context.integers("scan_output_directions", {}));
  const int carried = context.num_inputs() - static_cast<int>(scanned);
  std::vector<Value> state;
  for (int i = 0; i < carried; ++i) state.push_back(context.value(i));
  HR_ASSIGN_OR_RETURN(const std::vector<Tensor> sequences, tensors_from(context, carried));
  HR_ASSIGN_OR_RETURN(std::vector<Value> outputs,
                      scan(context, *body, std::move(state), sequences, input_axes, input_backward, output_axes, output_backward));
  for (size_t i = 0; i < outputs.size(); ++i) context.set(static_cast<int>(i), std::move(outputs[i]));
  return {};
}

// Opset 8: every value has a leading batch axis, sequences may be shorter than the longest, an input before all others says how long.
Status run_scan_batched(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  HR_ASSIGN_OR_RETURN(const int64_t scanned, context.integer("num_scan_inputs", 0));
  HR_RETURN_IF_ERROR(check_scan(context, *body, scanned, 1));
  if (context.has_input(0)) return make_status(Code::unsupported, "Scan of opset 8 with sequence_lens");
  HR_ASSIGN_OR_RETURN(const auto backward, context.integers("directions", {}));
  HR_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, tensors_from(context, 1));
  const size_t carried = inputs.size() - static_cast<size_t>(scanned);
  const int64_t batch = inputs.back().rank() > 0 ? inputs.back().dim(0) : 0;
  std::vector<std::vector<Tensor>> results(body->outputs.size());
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Value> state;
    std::vector<Tensor> sequences;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].rank() < 1 || inputs[i].dim(0) != batch) {
        return make_status(Code::malformed, "input {}: want a batch of {}", i + 1, batch);
      }
      HR_ASSIGN_OR_RETURN(Tensor image, slice_at(context, inputs[i], 0, b));
      if (i < carried) state.push_back(std::move(image));
      else sequences.push_back(std::move(image));
    }
    HR_ASSIGN_OR_RETURN(std::vector<Value> outputs, scan(context, *body, std::move(state), sequences, {}, backward, {}, {}));
    for (size_t i = 0; i < outputs.size(); ++i) {
      HR_ASSIGN_OR_RETURN(Tensor tensor, tensor_of(std::move(outputs[i]), "an output"));
      results[i].push_back(std::move(tensor));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].empty()) return make_status(Code::malformed, "a batch of 0");
    HR_ASSIGN_OR_RETURN(Tensor all, stack(context, std::move(results[i]), 0));
    context.set(static_cast<int>(i), std::move(all));
  }
  return {};
}

// ---- types

// The types alone: contents change from turn to turn.
ValueFact without_contents(const ValueFact& fact) { return {.type = fact.type, .constant = {}, .elements = {}, .left_out = fact.left_out}; }

Status infer_if(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact condition, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(condition, DType::boolean, "the condition"));
  HR_ASSIGN_OR_RETURN(const Graph* yes, context.graph("then_branch"));
  HR_ASSIGN_OR_RETURN(const Graph* no, context.graph("else_branch"));
  std::vector<ValueFact> outputs;
  if (const Tensor* known = context.constant(0)) {
    HR_ASSIGN_OR_RETURN(const bool taken, truth_of(*known));
    HR_ASSIGN_OR_RETURN(outputs, context.graphs().infer(taken ? *yes : *no, {}));
  } else {
    auto first = context.graphs().infer(*yes, {});
    if (!first && first.error().code() == Code::resource_exhausted) return first.error();
    auto second = context.graphs().infer(*no, {});
    if (!second && (!first || second.error().code() == Code::resource_exhausted)) return second.error();
    // A branch that would fail is one that is never taken.
    if (!first || !second) {
      outputs = std::move(first ? *first : *second);
      for (ValueFact& output : outputs) output = without_contents(output);
    } else {
      for (size_t i = 0; i < std::min(first->size(), second->size()); ++i) outputs.push_back(common_fact((*first)[i], (*second)[i]));
    }
  }
  if (std::ssize(outputs) < context.num_outputs()) {
    return make_status(Code::malformed, "the branch has {} outputs, the node {}", outputs.size(), context.num_outputs());
  }
  for (int i = 0; i < context.num_outputs(); ++i) context.set(i, std::move(outputs[static_cast<size_t>(i)]));
  return {};
}

// Infers a body until the types of `state` hold before and after every turn: what changes is forgotten, dim by dim, then the rank, then
// all. Gives the body's outputs, of which those from `first` on are the state. `inputs(state)` are the body's inputs.
template <class Inputs>
Result<std::vector<ValueFact>> infer_turns(InferContext& context, const Graph& body, std::vector<ValueFact>& state, size_t first,
                                           Inputs inputs) {
  for (ValueFact& fact : state) fact = without_contents(fact);
  for (int turn = 0;; ++turn) {
    HR_ASSIGN_OR_RETURN(std::vector<ValueFact> outputs, context.graphs().infer(body, inputs(state)));
    if (outputs.size() < first + state.size()) {
      return error(Code::malformed, "the body has {} outputs, the node carries {} values", outputs.size(), state.size());
    }
    bool stands = true;
    for (size_t i = 0; i < state.size(); ++i) {
      Type& before = state[i].type;
      Type common = common_type(before, outputs[first + i].type);
      if (same_type(common, before)) continue;
      stands = false;
      if (turn >= 1 && common.kind == Type::Kind::tensor) common.shape.reset();
      before = turn >= 2 ? Type() : std::move(common);
    }
    if (stands) return outputs;
  }
}

// What turns collect, side by side along `axis`, which counts in the result.
Result<Type> collected_type(const Type& slice, int64_t axis, const Dim& turns) {
  if (slice.kind != Type::Kind::tensor || !slice.shape)
    return slice.kind == Type::Kind::tensor ? tensor_type(slice.dtype, std::nullopt) : Type();
  Shape shape = *slice.shape;
  HR_ASSIGN_OR_RETURN(const int at, normalize_axis(axis, static_cast<int>(shape.size()) + 1));
  shape.insert(shape.begin() + at, turns);
  return tensor_type(slice.dtype, std::move(shape));
}

Status infer_loop(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  const auto carried = static_cast<size_t>(std::max(0, context.num_inputs() - 2));
  if (body->inputs.size() != carried + 2 || body->outputs.size() < carried + 1) {
    return make_status(Code::malformed, "the body has {} inputs and {} outputs, the node carries {} values", body->inputs.size(),
                       body->outputs.size(), carried);
  }
  Dim turns;
  if (context.has_input(0)) {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> most, context.elements(0));
    if (most && most->size() == 1)
      turns = most->front().number ? dim_of(std::max<int64_t>(*most->front().number, 0)) : dim_of(most->front());
  }
  bool starts = true;  // surely, unless there are no turns
  if (context.has_input(1)) {
    starts = false;
    if (const Tensor* condition = context.constant(1)) {
      HR_ASSIGN_OR_RETURN(starts, truth_of(*condition));
      if (!starts) turns = dim_of(0);
      starts = true;
    }
  }
  std::vector<ValueFact> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(context.fact(static_cast<int>(i) + 2));
  if (turns.value == 0 && starts) {
    std::vector<ValueFact> now;
    for (const ValueFact& fact : state) now.push_back(without_contents(fact));
    if (auto outputs = context.graphs().infer(*body, turn_facts(now))) {
      for (size_t i = carried; i + 1 < outputs->size(); ++i) {
        HR_ASSIGN_OR_RETURN(Type type, collected_type((*outputs)[i + 1].type, 0, turns));
        context.set(static_cast<int>(i), std::move(type));
      }
    } else if (outputs.error().code() == Code::resource_exhausted) {
      return outputs.error();
    }
    for (size_t i = 0; i < carried; ++i) context.set(static_cast<int>(i), std::move(state[i]));
    return {};
  }
  HR_ASSIGN_OR_RETURN(const std::vector<ValueFact> outputs, infer_turns(context, *body, state, 1, turn_facts));
  const Tensor* goes_on = outputs[0].constant ? &*outputs[0].constant : nullptr;
  if (!starts || goes_on == nullptr) {
    turns = {};
  } else {
    HR_ASSIGN_OR_RETURN(const bool all, truth_of(*goes_on));
    if (!all) turns = turns.value > 0 || !context.has_input(0) ? dim_of(1) : Dim();
  }
  for (size_t i = 0; i < carried; ++i) context.set(static_cast<int>(i), std::move(state[i]));
  for (size_t i = carried; i + 1 < outputs.size(); ++i) {
    HR_ASSIGN_OR_RETURN(Type type, collected_type(outputs[i + 1].type, 0, turns));
    context.set(static_cast<int>(i), std::move(type));
  }
  return {};
}

// A tensor's type without one axis, whose length every scanned input must have.
Result<ValueFact> infer_slice_at(const Type& type, int64_t given, Dim& length) {
  if (type.kind == Type::Kind::unknown) return ValueFact();
  if (type.kind != Type::Kind::tensor) return error(Code::malformed, "a scanned input: want a tensor, got {}", describe(type));
  if (!type.shape) return ValueFact{.type = type, .constant = {}, .elements = {}};
  Shape shape = *type.shape;
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape.size())));
  HR_ASSIGN_OR_RETURN(length, agreed(length, shape[static_cast<size_t>(axis)], "scanned inputs"));
  shape.erase(shape.begin() + axis);
  return ValueFact{.type = tensor_type(type.dtype, std::move(shape)), .constant = {}, .elements = {}};
}

// `state` and `slices`: what one turn is given. The outputs' types, those of the state first.
Result<std::vector<Type>> infer_scan_turns(InferContext& context, const Graph& body, std::vector<ValueFact> state,
                                           const std::vector<ValueFact>& slices, const std::vector<int64_t>& output_axes,
                                           const Dim& length) {
  HR_ASSIGN_OR_RETURN(const std::vector<ValueFact> outputs, infer_turns(context, body, state, 0, [&](std::vector<ValueFact> now) {
                        now.insert(now.end(), slices.begin(), slices.end());
                        return now;
                      }));
  std::vector<Type> types;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < state.size()) {
      types.push_back(state[i].type);
      continue;
    }
    const size_t at = i - state.size();
    HR_ASSIGN_OR_RETURN(Type type, collected_type(outputs[i].type, at < output_axes.size() ? output_axes[at] : 0, length));
    types.push_back(std::move(type));
  }
  return types;
}

Status infer_scan(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  HR_ASSIGN_OR_RETURN(const int64_t scanned, context.integer("num_scan_inputs", 0));
  HR_RETURN_IF_ERROR(check_scan(context, *body, scanned, 0));
  HR_ASSIGN_OR_RETURN(const auto input_axes, context.integers("scan_input_axes", {}));
  HR_ASSIGN_OR_RETURN(const auto output_axes, context.integers("scan_output_axes", {}));
  const int carried = context.num_inputs() - static_cast<int>(scanned);
  std::vector<ValueFact> state, slices;
  Dim length;
  for (int i = 0; i < carried; ++i) state.push_back(context.fact(i));
  for (int i = carried; i < context.num_inputs(); ++i) {
    const auto at = static_cast<size_t>(i - carried);
    HR_ASSIGN_OR_RETURN(ValueFact slice, infer_slice_at(context.fact(i).type, at < input_axes.size() ? input_axes[at] : 0, length));
    slices.push_back(std::move(slice));
  }
  HR_ASSIGN_OR_RETURN(std::vector<Type> types, infer_scan_turns(context, *body, std::move(state), slices, output_axes, length));
  for (size_t i = 0; i < types.size(); ++i) context.set(static_cast<int>(i), std::move(types[i]));
  return {};
}

Status infer_scan_batched(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  HR_ASSIGN_OR_RETURN(const int64_t scanned, context.integer("num_scan_inputs", 0));
  HR_RETURN_IF_ERROR(check_scan(context, *body, scanned, 1));
  const int carried = context.num_inputs() - 1 - static_cast<int>(scanned);
  std::vector<ValueFact> state, slices;
  Dim batch, length;
  for (int i = 1; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(ValueFact one, infer_slice_at(context.fact(i).type, 0, batch));
    if (i - 1 < carried) {
      state.push_back(std::move(one));
      continue;
    }
    HR_ASSIGN_OR_RETURN(ValueFact slice, infer_slice_at(one.type, 0, length));
    slices.push_back(std::move(slice));
  }
  HR_ASSIGN_OR_RETURN(const std::vector<Type> types, infer_scan_turns(context, *body, std::move(state), slices, {}, length));
  for (size_t i = 0; i < types.size(); ++i) {
    HR_ASSIGN_OR_RETURN(Type type, collected_type(types[i], 0, batch));
    context.set(static_cast<int>(i), std::move(type));
  }
  return {};
}

constexpr OpRow kRows[] = {
    {"If", 1, run_if, infer_if, kNotPure},
    {"Loop", 1, run_loop, infer_loop, kNotPure},
    {"Scan", 8, run_scan_batched, infer_scan_batched, kNotPure},
    {"Scan", 9, run_scan, infer_scan, kNotPure},
};

}  // namespace

std::span<const OpRow> ops_control() { return kRows; }

}  // namespace headrace::onnx

// Sequences of tensors, and optionals.
#include <fmt/format.h>

#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {
namespace {

Result<const Sequence*> sequence_input(const OpContext& context, int index) {
  const Sequence* sequence = index < context.num_inputs() ? context.value(index).sequence() : nullptr;
  if (sequence == nullptr) return error(Code::malformed, "input {}: want a sequence", index);
  return sequence;
}

// A position that input `index` gives, or `otherwise`; `most`: the largest one. Negative ones count from the back of `length`.
Result<int64_t> position_of(const OpContext& context, int index, int64_t length, int64_t most, int64_t otherwise) {
  int64_t position = otherwise;
  if (context.has_input(index)) {
    HR_ASSIGN_OR_RETURN(position, integer_input(context, index));
  }
  if (position < -length || position > most)
    return error(Code::malformed, "position: want {} to {}, got {}", -length, most, position);
  return position < 0 ? position + length : position;
}

Status sequence_construct(OpContext& context) {
  Sequence sequence;
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(i));
    if (i == 0) sequence.dtype = tensor->dtype();
    if (tensor->dtype() != sequence.dtype)
      return make_status(Code::malformed, "input {}: want {}, got {}", i, dtype_name(sequence.dtype),
                         dtype_name(tensor->dtype()));
    sequence.tensors.push_back(*tensor);
  }
  context.set(0, std::move(sequence));
  return {};
}

Status sequence_empty(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::f32));
  context.set(0, Sequence{dtype, {}});
  return {};
}

Status sequence_at(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* sequence, sequence_input(context, 0));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Tensor* given, context.input(1));
  const int64_t length = std::ssize(sequence->tensors);
  HR_ASSIGN_OR_RETURN(const int64_t position, position_of(context, 1, length, length - 1, 0));
  context.set(0, sequence->tensors[static_cast<size_t>(position)]);
  return {};
}

Status sequence_erase(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* given, sequence_input(context, 0));
  const int64_t length = std::ssize(given->tensors);
  HR_ASSIGN_OR_RETURN(const int64_t position, position_of(context, 1, length, length - 1, length - 1));
  if (length == 0) return make_status(Code::malformed, "an empty sequence has nothing to erase");
  Sequence sequence = *given;
  sequence.tensors.erase(sequence.tensors.begin() + position);
  context.set(0, std::move(sequence));
  return {};
}

Status sequence_insert(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* given, sequence_input(context, 0));
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(1));
  const int64_t length = std::ssize(given->tensors);
  HR_ASSIGN_OR_RETURN(const int64_t position, position_of(context, 2, length, length, length));
  if (tensor->dtype() != given->dtype) {
    return make_status(Code::malformed, "a tensor of {} into a sequence of {}", dtype_name(tensor->dtype()),
                       dtype_name(given->dtype));
  }
  Sequence sequence = *given;
  sequence.tensors.insert(sequence.tensors.begin() + position, *tensor);
  context.set(0, std::move(sequence));
  return {};
}

Status sequence_length(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* sequence, sequence_input(context, 0));
  context.set(0, Tensor::scalar<int64_t>(std::ssize(sequence->tensors)));
  return {};
}

Status sequence_map(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* first, sequence_input(context, 0));
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  const Graph& graph = *body;
  if (std::ssize(graph.inputs) != context.num_inputs() || std::ssize(graph.outputs) != context.num_outputs()) {
    return make_status(Code::malformed, "the body has {} inputs and {} outputs, the node {} and {}", graph.inputs.size(),
                       graph.outputs.size(), context.num_inputs(), context.num_outputs());
  }
  std::vector<Sequence> results;
  for (const ValueInfo& output : graph.outputs) results.push_back({output.type.dtype, {}});
  for (size_t i = 0; i < first->tensors.size(); ++i) {
    std::vector<Value> inputs;
    for (int k = 0; k < context.num_inputs(); ++k) {
      const Sequence* sequence = context.value(k).sequence();
      if (sequence != nullptr && sequence->tensors.size() != first->tensors.size()) {
        return make_status(Code::malformed, "input {}: want a sequence of {}, got {}", k, first->tensors.size(),
                           sequence->tensors.size());
      }
      inputs.push_back(sequence == nullptr ? context.value(k) : Value(sequence->tensors[i]));
    }
    HR_ASSIGN_OR_RETURN(const std::vector<Value> outputs, context.graphs().run(graph, std::move(inputs)));
    for (size_t k = 0; k < results.size(); ++k) {
      const Tensor* tensor = outputs[k].tensor();
      if (tensor == nullptr) return make_status(Code::malformed, "output {} of the body: want a tensor", k);
      results[k].dtype = tensor->dtype();
      results[k].tensors.push_back(*tensor);
    }
  }
  for (size_t k = 0; k < results.size(); ++k) context.set(static_cast<int>(k), std::move(results[k]));
  return {};
}

Status split_to_sequence(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, input->rank()));
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  const int64_t length = input->dim(axis);
  Dims lengths;
  if (context.has_input(1) && context.value(1).tensor() != nullptr && context.value(1).tensor()->rank() == 1) {
    HR_ASSIGN_OR_RETURN(lengths, context.integers(1));
  } else {
    int64_t each = 1;
    if (context.has_input(1)) {
      HR_ASSIGN_OR_RETURN(each, integer_input(context, 1));
    }
    if (each < 1) return make_status(Code::malformed, "split: want at least 1, got {}", each);
    HR_RETURN_IF_ERROR(context.graphs().charge(static_cast<uint64_t>(length / each) * sizeof(Tensor)));
    for (int64_t left = length; left > 0; left -= lengths.back()) lengths.push_back(std::min(each, left));
  }
  Sequence sequence{input->dtype(), {}};
  int64_t start = 0;
  for (const int64_t own : lengths) {
    if (own < 0 || own > length - start)
      return make_status(Code::malformed, "split [{}]: want a sum of {}", fmt::join(lengths, ", "), length);
    HR_ASSIGN_OR_RETURN(Tensor part, part_of(context, *input, axis, start, own));
    start += own;
    if (keep == 0 && !context.has_input(1)) {
      Dims dims = part.dims();
      dims.erase(dims.begin() + axis);
      part = part.reshaped(dims);
    }
    sequence.tensors.push_back(std::move(part));
  }
  if (start != length) return make_status(Code::malformed, "split [{}]: want a sum of {}", fmt::join(lengths, ", "), length);
  context.set(0, std::move(sequence));
  return {};
}

Status concat_from_sequence(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Sequence* sequence, sequence_input(context, 0));
  HR_ASSIGN_OR_RETURN(const int64_t new_axis, context.integer("new_axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  if (sequence->tensors.empty() || !context.has("axis"))
    return make_status(Code::malformed, "want a sequence that is not empty, and an axis");
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, sequence->tensors[0].rank() + (new_axis != 0 ? 1 : 0)));
  std::vector<Tensor> parts = sequence->tensors;
  for (Tensor& part : parts) {
    if (new_axis == 0) continue;
    Dims dims = part.dims();
    dims.insert(dims.begin() + std::min<int64_t>(axis, std::ssize(dims)), 1);
    part = part.reshaped(dims);
  }
  HR_ASSIGN_OR_RETURN(Tensor all, concatenated(context, parts, axis));
  context.set(0, std::move(all));
  return {};
}

Status optional(OpContext& context) {
  Optional result;
  if (context.has_input(0)) result.value = std::make_shared<const Value>(context.value(0));
  if (!context.has_input(0) && !context.has("type")) return make_status(Code::malformed, "want an input or the attribute type");
  context.set(0, std::move(result));
  return {};
}

Status optional_get_element(OpContext& context) {
  if (!context.has_input(0)) return make_status(Code::malformed, "input 0: want an optional, got none");
  const Optional* given = context.value(0).optional();
  if (given != nullptr && given->value == nullptr) return make_status(Code::malformed, "an empty optional has no element");
  context.set(0, given == nullptr ? context.value(0) : *given->value);
  return {};
}

Status optional_has_element(OpContext& context) {
  const Optional* given = context.has_input(0) ? context.value(0).optional() : nullptr;
  context.set(0, Tensor::scalar(context.has_input(0) && (given == nullptr || given->value != nullptr)));
  return {};
}

// ---- types

// What a sequence holds; unknown where nothing is known of it. Errors: malformed for what is surely none.
Result<Type> element_type(const InferContext& context, int index) {
  const ValueFact& fact = context.fact(index);
  if (!fact.left_out && fact.type.kind == Type::Kind::unknown) return Type();
  if (fact.left_out || fact.type.kind != Type::Kind::sequence) {
    return error(Code::malformed, "input {}: want a sequence, got {}", index, fact.left_out ? "none" : describe(fact.type));
  }
  return fact.type.element ? *fact.type.element : Type();
}

Status infer_sequence_construct(InferContext& context) {
  Type element;
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact next, context.input(i));
    const Type& type = context.fact(i).type;
    if (i > 0 && next.dtype && element.kind == Type::Kind::tensor && *next.dtype != element.dtype) {
      return make_status(Code::malformed, "input {}: want {}, got {}", i, dtype_name(element.dtype), dtype_name(*next.dtype));
    }
    element = i == 0 ? type : common_type(element, type);
  }
  context.set(0, sequence_of(std::move(element)));
  return {};
}

Status infer_sequence_empty(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const DType dtype, context.dtype_attribute("dtype", DType::f32));
  context.set(0, sequence_of(tensor_type(dtype, std::nullopt)));
  return {};
}

Status infer_sequence_at(InferContext& context) {
  HR_ASSIGN_OR_RETURN(Type element, element_type(context, 0));
  context.set(0, std::move(element));
  return {};
}

Status infer_sequence_erase(InferContext& context) {
  HR_ASSIGN_OR_RETURN(Type element, element_type(context, 0));
  context.set(0, sequence_of(std::move(element)));
  return {};
}

Status infer_sequence_insert(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const Type element, element_type(context, 0));
  HR_ASSIGN_OR_RETURN(const TensorFact tensor, context.input(1));
  if (tensor.dtype && element.kind == Type::Kind::tensor && *tensor.dtype != element.dtype) {
    return make_status(Code::malformed, "a tensor of {} into a sequence of {}", dtype_name(*tensor.dtype), dtype_name(element.dtype));
  }
  context.set(0, sequence_of(common_type(element, context.fact(1).type)));
  return {};
}

Status infer_sequence_length(InferContext& context) {
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Type element, element_type(context, 0));
  context.set(0, DType::i64, Shape());
  return {};
}

Status infer_sequence_map(InferContext& context) {
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Type first, element_type(context, 0));
  HR_ASSIGN_OR_RETURN(const Graph* body, context.graph("body"));
  if (std::ssize(body->inputs) != context.num_inputs() || std::ssize(body->outputs) != context.num_outputs()) {
    return make_status(Code::malformed, "the body has {} inputs and {} outputs, the node {} and {}", body->inputs.size(),
                       body->outputs.size(), context.num_inputs(), context.num_outputs());
  }
  std::vector<ValueFact> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) {
    ValueFact fact = context.fact(i);
    if (fact.type.kind == Type::Kind::sequence) {
      fact = {.type = fact.type.element ? *fact.type.element : Type(), .constant = {}, .elements = {}};
    }
    inputs.push_back(std::move(fact));
  }
  HR_ASSIGN_OR_RETURN(std::vector<ValueFact> outputs, context.graphs().infer(*body, std::move(inputs)));
  for (size_t i = 0; i < outputs.size(); ++i) context.set(static_cast<int>(i), sequence_of(std::move(outputs[i].type)));
  return {};
}

Status infer_split_to_sequence(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t keep, context.integer("keepdims", 1));
  if (!x.dtype) {
    context.set(0, sequence_of(Type()));
    return {};
  }
  std::optional<Shape> shape = x.shape;
  if (shape) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape->size())));
    Dim& dim = (*shape)[static_cast<size_t>(axis)];
    if (!context.has_input(1)) {
      dim = dim_of(1);
      if (keep == 0) shape->erase(shape->begin() + axis);
    } else {
      // One length where all parts have it.
      HR_ASSIGN_OR_RETURN(const std::optional<Dims> lengths, context.integers(1));
      const bool one_for_all = lengths && !lengths->empty() && std::ranges::count(*lengths, lengths->front()) == std::ssize(*lengths);
      const bool scalar = context.fact(1).type.shape && context.fact(1).type.shape->empty();
      const bool fits = one_for_all && lengths->front() > 0 && (!scalar || (is_known(dim) && dim.value % lengths->front() == 0));
      dim = fits ? dim_of(lengths->front()) : Dim();
    }
  }
  context.set(0, sequence_of(tensor_type(*x.dtype, std::move(shape))));
  return {};
}

Status infer_concat_from_sequence(InferContext& context) {
  HR_ASSIGN_OR_RETURN(Type element, element_type(context, 0));
  HR_ASSIGN_OR_RETURN(const int64_t new_axis, context.integer("new_axis", 0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", 0));
  if (!context.has("axis")) return make_status(Code::malformed, "attribute axis: want one");
  if (element.shape) {
    Shape& shape = *element.shape;
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(shape.size()) + (new_axis != 0 ? 1 : 0)));
    if (new_axis != 0) shape.insert(shape.begin() + axis, Dim());
    else shape[static_cast<size_t>(axis)] = {};
  }
  context.set(0, std::move(element));
  return {};
}

Status infer_optional(InferContext& context) {
  Type type;
  if (context.has_input(0)) {
    type = context.fact(0).type;
  } else if (context.has("type")) {
    type = context.attribute("type")->type;
  } else {
    return make_status(Code::malformed, "want an input or the attribute type");
  }
  Type optional = sequence_of(std::move(type));
  optional.kind = Type::Kind::optional;
  context.set(0, std::move(optional));
  return {};
}

Status infer_optional_get_element(InferContext& context) {
  if (!context.has_input(0)) return make_status(Code::malformed, "input 0: want an optional, got none");
  const ValueFact& given = context.fact(0);
  if (given.type.kind != Type::Kind::optional) context.set(0, given);
  else if (given.type.element) context.set(0, *given.type.element);
  return {};
}

Status infer_optional_has_element(InferContext& context) {
  const ValueFact& given = context.fact(0);
  const bool surely_there = given.type.kind == Type::Kind::tensor || given.type.kind == Type::Kind::sequence;
  if (given.left_out || surely_there) context.set_constant(0, Tensor::scalar(!given.left_out));
  else context.set(0, DType::boolean, Shape());
  return {};
}

constexpr OpRow kRows[] = {
    {"ConcatFromSequence", 11, concat_from_sequence, infer_concat_from_sequence},
    {"Optional", 15, optional, infer_optional},
    {"OptionalGetElement", 15, optional_get_element, infer_optional_get_element},
    {"OptionalHasElement", 15, optional_has_element, infer_optional_has_element},
    {"SequenceAt", 11, sequence_at, infer_sequence_at},
    {"SequenceConstruct", 11, sequence_construct, infer_sequence_construct},
    {"SequenceEmpty", 11, sequence_empty, infer_sequence_empty},
    {"SequenceErase", 11, sequence_erase, infer_sequence_erase},
    {"SequenceInsert", 11, sequence_insert, infer_sequence_insert},
    {"SequenceLength", 11, sequence_length, infer_sequence_length},
    {"SequenceMap", 17, sequence_map, infer_sequence_map, kNotPure},
    {"SplitToSequence", 11, split_to_sequence, infer_split_to_sequence},
};

}  // namespace

std::span<const OpRow> ops_sequence() { return kRows; }

}  // namespace headrace::onnx

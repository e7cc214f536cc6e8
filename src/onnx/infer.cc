#include "onnx/infer.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace::onnx {
namespace {

constexpr size_t kMaxListed = 1024;  // elements that are known one by one

bool is_index(DType dtype) { return dtype == DType::i64 || dtype == DType::i32; }

}  // namespace

// ---- InferContext

InferContext::InferContext(const Node& node, int64_t opset, std::span<const ValueFact> inputs, GraphInference& graphs)
    : NodeReader(node, opset), inputs_(inputs), graphs_(graphs), outputs_(node.outputs.size()) {}

const ValueFact& InferContext::fact(int index) const {
  static const ValueFact none{.left_out = true};
  return index < num_inputs() ? inputs_[static_cast<size_t>(index)] : none;
}

bool InferContext::has_input(int index) const { return !fact(index).left_out; }

Result<TensorFact> InferContext::input(int index) const {
  const ValueFact& known = fact(index);
  if (known.left_out) return error(Code::malformed, "input {}: want a tensor, got none", index);
  if (known.type.kind == Type::Kind::unknown) return TensorFact();
  if (known.type.kind != Type::Kind::tensor) return error(Code::malformed, "input {}: want a tensor, got {}", index, describe(known.type));
  return TensorFact{known.type.dtype, known.type.shape};
}

const Tensor* InferContext::constant(int index) const {
  const ValueFact& known = fact(index);
  return known.constant ? &*known.constant : nullptr;
}

Result<std::optional<Elements>> InferContext::elements(int index) const {
  HR_ASSIGN_OR_RETURN(const TensorFact tensor, input(index));
  if (tensor.dtype && !is_index(*tensor.dtype)) {
    return error(Code::malformed, "input {}: want i64 or i32, got {}", index, dtype_name(*tensor.dtype));
  }
  if (!tensor.shape) return std::optional<Elements>();
  if (tensor.shape->size() > 1) {
    return error(Code::malformed, "input {}: want a list of integers, got a tensor of rank {}", index, tensor.shape->size());
  }
  const int64_t count = tensor.shape->empty() ? 1 : tensor.shape->front().value;
  if (count < 0 || count > static_cast<int64_t>(kMaxListed)) return std::optional<Elements>();
  if (fact(index).elements) return fact(index).elements;
  Elements listed(static_cast<size_t>(count));
  if (const Tensor* values = constant(index)) {
    dispatch<int64_t, int32_t>(values->dtype(), [&]<class T>() {
      for (size_t i = 0; i < listed.size(); ++i) listed[i].number = values->data<T>()[i];
    });
  }
  return std::optional(std::move(listed));
}

Result<std::optional<std::vector<int64_t>>> InferContext::integers(int index) const {
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, elements(index));
  if (!listed) return std::optional<std::vector<int64_t>>();
  std::vector<int64_t> numbers;
  for (const Element& element : *listed) {
    if (!element.number) return std::optional<std::vector<int64_t>>();
    numbers.push_back(*element.number);
  }
  return std::optional(std::move(numbers));
}

Result<std::optional<int64_t>> InferContext::integer_input(int index) const {
  HR_ASSIGN_OR_RETURN(const TensorFact tensor, input(index));
  if (tensor.dtype && is_index(*tensor.dtype) && tensor.shape && tensor.shape->size() <= 1) {
    HR_ASSIGN_OR_RETURN(const std::optional<Elements> listed, elements(index));
    if (listed && listed->size() != 1) return error(Code::malformed, "input {}: want one integer, got {}", index, listed->size());
    return listed ? listed->front().number : std::nullopt;
  }
  const Tensor* values = constant(index);
  if (values == nullptr) return std::optional<int64_t>();
  std::optional<int64_t> number;
  const bool known = dispatch<int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t, uint8_t>(values->dtype(), [&]<class T>() {
    if (values->elements() == 1) number = static_cast<int64_t>(*values->data<T>());
  });
  if (!known || !number) {
    return error(Code::malformed, "input {}: want one integer, got {} of {}", index, values->elements(), dtype_name(values->dtype()));
  }
  return number;
}

void InferContext::set(int index, ValueFact fact) {
  // The operator itself refuses such a rank; here it is forgotten before it doubles again.
  if (fact.type.shape && fact.type.shape->size() > kMaxTensorRank) fact.type.shape.reset();
  if (index < num_outputs()) outputs_[static_cast<size_t>(index)] = std::move(fact);
}
void InferContext::set(int index, Type type) { set(index, ValueFact{.type = std::move(type)}); }
void InferContext::set(int index, std::optional<DType> dtype, std::optional<Shape> shape) {
  set(index, dtype ? tensor_type(*dtype, std::move(shape)) : Type());
}
void InferContext::set_constant(int index, Tensor tensor) { set(index, constant_fact(std::move(tensor))); }

void InferContext::set_elements(int index, DType dtype, int rank, Elements elements) {
  CHECK(is_index(dtype) && (rank == 1 || elements.size() == 1));
  const Dims dims = rank == 0 ? Dims() : Dims{static_cast<int64_t>(elements.size())};
  if (std::ranges::all_of(elements, [](const Element& element) { return element.number.has_value(); })) {
    Tensor values(dtype, dims);
    dispatch<int64_t, int32_t>(dtype, [&]<class T>() {
      for (size_t i = 0; i < elements.size(); ++i) values.data<T>()[i] = static_cast<T>(*elements[i].number);
    });
    set_constant(index, std::move(values));
    return;
  }
  ValueFact fact{.type = tensor_type(dtype, shape_of(dims))};
  if (elements.size() <= kMaxListed) fact.elements = std::move(elements);
  set(index, std::move(fact));
}

// ---- dims

bool surely_same(const Dim& a, const Dim& b) {
  return is_known(a) ? a.value == b.value : !is_known(b) && !a.symbol.empty() && a.symbol == b.symbol;
}

Shape shape_of(std::span<const int64_t> dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim_of(dim));
  return shape;
}

Shape unknown_shape(size_t rank) { return Shape(rank); }

std::optional<Dims> known_dims(const Shape& shape) {
  Dims dims;
  for (const Dim& dim : shape) {
    if (!is_known(dim)) return std::nullopt;
    dims.push_back(dim.value);
  }
  return dims;
}

Dim sum(const Dim& a, const Dim& b) {
  if (a.value == 0) return b;
  if (b.value == 0) return a;
  int64_t result = 0;
  if (!is_known(a) || !is_known(b) || __builtin_add_overflow(a.value, b.value, &result)) return {};
  return dim_of(result);
}

Dim product(const Dim& a, const Dim& b) {
  if (a.value == 0 || b.value == 0) return dim_of(0);
  if (a.value == 1) return b;
  if (b.value == 1) return a;
  int64_t result = 0;
  if (!is_known(a) || !is_known(b) || __builtin_mul_overflow(a.value, b.value, &result)) return {};
  return dim_of(result);
}

Dim product(std::span<const Dim> dims) {
  Dim result = dim_of(1);
  for (const Dim& dim : dims) {
    if (dim.value == 0) return dim;  // whatever the others are
  }
  for (const Dim& dim : dims) result = product(result, dim);
  return result;
}

Dim quotient(std::span<const Dim> a, std::span<const Dim> b) {
  Shape above(a.begin(), a.end()), below;
  for (const Dim& dim : b) {
    const auto same = std::ranges::find_if(above, [&](const Dim& other) { return !is_known(dim) && surely_same(dim, other); });
    if (same != above.end()) above.erase(same);
    else below.push_back(dim);
  }
  const Dim whole = product(above), part = product(below);
  if (part.value == 1) return whole;
  if (!is_known(whole) || part.value <= 0 || whole.value % part.value != 0) return {};
  return dim_of(whole.value / part.value);
}

Result<Dim> agreed(const Dim& a, const Dim& b, std::string_view name) {
  if (is_known(a) && is_known(b) && a.value != b.value)
    return error(Code::malformed, "{}: want a dim of {}, got {}", name, a.value, b.value);
  if (is_known(a) || (!is_known(b) && !a.symbol.empty())) return a;
  return b;
}

Result<Shape> agreed(const Shape& a, const Shape& b, std::string_view name) {
  bool fits = a.size() == b.size();
  for (size_t i = 0; fits && i < a.size(); ++i) fits = !is_known(a[i]) || !is_known(b[i]) || a[i].value == b[i].value;
  if (!fits) return error(Code::malformed, "{}: want dims {}, got {}", name, describe(a), describe(b));
  Shape both;
  for (size_t i = 0; i < a.size(); ++i) {
    HR_ASSIGN_OR_RETURN(Dim dim, agreed(a[i], b[i], name));
    both.push_back(std::move(dim));
  }
  return both;
}

Result<Dim> broadcast(const Dim& a, const Dim& b) {
  if (a.value == 1) return b;
  if (b.value == 1) return a;
  if (surely_same(a, b)) return a;
  if (is_known(a) && is_known(b)) return error(Code::malformed, "dims of {} and {} do not go together", a.value, b.value);
  // The other one is 1 or this.
  if (is_known(a)) return a;
  if (is_known(b)) return b;
  return Dim();
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim one = dim_of(1);
    auto common = broadcast(i < a.size() ? a[a.size() - 1 - i] : one, i < b.size() ? b[b.size() - 1 - i] : one);
    if (!common) return error(Code::malformed, "dims {} and {} do not go together", describe(a), describe(b));
    shape[shape.size() - 1 - i] = std::move(*common);
  }
  return shape;
}

Status want_rank(const TensorFact& tensor, size_t rank, std::string_view name) {
  if (!tensor.shape || tensor.shape->size() == rank) return {};
  return make_status(Code::malformed, "{}: want rank {}, got dims {}", name, rank, describe(*tensor.shape));
}

Status want_rank_from(const TensorFact& tensor, size_t least, std::string_view name) {
  if (!tensor.shape || tensor.shape->size() >= least) return {};
  return make_status(Code::malformed, "{}: want rank {} or more, got dims {}", name, least, describe(*tensor.shape));
}

Status want_dtype(const TensorFact& tensor, DType dtype, std::string_view name) {
  if (!tensor.dtype || *tensor.dtype == dtype) return {};
  return make_status(Code::malformed, "{}: want {}, got {}", name, dtype_name(dtype), dtype_name(*tensor.dtype));
}

Result<std::optional<DType>> same_dtype(const TensorFact& a, const TensorFact& b) {
  if (a.dtype && b.dtype && *a.dtype != *b.dtype) {
    return error(Code::malformed, "want inputs of one type, got {} and {}", dtype_name(*a.dtype), dtype_name(*b.dtype));
  }
  return a.dtype ? a.dtype : b.dtype;
}

Element element_of(const Dim& dim) { return is_known(dim) ? Element{dim.value, ""} : Element{std::nullopt, dim.symbol}; }

Dim dim_of(const Element& element) {
  if (!element.number) return {-1, element.symbol};
  return *element.number < 0 ? Dim() : dim_of(*element.number);
}

Result<Shape> shape_of(const Elements& elements) {
  Shape shape;
  for (const Element& element : elements) {
    if (element.number && *element.number < 0) return error(Code::malformed, "want dims from 0 on, got {}", *element.number);
    shape.push_back(dim_of(element));
  }
  return shape;
}

// ---- types

Type tensor_type(DType dtype, std::optional<Shape> shape) {
  return {.kind = Type::Kind::tensor, .dtype = dtype, .shape = std::move(shape), .element = nullptr};
}

Type sequence_of(Type element) {
  return {.kind = Type::Kind::sequence, .dtype = {}, .shape = {}, .element = std::make_shared<const Type>(std::move(element))};
}

Type type_of(const Value& value) {
  if (const Tensor* tensor = value.tensor()) return tensor_type(tensor->dtype(), shape_of(tensor->dims()));
  if (const Sequence* sequence = value.sequence()) {
    Type element = tensor_type(sequence->dtype, std::nullopt);
    for (size_t i = 0; i < sequence->tensors.size(); ++i) {
      const Type own = type_of(sequence->tensors[i]);
      element = i == 0 ? own : common_type(element, own);
    }
    return sequence_of(std::move(element));
  }
  if (const Optional* optional = value.optional()) {
    Type type = sequence_of(optional->value == nullptr ? Type() : type_of(*optional->value));
    type.kind = Type::Kind::optional;
    return type;
  }
  return {};
}

bool same_type(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Type::Kind::unknown) return true;
  if (a.kind == Type::Kind::tensor) {
    return a.dtype == b.dtype && a.shape.has_value() == b.shape.has_value() &&
           (!a.shape ||
            std::ranges::equal(*a.shape, *b.shape, [](const Dim& x, const Dim& y) { return x.value == y.value && x.symbol == y.symbol; }));
  }
  return (a.element == nullptr) == (b.element == nullptr) && (a.element == nullptr || same_type(*a.element, *b.element));
}

Type common_type(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.kind == Type::Kind::unknown) return {};
  if (a.kind != Type::Kind::tensor) {
    Type type = sequence_of(a.element && b.element ? common_type(*a.element, *b.element) : Type());
    type.kind = a.kind;
    return type;
  }
  if (a.dtype != b.dtype) return {};
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return tensor_type(a.dtype, std::nullopt);
  Shape shape = *a.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!surely_same(shape[i], (*b.shape)[i])) shape[i] = {};
  }
  return tensor_type(a.dtype, std::move(shape));
}

ValueFact common_fact(const ValueFact& a, const ValueFact& b) {
  ValueFact both{.type = common_type(a.type, b.type)};
  if (a.elements && a.elements == b.elements && same_type(a.type, b.type)) both.elements = a.elements;
  return both;
}

ValueFact constant_fact(Tensor tensor) {
  ValueFact fact{.type = type_of(tensor)};
  fact.constant = std::move(tensor);
  return fact;
}

ValueFact fact_of(const Value& value) {
  if (const Tensor* tensor = value.tensor()) return constant_fact(*tensor);
  return {.type = type_of(value), .left_out = !value.has_value()};
}

// ---- shared rules

Status infer_same(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  context.set(0, x.dtype, std::move(x.shape));
  return {};
}

Status infer_bool(InferContext& context) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  context.set(0, DType::boolean, std::move(x.shape));
  return {};
}

Result<std::optional<Shape>> broadcast_inputs(const InferContext& context, int first, int last) {
  std::optional<Shape> common = Shape();
  for (int i = first; i < last; ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact next, context.input(i));
    if (!next.shape) common.reset();
    if (!common) continue;
    HR_ASSIGN_OR_RETURN(common, broadcast(*common, *next.shape));
  }
  return common;
}

namespace {

Status infer_broadcast_as(InferContext& context, std::optional<DType> result) {
  HR_ASSIGN_OR_RETURN(TensorFact first, context.input(0));
  for (int i = 1; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact next, context.input(i));
    HR_ASSIGN_OR_RETURN(first.dtype, same_dtype(first, next));
  }
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, broadcast_inputs(context, 0, context.num_inputs()));
  context.set(0, result ? result : first.dtype, std::move(shape));
  return {};
}

}  // namespace

Status infer_broadcast(InferContext& context) { return infer_broadcast_as(context, std::nullopt); }
Status infer_compare(InferContext& context) { return infer_broadcast_as(context, DType::boolean); }

Status infer_same_with(InferContext& context, std::string_view dtype_attribute) {
  HR_ASSIGN_OR_RETURN(TensorFact x, context.input(0));
  if (context.has(dtype_attribute)) {
    HR_ASSIGN_OR_RETURN(x.dtype, context.dtype_attribute(dtype_attribute, DType::f32));
  }
  context.set(0, x.dtype, std::move(x.shape));
  return {};
}

}  // namespace headrace::onnx

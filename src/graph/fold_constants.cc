#include "graph/fold_constants.h"

#include <algorithm>
#include <cstring>

#include "core/buffer.h"
#include "graph/interpret.h"
#include "ops/compare.h"
#include "ops/host.h"
#include "ops/movement.h"
#include "ops/quantize_linear.h"

namespace headrace {
namespace {

// Constants live in the graph: results that are larger than what they come from are left to run.
constexpr int64_t kMaxElements = 65536;
// What the float64 reference may be asked for: about a second.
constexpr double kMaxFlops = 1e8;
constexpr int64_t kMaxReferenceElements = int64_t{1} << 24;

// Elements of constant dims, no more than `limit` + 1. Each factor is checked before it is multiplied: no product overflows.
int64_t count_up_to(const Shape& shape, int64_t limit) {
  int64_t count = 1;
  for (const Dim& dim : shape) {
    if (dim.constant() == 0) return 0;
    if (count <= limit) count = dim.constant() > limit ? limit + 1 : count * dim.constant();
  }
  return std::min(count, limit + 1);
}

bool is_number(DType dtype) {
  switch (dtype) {
    case DType::f32: case DType::f16: case DType::bf16: case DType::f64: case DType::boolean:
    case DType::i8: case DType::u8: case DType::i16: case DType::u16:
    case DType::i32: case DType::u32: case DType::i64: case DType::u64: return true;
    default: return false;
  }
}

bool is_real(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

// How output elements of a movement lie in its input, in elements.
struct Window {
  std::vector<int64_t> dims, strides;
  int64_t start = 0;
};

std::vector<int64_t> packed_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return strides;
}

Window window_of(const Node& node, const std::vector<int64_t>& from, std::vector<int64_t> to) {
  const std::vector<int64_t> strides = packed_strides(from);
  Window window{std::move(to), {}, 0};
  window.strides.resize(window.dims.size());
  if (node.op == &ops::transpose) {
    const auto& perm = node.attrs.as<ops::TransposeAttrs>().perm;
    for (size_t axis = 0; axis < perm.size(); ++axis) window.strides[axis] = strides[perm[axis]];
  } else if (node.op == &ops::slice) {
    const auto& slice = node.attrs.as<ops::SliceAttrs>();
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      window.strides[axis] = strides[axis] * slice.step[axis];
      window.start += strides[axis] * slice.begin[axis];
    }
  } else {  // expand: new axes stand in front, axes of 1 repeat
    const size_t lead = window.dims.size() - from.size();
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] != 1) window.strides[lead + axis] = strides[axis];
    }
  }
  return window;
}

template <size_t kBytes>
void copy_elements(std::byte* to, const std::byte* from, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i, to += kBytes, from += stride * static_cast<int64_t>(kBytes)) std::memcpy(to, from, kBytes);
}

// Copies `window` of `from`, packed, to `to`: rows along the last axis.
void copy_window(const Window& window, size_t unit, const std::byte* from, std::byte* to) {
  const size_t rank = window.dims.size();
  const int64_t width = rank == 0 ? 1 : window.dims[rank - 1], stride = rank == 0 ? 1 : window.strides[rank - 1];
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < rank; ++axis) rows *= window.dims[axis];
  if (width == 0) return;
  std::vector<int64_t> index(rank);
  int64_t at = window.start;
  const auto bytes = static_cast<int64_t>(unit);
  for (int64_t row = 0; row < rows; ++row, to += width * bytes) {
    const std::byte* source = from + at * bytes;
    if (stride == 1) {
      std::memcpy(to, source, static_cast<size_t>(width * bytes));
    } else {
      switch (unit) {
        case 1: copy_elements<1>(to, source, width, stride); break;
        case 2: copy_elements<2>(to, source, width, stride); break;
        case 4: copy_elements<4>(to, source, width, stride); break;
        case 8: copy_elements<8>(to, source, width, stride); break;
        default: copy_elements<16>(to, source, width, stride); break;
      }
    }
    for (size_t axis = rank - std::min<size_t>(rank, 1); axis-- > 0;) {
      at += window.strides[axis];
      if (++index[axis] < window.dims[axis]) break;
      at -= window.strides[axis] * window.dims[axis];
      index[axis] = 0;
    }
  }
}

int64_t bytes_of(const ValueType& type) { return type.shape.elements(Bindings()) * static_cast<int64_t>(dtype_bytes(type.dtype)); }

std::shared_ptr<std::byte[]> new_bytes(const ValueType& type) {
  return host_bytes(static_cast<uint64_t>(bytes_of(type)));
}

ValueId fold_window(Rewriter& graph, const Node& node, ValueId input, const ValueType& type, const std::string& name) {
  std::vector<int64_t> to;
  for (const Dim& dim : type.shape) to.push_back(dim.constant());
  std::shared_ptr<std::byte[]> bytes = new_bytes(type);
  copy_window(window_of(node, graph.dims(input), std::move(to)), dtype_bytes(type.dtype), graph.value(input).bytes.hold().get(), bytes.get());
  return graph.constant_bytes(name, type.dtype, type.shape, std::move(bytes));
}

ValueId fold_concat(Rewriter& graph, const Node& node, const ValueType& type, const std::string& name) {
  const int32_t axis = node.attrs.as<ops::ConcatAttrs>().axis;
  int64_t outer = 1, row_bytes = static_cast<int64_t>(dtype_bytes(type.dtype));
  for (int at = 0; at < type.shape.rank(); ++at) (at < axis ? outer : row_bytes) *= type.shape[at].constant();
  std::shared_ptr<std::byte[]> bytes = new_bytes(type);
  int64_t column = 0;
  for (const ValueId input : node.inputs) {
    const Value& part = graph.value(input);
    const std::shared_ptr<const std::byte[]> from = part.bytes.hold();
    int64_t part_bytes = static_cast<int64_t>(dtype_bytes(type.dtype));
    for (int at = axis; at < part.type.shape.rank(); ++at) part_bytes *= part.type.shape[at].constant();
    for (int64_t row = 0; row < outer; ++row) {
      std::memcpy(bytes.get() + row * row_bytes + column, from.get() + row * part_bytes, static_cast<size_t>(part_bytes));
    }
    column += part_bytes;
  }
  return graph.constant_bytes(name, type.dtype, type.shape, std::move(bytes));
}

// By bytes; kNone where the reference has to do it.
ValueId fold_movement(Rewriter& graph, const Node& node) {
  const ValueType type = graph.type(node.outputs[0]);
  const std::string name = graph.value(node.outputs[0]).name;
  const ValueId input = node.inputs[0];
  if (node.op == &ops::reshape) return graph.constant_bytes(name, type.dtype, type.shape, graph.value(input).bytes);
  if (node.op == &ops::transpose || node.op == &ops::slice || node.op == &ops::expand) {
    return fold_window(graph, node, input, type, name);
  }
  if (node.op == &ops::concat) return fold_concat(graph, node, type, name);
  // What a float too large for an integer becomes, the reference says.
  const bool plain = is_real(type.dtype) || type.dtype == DType::boolean || !is_real(graph.type(input).dtype);
  if (node.op == &ops::cast && plain && is_number(type.dtype) && is_number(graph.type(input).dtype) && type.dtype != DType::i64) {
    return graph.constant(name, type.dtype, graph.dims(input), constant_values(graph.value(input)));
  }
  return kNone;
}

bool is_small_enough(Rewriter& graph, const Node& node, int64_t max_elements) {
  int64_t inputs = 0, outputs = 0;
  for (const ValueId input : node.inputs) {
    if (input != kNone) inputs += count_up_to(graph.type(input).shape, max_elements);
  }
  for (const ValueId output : node.outputs) outputs += count_up_to(graph.type(output).shape, max_elements);
  return outputs <= std::max(kMaxElements, inputs) && std::max(inputs, outputs) <= max_elements;
}

// Whether the op's reference may and can compute `node`.
bool suits_reference(Rewriter& graph, const Node& node) {
  if (node.op->reference == nullptr && !node.op->effects.view) return false;
  if (node.op == &ops::compare && graph.type(node.inputs[0]).dtype == DType::i64) return false;  // a double may round two to one
  for (const std::vector<ValueId>& list : {node.inputs, node.outputs}) {
    for (const ValueId id : list) {
      if (id != kNone && !is_number(graph.type(id).dtype)) return false;
    }
  }
  if (!is_small_enough(graph, node, kMaxReferenceElements)) return false;
  if (node.op->cost == nullptr) return true;
  std::vector<ValueType> inputs, outputs;
  for (const ValueId input : node.inputs) inputs.push_back(graph.type(input));
  for (const ValueId output : node.outputs) outputs.push_back(graph.type(output));
  return node.op->cost({inputs, outputs, node.attrs, Bindings()}).flops <= kMaxFlops;
}

bool is_candidate(Rewriter& graph, const Node& node) {
  const Effects& effects = node.op->effects;
  if (node.dead || !effects.pure() || effects.reads_state || node.inputs.empty() || node.outputs.empty()) return false;
  if (node.op == &ops::host && !node.attrs.as<ops::HostAttrs>().pure) return false;
  for (const ValueId input : node.inputs) {
    if (input != kNone && !graph.is_constant(input)) return false;
  }
  for (const ValueId output : node.outputs) {
    for (const Dim& dim : graph.type(output).shape) {
      if (!dim.is_constant()) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<ValueId> fold_constants(Rewriter& graph, const Node& node, bool with_weights) {
  std::vector<ValueId> folded;
  constexpr int64_t kMany = int64_t{1} << 40;  // movements: whatever the inputs allow
  if (!is_candidate(graph, node) || !is_small_enough(graph, node, kMany)) return folded;
  if (node.op == &ops::dequantize_linear && ops::is_8_bit(graph.type(node.inputs[0]).dtype) && !with_weights) return folded;
  int64_t bytes = 0;
  for (const ValueId output : node.outputs) bytes += bytes_of(graph.type(output));
  if (node.op != &ops::reshape && !graph.affords(bytes)) return folded;
  if (const ValueId moved = fold_movement(graph, node); moved != kNone) return {moved};
  if (!suits_reference(graph, node)) return folded;

  std::vector<HostValue> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(input == kNone ? HostValue{} : constant_on_host(graph.value(input)));
  const Result<std::vector<HostTensor>> results = interpret_node(graph.graph(), node, inputs, Bindings());
  if (!results) {
    graph.fail(results.error());
    return folded;
  }
  for (size_t index = 0; index < results->size(); ++index) {
    // Rounded to the dtype: the constant carries no more than the node would have.
    const HostTensor& result = (*results)[index];
    folded.push_back(graph.constant(graph.value(node.outputs[index]).name, result.dtype, result.dims, result.values));
  }
  return folded;
}

ValueId transposed_constant(Rewriter& graph, ValueId constant, const std::vector<int32_t>& perm) {
  Node node{&ops::transpose, ops::TransposeAttrs{perm}, {constant}, {}, {}, false, false};
  ValueType type = graph.type(constant);
  const Shape from = type.shape;
  for (size_t axis = 0; axis < perm.size(); ++axis) type.shape[static_cast<int>(axis)] = from[perm[axis]];
  return fold_window(graph, node, constant, type, graph.value(constant).name);
}

ValueId reshaped_constant(Rewriter& graph, ValueId constant, const std::vector<int64_t>& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return graph.constant_bytes(graph.value(constant).name, graph.type(constant).dtype, shape, graph.value(constant).bytes);
}

}  // namespace headrace

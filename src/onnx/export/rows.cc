// Ops that look at whole rows: reductions, softmax, normalizations.
#include <algorithm>

#include "onnx/export/writer.h"
#include "onnx/tensor_proto.h"
#include "ops/layer_norm.h"
#include "ops/reduce.h"
#include "ops/rms_norm.h"

namespace headrace::onnx {
namespace {

using Kind = ops::ReduceAttrs::Kind;

const char* operator_of(Kind kind) {
  switch (kind) {
    case Kind::sum: return "ReduceSum";
    case Kind::mean: return "ReduceMean";
    case Kind::max: return "ReduceMax";
    case Kind::min: return "ReduceMin";
    case Kind::prod: return "ReduceProd";
    case Kind::l1: return "ReduceL1";
    case Kind::l2: return "ReduceL2";
    case Kind::sum_square: return "ReduceSumSquare";
    case Kind::log_sum_exp: return "ReduceLogSumExp";
  }
  return "";
}

// Each element by itself. ONNX's operators do not agree on what an empty list of axes means.
Wire write_reduce_of_none(NodeWriter& node, Kind kind, Wire x) {
  if (kind == Kind::l1 || kind == Kind::l2) return node.add("Abs", {x});
  return kind == Kind::sum_square ? node.add("Mul", {x, x}) : node.add("Identity", {x});
}

Status write_reduce(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::ReduceAttrs>();
  const Order order = node.model().best_order(node.node().inputs, node.dims(0).size());
  const Wire x = node.input(0, order);
  if (attrs.axes.empty()) {
    node.set(0, order, write_reduce_of_none(node, attrs.kind, x));
    return {};
  }
  std::vector<int64_t> axes;
  for (const int32_t axis : attrs.axes) axes.push_back(axis_in(order, axis));
  std::ranges::sort(axes);
  Order left;  // the axes of the result in the order in which they stand
  for (const int32_t axis : order) {
    const auto before = std::ranges::lower_bound(attrs.axes, axis);
    if (attrs.keep_dims) left.push_back(axis);
    else if (before == attrs.axes.end() || *before != axis) left.push_back(axis - static_cast<int32_t>(before - attrs.axes.begin()));
  }
  Attributes attributes = {{"keepdims", attribute(int64_t{attrs.keep_dims})}};
  node.set(0, left, node.add(operator_of(attrs.kind), {x, node.integers(axes, "axes")}, std::move(attributes)));
  return {};
}

Status write_softmax(NodeWriter& node) {
  const size_t rank = node.dims(0).size();
  const Order order = node.best_order();
  const int64_t axis = axis_in(order, static_cast<int64_t>(rank) - 1);
  const char* name = node.attrs<ops::SoftmaxAttrs>().log ? "LogSoftmax" : "Softmax";
  node.set(0, order, node.add(name, {node.input(0, order)}, {{"axis", attribute(axis)}}));
  return {};
}

Wire write_layer_norm_of(NodeWriter& node, Wire x, int weight) {
  return node.add("LayerNormalization", {x, node.input(weight), node.input(weight + 1)},
                  {{"epsilon", attribute(node.attrs<ops::LayerNormAttrs>().eps)}});
}

Status write_layer_norm(NodeWriter& node) {
  node.set(0, write_layer_norm_of(node, node.input(0), 1));
  return {};
}

Status write_add_layer_norm(NodeWriter& node) {
  const Wire sum = node.add("Add", {node.input(0), node.input(1)});
  node.set(0, sum);
  node.set(1, write_layer_norm_of(node, sum, 2));
  return {};
}

// Over the last axis of x, with a weight as long.
Wire write_float_rms_norm(NodeWriter& node, Wire x, int weight) {
  const auto& attrs = node.attrs<ops::RmsNormAttrs>();
  Wire scale = node.input(weight);
  if (attrs.offset != 0) scale = node.add("Add", {scale, node.scalar(attrs.offset, "offset")});
  if (node.opset() >= 23) return node.add("RMSNormalization", {x, scale}, {{"epsilon", attribute(attrs.eps)}});
  const Wire mean = node.add("ReduceMean", {node.add("Mul", {x, x}), node.integers({-1}, "axes")});
  const Wire root = node.add("Sqrt", {node.add("Add", {mean, node.scalar(attrs.eps, "eps")})});
  return node.add("Mul", {node.add("Div", {x, root}), scale});
}

Wire cast(NodeWriter& node, Wire x, DType to) {
  return node.add("Cast", {std::move(x)}, {{"to", attribute(static_cast<int64_t>(dtype_number(to)))}});
}

// Of x in float32; in the dtype that the op gives.
Wire write_rms_norm_of(NodeWriter& node, Wire x, int weight) {
  const DType out = node.attrs<ops::RmsNormAttrs>().out;
  const Wire y = write_float_rms_norm(node, std::move(x), weight);
  return out == DType::f32 ? y : cast(node, y, out);
}

// Input 0, which may be bf16, in float32.
Wire float_input(NodeWriter& node) {
  return node.dtype(0) == DType::f32 ? node.input(0) : cast(node, node.input(0), DType::f32);
}

Status write_rms_norm(NodeWriter& node) {
  const int64_t heads = node.attrs<ops::RmsNormAttrs>().heads;
  const Dims dims = node.dims(0);
  Dims of_heads = dims;
  if (heads > 1) {
    of_heads.back() = heads;
    of_heads.push_back(dims.back() / heads);
  }
  const Wire y = write_rms_norm_of(node, node.reshape(float_input(node), dims, of_heads), 1);
  node.set(0, node.reshape(y, of_heads, dims));
  return {};
}

Status write_add_rms_norm(NodeWriter& node) {
  const Wire sum = node.add("Add", {float_input(node), node.input(1)});
  node.set(0, sum);
  node.set(1, write_rms_norm_of(node, sum, 2));
  return {};
}

constexpr ExportRow kRows[] = {{&ops::reduce, write_reduce},         {&ops::softmax, write_softmax},
                               {&ops::layer_norm, write_layer_norm}, {&ops::add_layer_norm, write_add_layer_norm},
                               {&ops::rms_norm, write_rms_norm},     {&ops::add_rms_norm, write_add_rms_norm}};

}  // namespace

std::span<const ExportRow> export_rows() { return kRows; }

}  // namespace headrace::onnx

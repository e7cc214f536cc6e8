// QuantizeLinear and DequantizeLinear: what is left of quantized models where fuse_qdq is left out. ONNX says arithmetic of 8 bits by them.
#include "onnx/export/writer.h"
#include "ops/quantize_linear.h"

namespace headrace::onnx {
namespace {

// A single scale is written as a scalar: then there is no axis.
Wire parameter(NodeWriter& node, int index) {
  const Wire wire = node.input(index);
  return node.dims(index) == Dims{1} ? node.reshape(wire, {1}, {}) : wire;
}

Status write(NodeWriter& node) {
  const bool one = node.dims(1) == Dims{1};
  // Of one scale in any order of axes.
  const size_t rank = node.dims(0).size();
  const Order order = one ? node.model().best_order(std::span(node.node().inputs).first(1), rank) : plain_order(rank);
  Attributes attributes;
  if (!one) attributes["axis"] = attribute(int64_t{node.attrs<ops::QuantizeLinearAttrs>().axis});
  const char* op = node.node().op == &ops::quantize_linear ? "QuantizeLinear" : "DequantizeLinear";
  node.set(0, order, node.add(op, {node.input(0, order), parameter(node, 1), parameter(node, 2)}, std::move(attributes)));
  return {};
}

constexpr ExportRow kRows[] = {{&ops::quantize_linear, write}, {&ops::dequantize_linear, write}};

}  // namespace

std::span<const ExportRow> export_quantize() { return kRows; }

}  // namespace headrace::onnx

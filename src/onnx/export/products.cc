// Matrix products: Gemm of two matrices, MatMul of more axes.
#include <utility>

#include "onnx/export/writer.h"
#include "ops/gemm.h"

namespace headrace::onnx {
namespace {

// alpha * a x b + c, where c is the bias or else the residual.
Wire write_matrices(NodeWriter& node, const ops::GemmAttrs& attrs, ops::Epilogue& epilogue) {
  std::vector<Wire> inputs = {node.input(0), node.input(1)};
  if (epilogue.num_inputs() > 0) inputs.push_back(node.input(2));
  if (!epilogue.bias) epilogue.residual = false;
  Attributes attributes;
  if (attrs.trans_b) attributes["transB"] = attribute(int64_t{1});
  if (attrs.scale != 1.0f) attributes["alpha"] = attribute(attrs.scale);
  return node.add("Gemm", std::move(inputs), std::move(attributes));
}

Wire write_batch(NodeWriter& node, const ops::GemmAttrs& attrs) {
  Order order = plain_order(node.dims(1).size());
  if (attrs.trans_b) std::swap(order[order.size() - 1], order[order.size() - 2]);
  Wire y = node.add("MatMul", {node.input(0), node.input(1, order)});
  if (attrs.scale != 1.0f) y = node.add("Mul", {y, node.scalar(attrs.scale, "scale")});
  return attrs.epilogue.bias ? node.add("Add", {y, node.input(2)}) : y;
}

Status write_gemm(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::GemmAttrs>();
  ops::Epilogue epilogue = attrs.epilogue;
  const bool matrices = node.dims(0).size() == 2 && node.dims(1).size() == 2;
  const Wire product = matrices ? write_matrices(node, attrs, epilogue) : write_batch(node, attrs);
  node.set(0, write_epilogue(node, epilogue, 2, plain_order(node.output_dims().size()), product));
  return {};
}

constexpr ExportRow kRows[] = {{&ops::gemm, write_gemm}};

}  // namespace

std::span<const ExportRow> export_products() { return kRows; }

}  // namespace headrace::onnx

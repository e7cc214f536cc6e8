// Matrix products, Gemm of two matrices and MatMul of more axes; layers of LSTM.
#include <utility>

#include "onnx/export/writer.h"
#include "ops/gemm.h"
#include "ops/lstm.h"

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

Status write_lstm(NodeWriter& node) {
  using Direction = ops::LstmAttrs::Direction;
  const auto& attrs = node.attrs<ops::LstmAttrs>();
  const std::string direction = attrs.direction == Direction::forward   ? "forward"
                                : attrs.direction == Direction::reverse ? "reverse"
                                                                        : "bidirectional";
  const Wire lengths = attrs.lengths ? node.input(6) : Wire::none;
  const std::vector<Wire> inputs = {node.input(0), node.input(1), node.input(2), node.input(3), lengths, node.input(4), node.input(5)};
  const std::vector<Wire> outputs =
      node.model().add("LSTM", inputs, {{"direction", attribute(direction)}, {"hidden_size", attribute(node.dims(2)[2])}},
                       std::vector<bool>(3, true), node.node().name);
  for (int i = 0; i < 3; ++i) node.set(i, outputs[static_cast<size_t>(i)]);
  return {};
}

constexpr ExportRow kRows[] = {{&ops::gemm, write_gemm}, {&ops::lstm, write_lstm}};

}  // namespace

std::span<const ExportRow> export_products() { return kRows; }

}  // namespace headrace::onnx

// Operators of the model that the graph kept as they are.
#include <algorithm>
#include <string_view>

#include "onnx/export/writer.h"
#include "onnx/host_node.h"
#include "onnx/op.h"
#include "ops/host.h"

namespace headrace::onnx {
namespace {

// Where a node of an older opset means something else, or is no node at all, though one function of ours computes both: attributes that
// became inputs, other defaults. From the schemas of the package onnx 1.23.
struct Change {
  std::string_view op;
  int64_t opset;
};
constexpr Change kChanges[] = {
    {"BatchNormalization", 9}, {"BatchNormalization", 14}, {"Clip", 11}, {"DFT", 20}, {"Dropout", 12}, {"GridSample", 20},
    {"GroupNormalization", 21}, {"Hardmax", 13}, {"LogSoftmax", 13}, {"Pad", 11}, {"ReduceL1", 18}, {"ReduceL2", 18},
    {"ReduceLogSum", 18}, {"ReduceLogSumExp", 18}, {"ReduceMax", 18}, {"ReduceMean", 18}, {"ReduceMin", 18}, {"ReduceProd", 18},
    {"ReduceSum", 13}, {"ReduceSumSquare", 18}, {"Resize", 11}, {"RoiAlign", 16}, {"Scatter", 11}, {"Slice", 10}, {"Softmax", 13},
    {"Split", 13}, {"Split", 18}, {"Squeeze", 13}, {"TopK", 10}, {"Unsqueeze", 13}, {"Upsample", 9}, {"Upsample", 10}, {"Attention", 24}};

bool means_the_same(const std::string& op, int64_t a, int64_t b) {
  const auto [low, high] = std::minmax(a, b);
  const auto lies_between = [&](const Change& change) { return change.op == op && low < change.opset && change.opset <= high; };
  const bool changed = std::ranges::any_of(kChanges, lies_between);
  return !changed && find_op(op, a) == find_op(op, b);
}

Status write_host(NodeWriter& node) {
  const HostOrigin* origin = host_origin(*node.attrs<ops::HostAttrs>().function);
  if (origin == nullptr) return make_status(Code::unsupported, "a function on the host that is no operator of ONNX");
  const Node& from = *origin->node;
  if (!from.domain.empty()) return make_status(Code::unsupported, "an operator of the domain {}", from.domain);
  if (!means_the_same(from.op, origin->opset, node.opset())) {
    return make_status(Code::unsupported, "{} of opset {} is another operator in opset {}", from.op, origin->opset, node.opset());
  }
  std::vector<Wire> inputs;
  for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.has_input(i) ? node.input(i) : Wire::none);
  std::vector<bool> outputs;
  for (const std::string& name : from.outputs) outputs.push_back(!name.empty());
  const std::vector<Wire> wires = node.model().add(from.op, std::move(inputs), from.attributes, outputs, node.node().name);
  for (size_t i = 0; i < wires.size(); ++i) {
    if (wires[i] != Wire::none) node.set(static_cast<int>(i), wires[i]);
  }
  return {};
}

constexpr ExportRow kRows[] = {{&ops::host, write_host}};

}  // namespace

std::span<const ExportRow> export_host() { return kRows; }

}  // namespace headrace::onnx

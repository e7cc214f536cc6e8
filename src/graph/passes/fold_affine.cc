// Products and sums with a constant for each column, behind a convolution or gemm of a constant weight (batch norms and scales), go into
// its weight and bias; so do those before it, where no pad is between. In double, stored as float32.
#include <algorithm>

#include "core/buffer.h"
#include "graph/match.h"
#include "graph/passes.h"
#include "graph/passes/linear_node.h"

namespace headrace::passes {
namespace {

using ops::BinaryKind;
using Vector = std::vector<double>;

// `node` = x * scale + shift for each column; nothing for other nodes.
struct Affine {
  ValueId x;
  Vector scale, shift;
};
std::optional<Affine> match_affine(Rewriter& graph, const Node* node) {
  if (node == nullptr || node->op != &ops::binary) return std::nullopt;
  const BinaryKind kind = node->attrs.as<ops::BinaryAttrs>().kind;
  const Shape shape = graph.type(node->outputs[0]).shape;
  if (shape.rank() == 0) return std::nullopt;
  const int64_t columns = shape[shape.rank() - 1].constant();
  for (int side = 0; side < 2; ++side) {
    const ValueId x = node->inputs[side];
    if (!(graph.type(x).shape == shape)) continue;
    auto vector = match::column_vector(graph, node->inputs[1 - side], columns);
    if (!vector) continue;
    const auto count = static_cast<size_t>(columns);
    if (kind == BinaryKind::add) return Affine{x, Vector(count, 1.0), *std::move(vector)};
    if (kind == BinaryKind::mul) return Affine{x, *std::move(vector), Vector(count, 0.0)};
    if (kind == BinaryKind::sub) {  // x - c, c - x
      const double sign = side == 0 ? 1 : -1;
      for (double& c : *vector) c *= -sign;
      return Affine{x, Vector(count, sign), *std::move(vector)};
    }
    if (kind == BinaryKind::div && side == 0 && std::none_of(vector->begin(), vector->end(), [](double c) { return c == 0; })) {
      for (double& c : *vector) c = 1 / c;
      return Affine{x, *std::move(vector), Vector(count, 0.0)};
    }
  }
  return std::nullopt;
}

bool is_all(const Vector& vector, double number) {
  return std::all_of(vector.begin(), vector.end(), [&](double x) { return x == number; });
}

// Whether the weight is a constant of this node alone: a shared one would be stored again for each reader.
bool owns_weight(Rewriter& graph, const LinearNode& linear) {
  if (!graph.is_constant(linear.weight) || graph.num_uses(linear.weight) != 1) return false;
  return graph.affords(4 * graph.type(linear.weight).shape.elements(Bindings()));
}
bool has_constant_bias(Rewriter& graph, const LinearNode& linear) { return linear.bias == kNone || graph.is_constant(linear.bias); }

// Where weight elements belong: element e of the flat weight is between input column input(e) and output column output(e).
struct WeightMap {
  int64_t input_stride, input_count, output_stride, output_count;  // column = e / stride % count, within a group
  int64_t group_stride, group_inputs, group_outputs;               // group = e / group_stride
  int64_t input(int64_t e) const { return e / group_stride * group_inputs + e / input_stride % input_count; }
  int64_t output(int64_t e) const { return e / group_stride * group_outputs + e / output_stride % output_count; }
};

WeightMap weight_map(Rewriter& graph, const LinearNode& linear) {
  const std::vector<int64_t> dims = graph.dims(linear.weight);
  const size_t rank = dims.size();
  if (linear.op == &ops::gemm) {
    const int64_t rows = dims[rank - 2], columns = dims[rank - 1];
    const int64_t all = std::max<int64_t>(1, graph.type(linear.weight).shape.elements(Bindings()));
    if (linear.gemm.trans_b) return {1, columns, columns, rows, all, 0, 0};
    return {columns, rows, 1, columns, all, 0, 0};
  }
  const int64_t taps = dims[2] * dims[3], groups = linear.conv.groups;
  const int64_t first = dims[0] / groups;  // of a group
  const WeightMap conv{taps, dims[1], dims[1] * taps, first, first * dims[1] * taps, dims[1], first};
  if (linear.op == &ops::conv) return conv;
  return {conv.output_stride, first, taps, dims[1], conv.group_stride, first, dims[1]};
}

// weight[e] * by_output[output(e)] * by_input[input(e)]; empty vectors count as 1.
class ScaledWeight final : public ConstantSource {
 public:
  ScaledWeight(ConstantBytes weight, uint64_t bytes, const WeightMap& map, Vector by_input, Vector by_output)
      : ConstantSource(bytes, weight.depth()), weight_(std::move(weight)), map_(map), by_input_(std::move(by_input)),
        by_output_(std::move(by_output)) {}

  void write(std::byte* to) const override {
    weight_.write(to, bytes());
    auto* weight = reinterpret_cast<float*>(to);
    const auto elements = static_cast<int64_t>(bytes() / sizeof(float));
    // Elements of one input and one output follow each other; the strides divide a group, and the smaller divides the larger.
    const int64_t shorter = std::min(map_.input_stride, map_.output_stride);
    const int64_t run = by_input_.empty() ? map_.output_stride : by_output_.empty() ? map_.input_stride : shorter;
    for (int64_t begin = 0; begin < elements; begin += run) {
      const double input = by_input_.empty() ? 1.0 : by_input_[map_.input(begin)];
      const double output = by_output_.empty() ? 1.0 : by_output_[map_.output(begin)];
      for (int64_t e = begin; e < begin + run; ++e) weight[e] = static_cast<float>(weight[e] * input * output);
    }
  }

 private:
  ConstantBytes weight_;
  WeightMap map_;
  Vector by_input_, by_output_;
};

ValueId scaled_weight(Rewriter& graph, const LinearNode& linear, Vector by_input, Vector by_output) {
  const Value& constant = graph.value(linear.weight);
  const std::string name = constant.name;
  const Shape shape = constant.type.shape;
  const auto bytes = static_cast<uint64_t>(shape.elements(Bindings())) * sizeof(float);
  return graph.constant_bytes(name, DType::f32, shape, std::make_shared<ScaledWeight>(constant.bytes, bytes, weight_map(graph, linear),
                                                                                      std::move(by_input), std::move(by_output)));
}

Vector bias_of(Rewriter& graph, const LinearNode& linear, size_t columns) {
  return linear.bias == kNone ? Vector(columns, 0.0) : constant_values(graph.value(linear.bias));
}

// linear(x) * scale + shift.
ValueId folded_behind(Rewriter& graph, const Node& node) {
  const auto affine = match_affine(graph, &node);
  if (!affine || graph.num_uses(affine->x) != 1) return kNone;
  auto linear = LinearNode::of(graph.producer(affine->x));
  if (!linear || !linear->is_bare() || !has_constant_bias(graph, *linear)) return kNone;
  const size_t columns = affine->scale.size();
  Vector bias = bias_of(graph, *linear, columns);
  if (bias.size() != columns || columns == 0) return kNone;
  if (!is_all(affine->scale, 1)) {
    if (owns_weight(graph, *linear)) {
      linear->weight = scaled_weight(graph, *linear, {}, affine->scale);
    } else if (linear->op == &ops::gemm && is_all(affine->scale, affine->scale[0])) {
      linear->gemm.scale *= static_cast<float>(affine->scale[0]);
    } else {
      return kNone;
    }
  }
  for (size_t i = 0; i < columns; ++i) bias[i] = bias[i] * affine->scale[i] + affine->shift[i];
  if (linear->bias != kNone || !is_all(bias, 0)) {
    linear->bias = graph.constant(linear->name + ".bias", DType::f32, {static_cast<int64_t>(columns)}, bias);
  }
  return linear->add_to(graph);
}

// linear(x * scale + shift).
ValueId folded_before(Rewriter& graph, const Node& node) {
  auto linear = LinearNode::of(&node);
  if (!linear || graph.num_uses(linear->x) != 1) return kNone;
  const auto affine = match_affine(graph, graph.producer(linear->x));
  if (!affine || !owns_weight(graph, *linear)) return kNone;
  const bool shifts = !is_all(affine->shift, 0);
  if (shifts) {
    const auto& pads = linear->conv.pads;  // zeros of a gemm
    const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
    const bool batched = linear->op == &ops::gemm && graph.type(linear->weight).shape.rank() != 2;
    if (padded || batched || linear->op == &ops::conv_transpose || !has_constant_bias(graph, *linear)) return kNone;
    const auto columns = static_cast<size_t>(graph.dims(node.outputs[0]).back());
    Vector bias = bias_of(graph, *linear, columns);
    const Vector weight = constant_values(graph.value(linear->weight));
    const WeightMap map = weight_map(graph, *linear);
    const double scale = linear->op == &ops::gemm ? linear->gemm.scale : 1.0;
    if (bias.size() != columns) return kNone;
    for (int64_t e = 0; e < static_cast<int64_t>(weight.size()); ++e) {
      bias[map.output(e)] += scale * weight[e] * affine->shift[map.input(e)];
    }
    linear->bias = graph.constant(linear->name + ".bias", DType::f32, {static_cast<int64_t>(columns)}, bias);
  }
  if (!is_all(affine->scale, 1)) linear->weight = scaled_weight(graph, *linear, affine->scale, {});
  linear->x = affine->x;
  return linear->add_to(graph);
}

ValueId folded(Rewriter& graph, const Node& node) {
  return node.op == &ops::binary ? folded_behind(graph, node) : folded_before(graph, node);
}

Result<int> run(Graph& graph, const PassOptions&) { return rewrite_each(graph, folded); }

}  // namespace

extern const Pass fold_affine_pass;
const Pass fold_affine_pass = {"fold_affine", "Takes batch norms and other scales of columns into weights and biases.", run};

}  // namespace headrace::passes

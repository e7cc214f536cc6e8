#pragma once
// For the tests of passes over dense graphs: a few words to write a graph of constant shapes, and a run of one pass whose graph must give
// what it gave before, by the float64 references and random inputs.

#include <cmath>
#include <random>

#include "graph/interpret.h"
#include "graph/pass_testing.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/gemm.h"
#include "ops/movement.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace headrace::pass_testing {

using Dims = std::vector<int64_t>;
using ops::BinaryKind;
using ops::UnaryKind;

struct Dense {
  Graph graph;
  std::mt19937 random{7};

  ValueId input(const Dims& dims, DType dtype = DType::f32) {
    Shape shape;
    for (const int64_t dim : dims) shape.push_back(dim);
    return graph.add_input(name("x"), dtype, shape);
  }
  ValueId constant(const Dims& dims, const std::vector<double>& data, DType dtype = DType::f32) {
    return graph.add_constant(name("c"), dtype, dims, data);
  }
  ValueId number(double value) { return constant({}, {value}); }
  ValueId noise(const Dims& dims) {  // a constant
    std::vector<double> data(static_cast<size_t>(count(dims)));
    for (double& x : data) x = std::normal_distribution<double>()(random);
    return constant(dims, data);
  }

  ValueId add(const Op& op, Attrs attrs, std::vector<ValueId> inputs) {
    return node(graph, op, std::move(attrs), std::move(inputs), name("n"));
  }
  ValueId unary(UnaryKind kind, ValueId x, float alpha = 0, float beta = 0) {
    return add(ops::unary, ops::UnaryAttrs{kind, alpha, beta}, {x});
  }
  ValueId binary(BinaryKind kind, ValueId a, ValueId b) { return add(ops::binary, ops::BinaryAttrs{kind}, {a, b}); }
  ValueId plus(ValueId a, ValueId b) { return binary(BinaryKind::add, a, b); }
  ValueId minus(ValueId a, ValueId b) { return binary(BinaryKind::sub, a, b); }
  ValueId times(ValueId a, ValueId b) { return binary(BinaryKind::mul, a, b); }
  ValueId over(ValueId a, ValueId b) { return binary(BinaryKind::div, a, b); }
  ValueId power(ValueId a, double exponent) { return binary(BinaryKind::pow, a, number(exponent)); }
  ValueId reshape(ValueId x, Dims dims) { return add(ops::reshape, ops::ReshapeAttrs{std::move(dims)}, {x}); }
  ValueId transpose(ValueId x, std::vector<int32_t> perm) { return add(ops::transpose, ops::TransposeAttrs{std::move(perm)}, {x}); }
  ValueId concat(std::vector<ValueId> parts, int32_t axis) { return add(ops::concat, ops::ConcatAttrs{axis}, std::move(parts)); }
  ValueId expand(ValueId x, Dims dims) { return add(ops::expand, ops::ExpandAttrs{std::move(dims)}, {x}); }
  // Elements [begin, end) of one axis.
  ValueId slice(ValueId x, int32_t axis, int64_t begin, int64_t end) {
    const Dims whole = dims(x);
    ops::SliceAttrs attrs{Dims(whole.size(), 0), Dims(whole.size(), 1), whole};
    attrs.begin[static_cast<size_t>(axis)] = begin;
    attrs.size[static_cast<size_t>(axis)] = end - begin;
    return add(ops::slice, attrs, {x});
  }
  ValueId mean(ValueId x, std::vector<int32_t> axes, bool keep_dims = true) {
    return add(ops::reduce, ops::ReduceAttrs{ops::ReduceAttrs::Kind::mean, std::move(axes), keep_dims}, {x});
  }
  ValueId softmax(ValueId x) { return add(ops::softmax, ops::SoftmaxAttrs{}, {x}); }
  ValueId gemm(ValueId a, ValueId b, bool trans_b = false) { return add(ops::gemm, ops::GemmAttrs{.trans_b = trans_b}, {a, b}); }
  // A convolution of an [N, C, H, W] image, as importers write it: transposed there and back.
  ValueId image_conv(ValueId x, int64_t channels, int64_t kernel = 3, int64_t pad = 1) {
    ops::ConvAttrs attrs;
    attrs.pads = {pad, pad, pad, pad};
    const ValueId weight = noise({channels, dims(x)[1], kernel, kernel});
    return transpose(add(ops::conv, attrs, {transpose(x, {0, 2, 3, 1}), weight}), {0, 3, 1, 2});
  }

  Dims dims(ValueId value) const {
    Dims result;
    for (const Dim& dim : graph.values[static_cast<size_t>(value)].type.shape) result.push_back(dim.constant());
    return result;
  }
  void output(ValueId value) { graph.set_output(name("y"), value); }

  // Runs the pass alone; the outputs must stay what they are for random inputs. Returns its hits.
  int run(const std::string& pass, double tolerance = 1e-5) {
    const std::map<std::string, HostValue> inputs = random_inputs();
    const auto before = results(inputs);
    const int hits = run_alone(graph, pass);
    const auto after = results(inputs);
    for (const auto& [output, want] : before) expect_close(output, want, after.at(output), tolerance);
    return hits;
  }

  int num(const Op& op) const {
    return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == &op; }));
  }
  // The one node of `op`.
  const Node& only(const Op& op) const {
    EXPECT_EQ(num(op), 1) << graph.to_string();
    return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == &op; });
  }

 private:
  static int64_t count(const Dims& dims) {
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    return elements;
  }
  std::string name(const char* kind) { return fmt::format("{}{}", kind, graph.values.size()); }

  std::map<std::string, HostValue> random_inputs() {
    std::map<std::string, HostValue> inputs;
    for (size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.role != ValueRole::input) continue;
      HostTensor tensor{value.type.dtype, dims(static_cast<ValueId>(id)), {}};
      for (int64_t i = 0; i < count(tensor.dims); ++i) {
        const double x = std::normal_distribution<double>()(random);
        tensor.values.push_back(value.type.dtype == DType::f32 ? x : value.type.dtype == DType::boolean ? x > 0 : std::floor(std::abs(x)));
      }
      inputs[value.name] = {std::move(tensor), nullptr, nullptr};
    }
    return inputs;
  }
  std::map<std::string, HostTensor> results(const std::map<std::string, HostValue>& inputs) const {
    auto found = interpret(graph, Bindings(), inputs, [](const Value& weight) -> Result<HostTensor> {
      return error(Code::not_found, "{}: dense graphs have no weights", weight.name);
    });
    if (!found) ADD_FAILURE() << found.error().to_string();
    return found ? *std::move(found) : std::map<std::string, HostTensor>();
  }
  void expect_close(const std::string& output, const HostTensor& want, const HostTensor& got, double tolerance) const {
    ASSERT_EQ(got.dims, want.dims) << output << "\n" << graph.to_string();
    for (size_t i = 0; i < want.values.size(); ++i) {
      const double a = want.values[i], b = got.values[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_LE(std::abs(a - b), tolerance * (1 + std::abs(a))) << output << " at " << i << "\n" << graph.to_string();
    }
  }
};

}  // namespace headrace::pass_testing

// Exported graphs give what the graph gives: the ops' float64 references beside the interpreter of ONNX models, which is written by the
// letter of the operator document and knows nothing of ops.
#include "onnx/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/builder.h"
#include "graph/interpret.h"
#include "onnx/file.h"
#include "onnx/host_node.h"
#include "onnx/lower.h"
#include "onnx/interpreter.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/layer_norm.h"
#include "ops/lstm.h"
#include "ops/movement.h"
#include "ops/pool_2d.h"
#include "ops/reduce.h"
#include "ops/resize_2d.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "ops/sdpa.h"
#include "ops/unary.h"

namespace headrace::onnx {
namespace {

using HostValues = std::map<std::string, HostValue>;
using ops::BinaryKind;
using ops::UnaryKind;

Shape shape_of(const std::vector<int64_t>& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return shape;
}

// What a dtype holds of these numbers, as a constant of a graph that holds nothing else.
headrace::Value constant_of(DType dtype, const std::vector<int64_t>& dims, const std::vector<double>& values) {
  headrace::Graph graph;
  return graph.values[static_cast<size_t>(graph.add_constant("", dtype, dims, values))];
}
headrace::Value constant_of(const Tensor& tensor) {
  headrace::Graph graph;
  return graph.values[static_cast<size_t>(graph.add_constant_bytes("", tensor.dtype(), shape_of(tensor.dims()), tensor.share()))];
}

HostTensor random_tensor(DType dtype, const std::vector<int64_t>& dims, double scale, std::mt19937& random) {
  size_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
  std::vector<double> values(count);
  std::normal_distribution<double> normal(0, scale);
  std::uniform_real_distribution<double> uniform(0, scale);
  for (double& value : values) value = is_float(dtype) || dtype == DType::f64 ? normal(random) : std::floor(uniform(random));
  return {dtype, dims, constant_values(constant_of(dtype, dims, values))};
}

// Random values for the inputs that `given` leaves out.
HostValues inputs_of(const headrace::Graph& graph, HostValues given = {}) {
  std::mt19937 random(7);
  for (const headrace::Value& value : graph.values) {
    if (value.role != ValueRole::input || given.contains(value.name)) continue;
    std::vector<int64_t> dims;
    for (const Dim& dim : value.type.shape) dims.push_back(dim.constant());
    given[value.name].tensor = random_tensor(value.type.dtype, dims, 1, random);
  }
  return given;
}

// Exports, and runs both. The model, for more to look at.
Model expect_same(const headrace::Graph& graph, int64_t opset, HostValues given = {}, Tolerance tolerance = {1e-5, 1e-5}) {
  auto model = to_onnx(graph, {.opset = opset});
  if (!model) {
    ADD_FAILURE() << model.error().to_string();
    return {};
  }
  given = inputs_of(graph, std::move(given));
  std::map<std::string, Value> inputs;
  for (const auto& [name, value] : given) {
    const headrace::Value constant = constant_of(value.tensor.dtype, value.tensor.dims, value.tensor.values);
    inputs[name] = Tensor::over(value.tensor.dtype, value.tensor.dims, constant.bytes.hold());
  }
  const auto want = interpret(graph, Bindings(), given, {});
  const auto got = interpret(*model, inputs);
  if (!want || !got) {
    ADD_FAILURE() << (want ? got.error() : want.error()).to_string();
    return *std::move(model);
  }
  for (const auto& [name, wanted] : *want) {
    SCOPED_TRACE("output " + name);
    const Tensor& tensor = *got->at(name).tensor();
    EXPECT_EQ(tensor.dtype(), wanted.dtype);
    EXPECT_EQ(tensor.dims(), wanted.dims);
    if (::testing::Test::HasFailure()) break;
    const std::vector<double> values = constant_values(constant_of(tensor));
    const std::vector<double> rounded = constant_values(constant_of(wanted.dtype, wanted.dims, wanted.values));
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = rounded[i];
      if (std::isnan(value) ? std::isnan(values[i]) : value == values[i]) continue;
      EXPECT_NEAR(values[i], value, tolerance.absolute + tolerance.relative * std::abs(value)) << "element " << i;
      if (::testing::Test::HasFailure()) break;
    }
  }
  return *std::move(model);
}

int count(const Model& model, std::string_view op) {
  return static_cast<int>(std::ranges::count(model.graph.nodes, op, &Node::op));
}

std::vector<std::string> operators(const Model& model) {
  std::vector<std::string> names;
  for (const Node& node : model.graph.nodes) names.push_back(node.op);
  return names;
}

headrace::Graph finish(GraphBuilder& builder) {
  auto graph = builder.finish();
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *std::move(graph) : headrace::Graph();
}

std::vector<double> some(size_t count, double scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

// ---- every op, on the cases that its kernels are proved with

int64_t elements(const CaseInput& input) {
  int64_t count = 1;
  for (const int64_t dim : input.dims) count *= dim;
  return count;
}

// `constants`: every input but the first is a constant.
void expect_case_same(const Op& op, const OpCase& declared, int64_t opset, bool constants) {
  SCOPED_TRACE(fmt::format("{} {}, opset {}{}", op.name, declared.name, opset, constants ? ", constants" : ""));
  std::mt19937 random(11);
  GraphBuilder builder;
  HostValues given;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < declared.inputs.size(); ++i) {
    const CaseInput& input = declared.inputs[i];
    HostTensor tensor = random_tensor(input.dtype, input.dims, input.scale, random);
    if (!input.values.empty()) tensor.values = constant_values(constant_of(input.dtype, input.dims, input.values));
    const std::string name = fmt::format("input{}", i);
    if (constants && i > 0) {
      inputs.push_back(builder.graph.add_constant(name, input.dtype, input.dims, tensor.values));
    } else {
      inputs.push_back(builder.graph.add_input(name, input.dtype, shape_of(input.dims)));
      given[name].tensor = std::move(tensor);
    }
  }
  const auto outputs = builder.graph.add_node(op, declared.attrs, inputs, "node");
  ASSERT_TRUE(outputs) << outputs.error().to_string();
  for (size_t i = 0; i < outputs->size(); ++i) builder.output(fmt::format("output{}", i), (*outputs)[i]);
  const headrace::Graph graph = finish(builder);
  const headrace::Node& node = graph.nodes.front();
  const Tolerance own = op.tolerance == nullptr ? Tolerance{0, 0} : op.tolerance(graph.input_types(node), node.attrs);
  expect_same(graph, opset, given, {std::max(own.absolute, 1e-5), std::max(own.relative, 1e-5)});
}

// Cases on which the two need not agree.
bool is_left_out(const Op& op, std::string_view name, int64_t opset) {
  // An index outside is an error of the model.
  if (&op == &ops::gather) return name == "outside_gives_zeros" || name == "from_nothing";
  // Rounded down where float32, which the op computes places in, gives a whole number and float64 a little less.
  if (&op == &ops::resize_2d) return name.starts_with("nearest_down");
  // Attention gives zeros where the softmax that is spelled out gives NaN.
  return &op == &ops::sdpa && name == "mask_hides_all_of_a_row" && opset >= 23;
}

class ExportedOp : public ::testing::TestWithParam<const Op*> {};

TEST_P(ExportedOp, GivesWhatTheOpGives) {
  int tried = 0;
  for (const OpCase& declared : GetParam()->cases()) {
    const int64_t largest = elements(std::ranges::max(declared.inputs, {}, elements));
    if (declared.bench || largest > 20000) continue;
    for (const int64_t opset : {int64_t{21}, int64_t{23}, kMaxOpset}) {
      if (!is_left_out(*GetParam(), declared.name, opset)) expect_case_same(*GetParam(), declared, opset, opset == 23);
    }
    ++tried;
    if (HasFailure()) return;
  }
  EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(Export, ExportedOp,
                         ::testing::Values(&ops::unary, &ops::binary, &ops::compare, &ops::conv, &ops::conv_transpose, &ops::gemm,
                                           &ops::lstm, &ops::pool_2d,
                                           &ops::reduce, &ops::softmax, &ops::reshape, &ops::transpose, &ops::concat, &ops::slice,
                                           &ops::slice_columns, &ops::pad, &ops::expand, &ops::gather, &ops::where, &ops::cast,
                                           &ops::resize_2d, &ops::sdpa, &ops::rotary, &ops::layer_norm, &ops::add_layer_norm,
                                           &ops::rms_norm, &ops::add_rms_norm),
                         [](const auto& op) { return std::string(op.param->name); });

// ---- whole graphs

// Networks of images, weights drawn.
class Images : public GraphBuilder {
 public:
  std::vector<int64_t> dims(ValueId value) const {
    std::vector<int64_t> dims;
    for (const Dim& dim : graph.values[static_cast<size_t>(value)].type.shape) dims.push_back(dim.constant());
    return dims;
  }
  ValueId weight(std::vector<int64_t> dims, double scale) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    const auto seed = static_cast<unsigned>(graph.values.size());
    return graph.add_constant(fmt::format("weight{}", seed), DType::f32, std::move(dims), some(count, scale, seed));
  }
  ValueId conv(ValueId x, int64_t channels, int64_t window, int64_t stride, std::optional<ops::UnaryAttrs> activation,
               ValueId residual = kNone, int64_t groups = 1) {
    const int64_t in = dims(x)[3] / groups, pad = window / 2;
    ops::ConvAttrs attrs{.stride = {stride, stride}, .pads = {pad, pad, pad, pad}, .groups = groups};
    attrs.epilogue = {.bias = true, .residual = residual != kNone, .activation = activation};
    std::vector<ValueId> inputs = {x, weight({channels, in, window, window}, 1 / std::sqrt(static_cast<double>(in * window * window))),
                                   weight({channels}, 0.1)};
    if (residual != kNone) inputs.push_back(residual);
    return node(ops::conv, attrs, std::move(inputs), "conv");
  }
  ValueId mean(ValueId x) { return node(ops::reduce, ops::ReduceAttrs{ops::ReduceAttrs::Kind::mean, {1, 2}, true}, {x}, "mean"); }
  ValueId transpose(ValueId x, std::vector<int32_t> perm) {
    return node(ops::transpose, ops::TransposeAttrs{std::move(perm)}, {x}, "transpose");
  }
  ValueId reshape(ValueId x, std::vector<int64_t> dims) { return node(ops::reshape, ops::ReshapeAttrs{std::move(dims)}, {x}, "reshape"); }
  ValueId linear(ValueId x, int64_t columns) {
    const int64_t in = dims(x).back();
    const ops::GemmAttrs attrs{.trans_b = true, .epilogue = {.bias = true}};
    return node(ops::gemm, attrs, {x, weight({columns, in}, 0.2), weight({columns}, 0.1)}, "linear");
  }
};

constexpr ops::UnaryAttrs kRelu{UnaryKind::relu};

TEST(Export, AResidualNetworkHasNoTranspose) {
  Images net;
  const ValueId image = net.graph.add_input("image", DType::f32, {2, 3, 20, 20});
  ValueId x = net.conv(net.transpose(image, {0, 2, 3, 1}), 8, 7, 2, kRelu);
  x = net.node(ops::pool_2d, ops::Pool2dAttrs{.window = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}}, {x}, "pool");
  x = net.conv(net.conv(x, 8, 3, 1, kRelu), 8, 3, 1, kRelu, x);
  const ValueId shortcut = net.conv(x, 16, 1, 2, std::nullopt);
  x = net.conv(net.conv(x, 16, 3, 2, kRelu), 16, 3, 1, kRelu, shortcut);
  net.output("logits", net.linear(net.reshape(net.mean(x), {2, 16}), 10));
  const Model model = expect_same(finish(net), 21);
  EXPECT_EQ(operators(model), (std::vector<std::string>{"Conv", "Relu", "MaxPool", "Conv", "Relu", "Conv", "Add", "Relu", "Conv", "Conv",
                                                        "Relu", "Conv", "Add", "Relu", "ReduceMean", "Reshape", "Gemm"}));
  EXPECT_EQ(model.graph.inputs.front().name, "image");
  EXPECT_EQ(model.graph.nodes.back().outputs.front(), "logits");
}

// Squeeze and excitation, channels that are joined and cut, an upsampled image, constants along channels.
TEST(Export, AMapOfImagesChannelsFirstHasNoTranspose) {
  Images net;
  const ValueId image = net.graph.add_input("image", DType::f32, {1, 4, 8, 12});
  ValueId x = net.conv(net.transpose(image, {0, 2, 3, 1}), 8, 3, 2, ops::UnaryAttrs{UnaryKind::hard_swish});
  x = net.conv(x, 8, 3, 1, ops::UnaryAttrs{UnaryKind::silu}, kNone, 8);
  const ValueId squeezed = net.linear(net.reshape(net.mean(x), {1, 8}), 8);
  const ops::UnaryAttrs hard_sigmoid{UnaryKind::hard_sigmoid, 0.2f, 0.5f};
  const ValueId gate = net.reshape(net.node(ops::unary, hard_sigmoid, {squeezed}, "gate"), {1, 1, 1, 8});
  x = net.node(ops::binary, ops::BinaryAttrs{BinaryKind::mul}, {x, gate}, "gated");
  x = net.node(ops::binary, ops::BinaryAttrs{BinaryKind::add}, {net.weight({8}, 1), x}, "shifted");
  x = net.node(ops::resize_2d, ops::Resize2dAttrs{.size = {8, 12}, .scale = {2, 2}}, {x}, "up");
  x = net.node(ops::concat, ops::ConcatAttrs{3}, {x, net.conv(net.transpose(image, {0, 2, 3, 1}), 4, 1, 1, std::nullopt)}, "joined");
  x = net.node(ops::slice, ops::SliceAttrs{{0, 0, 2, 1}, {1, 1, 1, 2}, {1, 8, 10, 5}}, {x}, "cut");
  x = net.node(ops::pad, ops::PadAttrs{.before = {0, 1, 2, 0}, .after = {0, 0, 1, 3}, .value = 0.5}, {x}, "padded");
  net.output("map", net.transpose(x, {0, 3, 1, 2}));
  const Model model = expect_same(finish(net), 21);
  EXPECT_EQ(count(model, "Transpose"), 0);
  EXPECT_EQ(count(model, "Identity"), 0);
}

TEST(Export, ImagesChannelsLastAreTransposedOnceAtEachEnd) {
  Images net;
  const ValueId image = net.graph.add_input("image", DType::f32, {1, 6, 6, 3});
  const ValueId a = net.conv(image, 4, 3, 1, kRelu), b = net.conv(image, 4, 1, 1, std::nullopt, a);
  net.output("map", b);
  EXPECT_EQ(count(expect_same(finish(net), 21), "Transpose"), 2);
}

TEST(Export, SignalsOfOneDimensionHaveNoTranspose) {
  Images net;
  const ValueId signal = net.graph.add_input("signal", DType::f32, {2, 3, 40});
  ValueId x = net.reshape(net.transpose(signal, {0, 2, 1}), {2, 1, 40, 3});
  x = net.node(ops::conv, ops::ConvAttrs{.stride = {1, 2}, .epilogue = {.activation = kRelu}}, {x, net.weight({5, 3, 1, 4}, 0.3)}, "conv");
  net.output("features", net.transpose(net.reshape(x, {2, 19, 5}), {0, 2, 1}));
  EXPECT_EQ(operators(expect_same(finish(net), 21)), (std::vector<std::string>{"Reshape", "Conv", "Relu", "Reshape"}));
}

headrace::Graph bert_layer() {
  Images net;
  const ValueId ids = net.graph.add_input("ids", DType::i64, {2, 5}), mask = net.graph.add_input("mask", DType::f32, {2, 1, 1, 5});
  const ops::LayerNormAttrs eps{1e-5f};
  const auto norm = [&](ValueId x) { return net.node(ops::layer_norm, eps, {x, net.weight({12}, 1), net.weight({12}, 1)}, "norm"); };
  ValueId x = net.node(ops::gather, ops::GatherAttrs{0}, {net.weight({20, 12}, 1), ids}, "words");
  x = norm(net.node(ops::binary, ops::BinaryAttrs{BinaryKind::add}, {x, net.weight({5, 12}, 1)}, "embedding"));
  const ValueId q = net.linear(x, 12), k = net.linear(x, 12), v = net.linear(x, 12);
  const ops::SdpaAttrs attention{.heads = 3, .kv_heads = 3, .scale = 0.5f, .mask = true};
  const ValueId context = net.linear(net.node(ops::sdpa, attention, {q, k, v, mask}, "attention"), 12);
  const auto sums = net.nodes(ops::add_layer_norm, eps, {context, x, net.weight({12}, 1), net.weight({12}, 1)}, "sum", 2);
  const ops::GemmAttrs up{.epilogue = {.bias = true, .activation = ops::UnaryAttrs{UnaryKind::gelu_erf}}};
  const ValueId wide = net.node(ops::gemm, up, {sums[1], net.weight({12, 24}, 0.3), net.weight({24}, 0.1)}, "up");
  const ops::GemmAttrs down{.epilogue = {.bias = true, .residual = true}};
  x = norm(net.node(ops::gemm, down, {wide, net.weight({24, 12}, 0.3), net.weight({12}, 0.1), sums[1]}, "down"));
  net.output("states", x);
  const ops::SliceAttrs first{{0, 0, 0}, {1, 1, 1}, {2, 1, 12}};
  net.output("pooled", net.linear(net.reshape(net.node(ops::slice, first, {x}, "first"), {2, 12}), 4));
  return finish(net);
}

TEST(Export, ALayerOfBertIsSpelledAsItsOpsetHasIt) {
  const headrace::Graph graph = bert_layer();
  HostValues given;
  given["ids"].tensor = {DType::i64, {2, 5}, {3, 19, 0, 7, 7, 1, 2, -1, 4, 5}};
  const Model old = expect_same(graph, 21, given), recent = expect_same(graph, 23, given);
  EXPECT_EQ(count(old, "Transpose"), 4);
  EXPECT_EQ(count(old, "Softmax"), 1);
  EXPECT_EQ(count(recent, "Attention"), 1);
  EXPECT_EQ(count(recent, "Transpose"), 0);
  EXPECT_EQ(count(recent, "LayerNormalization"), 3);
}

TEST(Export, AFileOfTheModelIsReadAgain) {
  const std::string path = ::testing::TempDir() + "headrace_export_test.onnx";
  const auto model = to_onnx(bert_layer(), {.opset = 22, .producer = "headrace"});
  ASSERT_TRUE(model) << model.error().to_string();
  ASSERT_TRUE(write_model(*model, path).ok());
  const auto read = read_model(path);
  std::remove(path.c_str());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->opsets, model->opsets);
  EXPECT_EQ(read->ir_version, 10);
  EXPECT_EQ(operators(*read), operators(*model));
}

// ---- names, constants, outputs

TEST(Export, OutputsOfOneValueAndOfInputsHaveNamesOfTheirOwn) {
  GraphBuilder builder;
  const ValueId x = builder.graph.add_input("x", DType::f32, {2, 3}), c = builder.graph.add_constant("x", DType::f32, {3}, {1, 2, 3});
  const ValueId y = builder.node(ops::binary, ops::BinaryAttrs{BinaryKind::add}, {x, c}, "x");
  builder.output("first", y);
  builder.output("second", y);
  builder.output("same", x);
  builder.output("constant", c);
  builder.output("turned", builder.node(ops::transpose, ops::TransposeAttrs{{1, 0}}, {y}, "turn"));
  const headrace::Graph graph = finish(builder);
  const Model model = expect_same(graph, 21);
  EXPECT_EQ(operators(model), (std::vector<std::string>{"Add", "Identity", "Identity", "Identity", "Transpose"}));
  ASSERT_EQ(model.graph.initializers.size(), 1u);
  const auto& [name, tensor] = *model.graph.initializers.begin();
  EXPECT_EQ(name, "x.2");
  EXPECT_EQ(tensor.raw(), graph.values[static_cast<size_t>(c)].bytes.get());  // no copy
}

TEST(Export, AConstantIsWrittenOnceInEachOrderOfItsAxes) {
  GraphBuilder builder;
  const ValueId a = builder.graph.add_input("a", DType::f32, {2, 4, 3});
  const ValueId w = builder.graph.add_constant("w", DType::f32, {5, 3}, some(15, 1, 1));
  const ValueId once = builder.node(ops::gemm, ops::GemmAttrs{.trans_b = true}, {a, w}, "once");
  const ValueId again = builder.node(ops::gemm, ops::GemmAttrs{.trans_b = true, .scale = 0.5f}, {a, w}, "again");
  builder.output("sum", builder.node(ops::binary, ops::BinaryAttrs{BinaryKind::sub}, {once, again}, "difference"));
  const Model model = expect_same(finish(builder), 21);
  EXPECT_EQ(operators(model), (std::vector<std::string>{"MatMul", "MatMul", "Mul", "Sub"}));
  EXPECT_EQ(model.graph.initializers.at("w").dims(), (Dims{3, 5}));
  EXPECT_EQ(model.graph.initializers.size(), 2u);
}

// ---- operators on the host

headrace::Graph host_graph(const Node& node, int64_t opset) {
  GraphBuilder builder;
  const ValueId x = builder.graph.add_input("x", DType::f32, {2, 6}), k = builder.graph.add_constant("k", DType::i64, {1}, {3});
  ops::HostAttrs attrs{node.op, make_host_node(node, opset, *find_op(node.op, opset)), {}, true};
  attrs.outputs = {value_type(DType::u8, {0}), value_type(DType::i64, {2, 3})};
  const auto outputs = builder.nodes(ops::host, std::move(attrs), {x, k}, "top", 2);
  builder.output("places", outputs[1]);
  return finish(builder);
}

TEST(Export, AnOperatorOnTheHostIsCopied) {
  Node top{.name = "top", .op = "TopK", .inputs = {"in", "count"}, .outputs = {"", "at"}};
  top.attributes["largest"] = {.kind = Attribute::Kind::integer, .integer = 0};
  const auto model = to_onnx(host_graph(top, 13), {});
  ASSERT_TRUE(model) << model.error().to_string();
  ASSERT_EQ(model->graph.nodes.size(), 1u);
  EXPECT_EQ(model->graph.nodes[0].inputs, (std::vector<std::string>{"x", "k"}));
  EXPECT_EQ(model->graph.nodes[0].outputs, (std::vector<std::string>{"", "places"}));
  const auto out = interpret(*model, {{"x", Tensor::of<float>({2, 6}, {5, 1, 4, 2, 3, 0, 0, 1, 2, 3, 4, 5})}});
  ASSERT_TRUE(out) << out.error().to_string();
  const auto places = out->at("places").tensor()->values<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(places.begin(), places.end()), (std::vector<int64_t>{5, 1, 3, 0, 1, 2}));
}

TEST(Export, AnOperatorThatChangedSinceItsOpsetIsRefused) {
  const Node top{.name = "top", .op = "TopK", .inputs = {"in", "count"}, .outputs = {"", "at"}};
  const auto model = to_onnx(host_graph(top, 9), {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), Code::unsupported);
  EXPECT_EQ(model.error().message(), "top (host): TopK of opset 9 is another operator in opset 21");
}

// ---- what is refused

TEST(Export, WhatOnnxCannotSayIsRefusedByName) {
  const auto refused = [](const headrace::Graph& graph) {
    const auto model = to_onnx(graph, {});
    EXPECT_FALSE(model);
    if (model) return std::string();
    EXPECT_EQ(model.error().code(), Code::unsupported);
    return model.error().message();
  };
  headrace::Graph weights;
  weights.add_weight("w", Format::f32, {2, 2}, {});
  EXPECT_EQ(refused(weights), "value w: a weight of a checkpoint has no place in an ONNX model");
  headrace::Graph symbolic;
  symbolic.add_input("x", DType::f32, {Dim::symbol(symbolic.symbols.add("T", 8)), 2});
  EXPECT_EQ(refused(symbolic), "value x: want constant dims, got [T, 2]");
  GraphBuilder language;
  const ValueId x = language.graph.add_input("x", DType::f32, {2, 4});
  language.output("y", language.node(ops::gated_activation, ops::UnaryAttrs{UnaryKind::silu}, {x, x}, "gate"));
  EXPECT_EQ(refused(finish(language)), "gate (gated_activation): no operators of ONNX say this op");
  GraphBuilder images;
  const ValueId image = images.graph.add_input("x", DType::f32, {1, 4, 4, 1});
  images.output("y", images.node(ops::resize_2d, ops::Resize2dAttrs{.size = {9, 9}, .scale = {2, 2}}, {image}, "up"));
  EXPECT_NE(refused(finish(images)).find("up (resize_2d): height and width 4 x 4 to 9 x 9"), std::string::npos);
}

TEST(Export, AnOpsetOutOfRangeIsRefused) {
  for (const int64_t opset : {kMinExportOpset - 1, kMaxOpset + 1}) {
    const auto model = to_onnx(bert_layer(), {.opset = opset});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), Code::invalid_argument);
  }
}

}  // namespace
}  // namespace headrace::onnx

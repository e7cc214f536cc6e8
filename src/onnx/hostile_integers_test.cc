// Integers at the ends of 64 bits, where a model says one: attributes, constants, declared dims. Every model
// of tests/cases/onnx_ops gets them one at a time. Each way must end soon, and refuse for the same cause with
// the same code; what the sanitizers say counts too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "onnx/file.h"
#include "onnx/infer.h"
#include "onnx/session.h"
#include "testing/onnx_ways.h"

namespace headrace::onnx {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(),
                  kHighest = std::numeric_limits<int64_t>::max();
constexpr int64_t kEnds[] = {
    kLowest,          kLowest + 1,  -(int64_t{1} << 32), -1,       0, 1, int64_t{1} << 20,
    int64_t{1} << 31, kMaxElements, int64_t{1} << 62,    kHighest,
};
constexpr RunLimits kLimits{.nodes = 256, .made_bytes = 1 << 20};

using Inputs = std::map<std::string, Value>;

// The three ways' codes, each within the limits; ok where there is an answer.
std::array<Code, 3> codes_of(const Model& model, const Inputs& inputs) {
  std::array<Code, 3> codes{};
  for (size_t i = 0; i < codes.size(); ++i) {
    const testing::OnnxWay& way = testing::kOnnxWays[i];
    SCOPED_TRACE(way.name);
    Session::Options options{.limits = kLimits, .threads = 1};
    options.reference = way.reference;
    if (!way.passes) options.compile.skip_passes = {"all"};
    const auto session = Session::make(model, options);
    const auto got = session ? session->run(inputs) : Result<Inputs>(tl::unexpected(session.error()));
    codes[i] = got ? Code::ok : got.error().code();
    if (got) continue;
    EXPECT_FALSE(got.error().message().empty());
    EXPECT_NE(codes[i], Code::internal) << got.error().message();
  }
  return codes;
}

// The limits count what each way makes, which may differ.
void expect_one_answer(const Model& model, const Inputs& inputs) {
  const std::array<Code, 3> codes = codes_of(model, inputs);
  if (std::ranges::find(codes, Code::resource_exhausted) != codes.end()) return;
  for (const Code code : codes) EXPECT_EQ(code_name(code), code_name(codes[0]));
}

// Ones for what the model declares, 2 for dims that it leaves open; none for inputs that are no tensors.
Inputs ones_for(const Model& model) {
  Inputs inputs;
  for (const ValueInfo& input : model.graph.inputs) {
    if (model.graph.initializers.contains(input.name) || input.type.kind != Type::Kind::tensor) continue;
    Dims dims;
    if (input.type.shape) {
      for (const Type::Dim& dim : *input.type.shape) dims.push_back(dim.value < 0 ? 2 : dim.value);
    }
    Tensor tensor(input.type.dtype, dims);
    dispatch<float, double, int8_t, uint8_t, int32_t, int64_t, bool>(
        tensor.dtype(), [&]<class T>() { std::fill_n(tensor.data<T>(), tensor.elements(), T{1}); });
    inputs[input.name] = std::move(tensor);
  }
  return inputs;
}

// Sets the integers of `list` to each of the ends in turn; `changed` looks at the model in between.
void each_end(std::span<int64_t> list, const std::function<void()>& changed) {
  for (int64_t& place : list.first(std::min<size_t>(list.size(), 8))) {
    const int64_t before = place;
    for (const int64_t end : kEnds) {
      SCOPED_TRACE("from " + std::to_string(before) + " to " + std::to_string(end));
      place = end;
      changed();
    }
    place = before;
  }
}

void each_end_of_attributes(Node& node, const std::function<void()>& changed) {
  for (auto& [name, attribute] : node.attributes) {
    SCOPED_TRACE(node.op + "." + name);
    if (attribute.kind == Attribute::Kind::integer) each_end(std::span(&attribute.integer, 1), changed);
    if (attribute.kind == Attribute::Kind::integers) each_end(attribute.integers, changed);
  }
}

Model read(const std::filesystem::path& path) {
  auto model = read_model(path.string());
  return model ? *std::move(model) : Model();
}

std::vector<std::filesystem::path> case_models() {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"tests/cases/onnx_ops/files", "tests/golden/onnx_types"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".onnx") paths.push_back(file.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(HostileIntegers, AttributesOfAnySizeHaveOneAnswer) {
  const auto paths = case_models();
  ASSERT_GE(paths.size(), 90u);
  for (const auto& path : paths) {
    SCOPED_TRACE(path.filename());
    Model model = read(path);
    const Inputs inputs = ones_for(model);
    for (Node& node : model.graph.nodes)
      each_end_of_attributes(node, [&] { expect_one_answer(model, inputs); });
  }
}

TEST(HostileIntegers, ConstantsOfAnySizeHaveOneAnswer) {
  for (const auto& path : case_models()) {
    SCOPED_TRACE(path.filename());
    Model model = read(path);
    const Inputs inputs = ones_for(model);
    for (auto& [name, tensor] : model.graph.initializers) {
      if (tensor.dtype() != DType::i64) continue;
      SCOPED_TRACE(name);
      tensor = tensor.clone();
      each_end(std::span(tensor.data<int64_t>(), static_cast<size_t>(tensor.elements())),
               [&] { expect_one_answer(model, inputs); });
    }
  }
}

// Dims of inputs as a model may declare them, before anybody gives a tensor.
TEST(HostileIntegers, DeclaredDimsOfAnySizeAreInferred) {
  for (const auto& path : case_models()) {
    SCOPED_TRACE(path.filename());
    Model model = read(path);
    for (ValueInfo& input : model.graph.inputs) {
      if (!input.type.shape) continue;
      for (Type::Dim& dim : *input.type.shape) {
        const Type::Dim before = std::exchange(dim, {});
        each_end(std::span(&dim.value, 1), [&] {
          const auto facts = infer_types(model);
          EXPECT_TRUE(facts || facts.error().code() != Code::internal) << facts.error().message();
        });
        dim = before;
      }
    }
  }
}

// ---- nodes that no case has

struct Case {
  std::string name;
  Node node;
  std::vector<Tensor> inputs;
  int64_t opset = 24;
};

Attribute integer(int64_t value) {
  return {.kind = Attribute::Kind::integer, .integer = value};
}
Attribute integers(std::vector<int64_t> values) {
  return {.kind = Attribute::Kind::integers, .integers = std::move(values)};
}
Attribute text(std::string value) {
  return {.kind = Attribute::Kind::text, .text = std::move(value)};
}

Tensor ones(Dims dims, DType dtype = DType::f32) {
  Tensor tensor(dtype, std::move(dims));
  dispatch<float, int64_t>(dtype, [&]<class T>() { std::fill_n(tensor.data<T>(), tensor.elements(), T{1}); });
  return tensor;
}

// The inputs are constants where `constant`, else given to the run.
std::pair<Model, Inputs> model_of(const Case& c, bool constant) {
  Model model;
  model.opsets[""] = c.opset;
  Inputs inputs;
  Node node = c.node;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    node.inputs.push_back(name);
    if (constant && i > 0) {
      model.graph.initializers[name] = c.inputs[i];
    } else {
      model.graph.inputs.push_back({name, {}});
      inputs[name] = c.inputs[i];
    }
  }
  if (node.outputs.empty()) node.outputs = {"y"};
  for (const std::string& output : node.outputs) model.graph.outputs.push_back({output, {}});
  model.graph.nodes = {std::move(node)};
  return {std::move(model), std::move(inputs)};
}

Graph scan_body() {
  Graph body;
  body.inputs = {{"s", {}}, {"e", {}}};
  body.nodes = {{.op = "Add", .inputs = {"s", "e"}, .outputs = {"t"}}};
  body.outputs = {{"t", {}}, {"e", {}}};
  return body;
}

std::vector<Case> edge_nodes() {
  const auto i64 = [](std::vector<int64_t> values) {
    return Tensor::of<int64_t>({std::ssize(values)}, values);
  };
  const Attribute body{.kind = Attribute::Kind::graph,
                       .graphs = {std::make_shared<const Graph>(scan_body())}};
  return {
      {"scan",
       {.op = "Scan",
        .outputs = {"y", "z"},
        .attributes = {{"body", body},
                       {"num_scan_inputs", integer(1)},
                       {"scan_input_axes", integers({0})},
                       {"scan_input_directions", integers({0})},
                       {"scan_output_axes", integers({0})}}},
       {ones({}), ones({3})}},
      {"attention",
       {.op = "Attention",
        .attributes = {{"q_num_heads", integer(2)},
                       {"kv_num_heads", integer(2)},
                       {"left_window_size", integer(1)},
                       {"right_window_size", integer(1)},
                       {"softmax_precision", integer(1)},
                       {"qk_matmul_output_mode", integer(0)}}},
       {ones({1, 2, 4}), ones({1, 2, 4}), ones({1, 2, 4})}},
      {"attention of no columns",
       {.op = "Attention", .attributes = {{"q_num_heads", integer(1)}, {"kv_num_heads", integer(1)}}},
       {ones({1, 2, 0}), ones({1, 2, 0}), ones({1, 2, 0})}},
      {"rotary",
       {.op = "RotaryEmbedding",
        .attributes = {{"num_heads", integer(1)}, {"rotary_embedding_dim", integer(4)}}},
       {ones({1, 2, 4}), ones({1, 2, 2}), ones({1, 2, 2})}},
      {"transposed",
       {.op = "ConvTranspose",
        .attributes = {{"group", integer(1)},
                       {"strides", integers({1, 1})},
                       {"dilations", integers({1, 1})},
                       {"output_shape", integers({3, 3})},
                       {"output_padding", integers({0, 0})}}},
       {ones({1, 1, 2, 2}), ones({1, 1, 2, 2})}},
      {"convolution of no channels",
       {.op = "Conv", .attributes = {{"group", integer(1)}, {"pads", integers({0, 0, 0, 0})}}},
       {ones({1, 0, 3, 3}), ones({2, 0, 2, 2})}},
      {"transposed, no channels",
       {.op = "ConvTranspose", .attributes = {{"group", integer(1)}}},
       {ones({1, 0, 3, 3}), ones({0, 2, 2, 2})}},
      {"deformed",
       {.op = "DeformConv", .attributes = {{"offset_group", integer(1)}, {"group", integer(1)}}},
       {ones({1, 1, 3, 3}), ones({1, 1, 2, 2}), ones({1, 8, 2, 2})}},
      {"deformed, no channels",
       {.op = "DeformConv", .attributes = {{"offset_group", integer(1)}}},
       {ones({1, 0, 3, 3}), ones({1, 0, 2, 2}), ones({1, 8, 2, 2})}},
      {"columns to image",
       {.op = "Col2Im",
        .attributes = {{"strides", integers({1, 1})},
                       {"dilations", integers({1, 1})},
                       {"pads", integers({0, 0, 0, 0})}}},
       {ones({1, 4, 4}), i64({3, 3}), i64({2, 2})}},
      {"unpool",
       {.op = "MaxUnpool",
        .attributes = {{"kernel_shape", integers({2})},
                       {"strides", integers({2})},
                       {"pads", integers({0, 0})}}},
       {ones({1, 1, 2}), ones({1, 1, 2}, DType::i64), i64({1, 1, 4})}},
      {"lp pool",
       {.op = "LpPool",
        .attributes = {{"kernel_shape", integers({2})},
                       {"p", integer(2)},
                       {"strides", integers({1})},
                       {"dilations", integers({1})}}},
       {ones({1, 1, 4})}},
      {"depth to space",
       {.op = "DepthToSpace", .attributes = {{"blocksize", integer(2)}}},
       {ones({1, 4, 1, 1})}},
      {"space to depth",
       {.op = "SpaceToDepth", .attributes = {{"blocksize", integer(2)}}},
       {ones({1, 1, 2, 2})}},
      {"depth to space of nothing",
       {.op = "DepthToSpace", .attributes = {{"blocksize", integer(2)}}},
       {ones({1 << 20, 0, 1 << 10, 1})}},
      {"space to depth of nothing",
       {.op = "SpaceToDepth", .attributes = {{"blocksize", integer(2)}}},
       {ones({1, kMaxElements, 0, 0})}},
      {"crop and pad",
       {.op = "CenterCropPad", .attributes = {{"axes", integers({0, 1})}}},
       {ones({3, 3}), i64({2, 4})}},
      {"trilu",
       {.op = "Trilu", .attributes = {{"upper", integer(1)}}},
       {ones({3, 3}), Tensor::scalar<int64_t>(0)}},
      {"reverse",
       {.op = "ReverseSequence", .attributes = {{"time_axis", integer(0)}, {"batch_axis", integer(1)}}},
       {ones({3, 2}), i64({3, 2})}},
      {"eye", {.op = "EyeLike", .attributes = {{"k", integer(0)}, {"dtype", integer(1)}}}, {ones({3, 3})}},
      {"cache",
       {.op = "TensorScatter", .attributes = {{"axis", integer(1)}, {"mode", text("circular")}}},
       {ones({1, 4, 2}), ones({1, 2, 2}), i64({0})}},
      {"groups",
       {.op = "GroupNormalization", .attributes = {{"num_groups", integer(2)}}},
       {ones({1, 4, 2}), ones({4}), ones({4})}},
      {"neighbours", {.op = "LRN", .attributes = {{"size", integer(3)}}}, {ones({1, 4, 2})}},
      {"fourier",
       {.op = "DFT", .attributes = {{"inverse", integer(0)}, {"onesided", integer(1)}}},
       {ones({1, 4, 1}), Tensor::scalar<int64_t>(4), Tensor::scalar<int64_t>(1)}},
      {"frames",
       {.op = "STFT", .attributes = {{"onesided", integer(1)}}},
       {ones({1, 8, 1}), Tensor::scalar<int64_t>(2), ones({4}), Tensor::scalar<int64_t>(4)}},
      {"window",
       {.op = "HannWindow", .attributes = {{"periodic", integer(1)}, {"output_datatype", integer(1)}}},
       {Tensor::scalar<int64_t>(4)}},
      {"mel",
       {.op = "MelWeightMatrix", .attributes = {{"output_datatype", integer(1)}}},
       {Tensor::scalar<int64_t>(4), Tensor::scalar<int64_t>(16), Tensor::scalar<int64_t>(8000),
        Tensor::scalar(0.0f), Tensor::scalar(4000.0f)}},
      {"regions",
       {.op = "RoiAlign",
        .attributes = {{"output_height", integer(2)},
                       {"output_width", integer(2)},
                       {"sampling_ratio", integer(2)}}},
       {ones({1, 1, 4, 4}), ones({1, 4}), Tensor::of<int64_t>({1}, {0})}},
      {"region maxima",
       {.op = "MaxRoiPool", .attributes = {{"pooled_shape", integers({2, 2})}}},
       {ones({2, 1, 4, 4}), ones({1, 5})}},
      {"to sequence",
       {.op = "SplitToSequence", .attributes = {{"axis", integer(0)}, {"keepdims", integer(1)}}},
       {ones({4, 2}), Tensor::scalar<int64_t>(2)}},
      {"words",
       {.op = "TfIdfVectorizer",
        .attributes = {{"mode", text("TF")},
                       {"min_gram_length", integer(1)},
                       {"max_gram_length", integer(2)},
                       {"max_skip_count", integer(0)},
                       {"ngram_counts", integers({0, 2})},
                       {"ngram_indexes", integers({0, 1, 2})},
                       {"pool_int64s", integers({1, 2, 1, 2})}}},
       {i64({1, 2, 3})}},
      {"loss",
       {.op = "NegativeLogLikelihoodLoss", .attributes = {{"ignore_index", integer(0)}}},
       {ones({2, 3}), i64({1, 2})}},
      {"a grid",
       {.op = "AffineGrid", .attributes = {{"align_corners", integer(0)}}},
       {ones({1, 2, 3}), i64({1, 1, 2, 2})}},
      {"quantized by blocks",
       {.op = "QuantizeLinear", .attributes = {{"axis", integer(1)}, {"block_size", integer(2)}}},
       {ones({2, 4}), ones({2, 2})}},
      {"recurrent",
       {.op = "GRU", .attributes = {{"hidden_size", integer(2)}, {"layout", integer(0)}}},
       {ones({3, 1, 2}), ones({1, 6, 2}), ones({1, 6, 2}), ones({1, 12}), i64({3})}},
      {"random",
       {.op = "Multinomial", .attributes = {{"sample_size", integer(2)}, {"dtype", integer(6)}}},
       {ones({1, 3})}},
      {"split",
       {.op = "Split",
        .outputs = {"y", "z"},
        .attributes = {{"axis", integer(0)}, {"num_outputs", integer(2)}}},
       {ones({4})}},
      {"slice", {.op = "Slice"}, {ones({4, 4}), i64({0, 1}), i64({3, 4}), i64({0, 1}), i64({1, 1})}},
      {"pad", {.op = "Pad", .attributes = {{"mode", text("reflect")}}}, {ones({4}), i64({1, 1})}},
      {"pad by its period", {.op = "Pad", .attributes = {{"mode", text("wrap")}}}, {ones({4}), i64({1, 1})}},
      {"resize",
       {.op = "Resize", .attributes = {{"axes", integers({0, 1})}}},
       {ones({2, 2}), ones({0}), ones({0}), i64({4, 4})}},
      {"unsqueeze", {.op = "Unsqueeze"}, {ones({4}), i64({0, 1})}},
      {"top",
       {.op = "TopK", .outputs = {"y", "z"}, .attributes = {{"axis", integer(0)}}},
       {ones({4}), i64({2})}},
      {"range",
       {.op = "Range"},
       {Tensor::scalar<int64_t>(0), Tensor::scalar<int64_t>(4), Tensor::scalar<int64_t>(1)}},
      {"one hot",
       {.op = "OneHot", .attributes = {{"axis", integer(0)}}},
       {i64({1, 2}), Tensor::scalar<int64_t>(3), Tensor::of<float>({2}, {0, 1})}},
      {"division", {.op = "Div"}, {i64({5, 6}), i64({1, 2})}},
      {"remainder", {.op = "Mod", .attributes = {{"fmod", integer(0)}}}, {i64({5, 6}), i64({1, 2})}},
      {"power", {.op = "Pow"}, {i64({5, 6}), i64({1, 2})}},
      {"whole mean", {.op = "ReduceMean"}, {i64({5, 6}), i64({0})}},
  };
}

TEST(HostileIntegers, NodesOfAnySizeHaveOneAnswer) {
  for (Case& c : edge_nodes()) {
    SCOPED_TRACE(c.name);
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(constant ? "constants" : "inputs");
      const auto look = [&] {
        const auto [model, inputs] = model_of(c, constant);
        expect_one_answer(model, inputs);
      };
      look();
      each_end_of_attributes(c.node, look);
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        SCOPED_TRACE("input " + std::to_string(i));
        if (c.inputs[i].dtype() != DType::i64) continue;
        each_end(std::span(c.inputs[i].data<int64_t>(), static_cast<size_t>(c.inputs[i].elements())), look);
      }
    }
  }
}

// As they are, these work: what the ends change is a change of something that is right.
TEST(HostileIntegers, TheNodesThemselvesAreRight) {
  for (const Case& c : edge_nodes()) {
    SCOPED_TRACE(c.name);
    const auto [model, inputs] = model_of(c, false);
    if (c.name.ends_with("of nothing")) continue;
    for (const Code code : codes_of(model, inputs)) EXPECT_EQ(code_name(code), "ok");
  }
}

}  // namespace
}  // namespace headrace::onnx

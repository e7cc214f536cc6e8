#include "onnx/explain.h"

#include <gmock/gmock.h>

#include <set>

#include "testing/golden.h"

namespace headrace::onnx {
namespace {

using ::testing::HasSubstr;

Session load(const std::string& name, const Session::Options& options = {}) {
  return Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), options).value();
}

Session::Options own_kernels() {
  Session::Options options;
  options.compile.library_kernels = false;
  return options;
}

ValueInfo f32_input(const std::string& name, const Dims& dims) {
  ValueInfo input{name, {.kind = Type::Kind::tensor, .dtype = DType::f32, .shape = std::vector<Type::Dim>()}};
  for (const int64_t dim : dims) input.type.shape->push_back({dim, ""});
  return input;
}

// y = op(relu(x)) of x f32 [1, 4].
Model one_node(const std::string& op) {
  Model model;
  model.opsets[""] = 17;
  model.graph.inputs = {f32_input("x", {1, 4})};
  model.graph.nodes = {{.op = "Relu", .inputs = {"x"}, .outputs = {"r"}}, {.name = "odd", .op = op, .inputs = {"r"}, .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  return model;
}

TEST(Explain, EveryNodeOfAResidualNetworkIsDoneByAKernelOrFolded) {
  const Session session = load("resnet_tiny", own_kernels());
  const auto parts = explain(session, {.dims = {{"batch", 2}}}).value();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].place, "graph");
  EXPECT_TRUE(parts[0].host.empty());
  ASSERT_TRUE(parts[0].program);
  const ExplainedProgram& program = *parts[0].program;
  EXPECT_EQ(program.num_steps, session.model().graph.nodes.size());
  std::set<std::string> seen(program.folded.begin(), program.folded.end());
  size_t convolutions = 0;
  for (const ExplainedNode& node : program.nodes) {
    EXPECT_FALSE(node.reference) << node.name;
    EXPECT_FALSE(node.seconds) << "nothing ran";
    seen.insert(node.origins.begin(), node.origins.end());
    if (node.op != "conv") continue;
    ++convolutions;
    EXPECT_EQ(node.precision, "f32");
    EXPECT_GT(node.flops, 0);
    // A convolution, its normalization, and an activation or a shortcut for most.
    EXPECT_GE(node.origins.size(), 2u) << node.name;
    EXPECT_THAT(node.origins, ::testing::Contains(HasSubstr("(Conv"))) << node.name;
    EXPECT_THAT(node.origins, ::testing::Contains(HasSubstr("(BatchNormalization"))) << node.name;
  }
  EXPECT_EQ(seen.size(), program.num_steps);
  size_t written = 0;
  for (const Node& node : session.model().graph.nodes) written += node.op == "Conv" ? 1 : 0;
  EXPECT_EQ(convolutions, written);
  EXPECT_GE(program.planned_bytes, program.live_set_bound);
  const auto bound = static_cast<double>(program.live_set_bound);
  EXPECT_LE(static_cast<double>(program.planned_bytes), std::max(1.05 * bound, bound + 65536));
  EXPECT_GT(program.naive_bytes, program.planned_bytes);
}

TEST(Explain, TimesNodesOverTheRunsAskedFor) {
  const Session session = load("resnet_tiny", own_kernels());
  const auto& shape = *session.inputs()[0].type.shape;
  Dims dims;
  for (const Type::Dim& dim : shape) dims.push_back(dim.value < 0 ? 1 : dim.value);
  runtime::RoofRow roof{.threads = 1, .reads = {{"memory", 1 << 20, 1e9}}};
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) roof.arithmetic.push_back({isa, 1e9, 0, 0});
  const auto parts = explain(session, {.values = {{session.inputs()[0].name, Tensor(DType::f32, dims)}}, .runs = 3, .roof = &roof}).value();
  const ExplainedProgram& program = *parts.at(0).program;
  EXPECT_EQ(program.num_runs, 3u);
  EXPECT_GT(program.seconds(), 0);
  for (const ExplainedNode& node : program.nodes) {
    if (node.kernel == "view") continue;
    ASSERT_TRUE(node.seconds && node.roof_share) << node.name;
    // The harder of the two roofs, of a machine that does 1e9 of each a second.
    EXPECT_NEAR(*node.roof_share * *node.seconds, std::max(node.flops, node.bytes) * 1e-9, 1e-12) << node.name;
    EXPECT_EQ(node.memory_bound, node.bytes >= node.flops) << node.name;
    EXPECT_FALSE(node.why.empty()) << node.name;
  }
}

TEST(Explain, SaysWhyAReferenceOperatorComputesANode) {
  const Session session = Session::make(one_node("Asinh"), {}).value();
  const auto parts = explain(session, {}).value();
  const ExplainedNode& node = parts.at(0).program->nodes.at(1);
  EXPECT_TRUE(node.reference);
  EXPECT_EQ(node.kernel, "reference");
  EXPECT_EQ(node.op, "Asinh");
  EXPECT_EQ(node.why, "no lowering for the operator");
  EXPECT_EQ(node.origins, std::vector<std::string>{"node 1 (Asinh, \"odd\")"});
}

TEST(Explain, ShowsTheGraphsOfNodesOnceTheyHaveRun) {
  const Session session = load("vad_tiny", own_kernels());
  const auto dry = explain(session, {.dims = {{"batch", 1}, {"samples", 80}}}).value();
  ASSERT_FALSE(dry.empty());
  EXPECT_THAT(dry[0].host.at(0).second, HasSubstr("depends on data"));
}

// ---- strict

Status strict_error(Model model) {
  Session::Options options;
  options.compile.strict = true;
  const Session session = Session::make(std::move(model), options).value();
  const auto outputs = session.run({{"x", Tensor::of<float>({1, 4}, {1, 2, 3, 4})}});
  return outputs ? Status() : outputs.error();
}

TEST(Strict, RefusesAReferenceOperatorByNameAndReason) {
  const Status status = strict_error(one_node("Asinh"));
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_EQ(status.message(), "node 1 (Asinh, \"odd\"): strict: a reference operator would compute it: no lowering for the operator");
  EXPECT_TRUE(strict_error(one_node("Abs")).ok());
}

TEST(Strict, SaysWhatALoweringDeclines) {
  Model model = one_node("Dropout");
  model.graph.nodes[1].outputs = {"dropped", "y"};
  EXPECT_THAT(strict_error(model).message(), HasSubstr("a reference operator would compute it: its mask is read"));
  model = one_node("Cast");
  model.graph.nodes[1].attributes["to"].integer = 5;  // INT16
  EXPECT_THAT(strict_error(model).message(), HasSubstr("no lowering for these types and attributes: f32 [1, 4]"));
}

TEST(Strict, RefusesANodeWhoseTypesDependOnData) {
  const Status status = strict_error(one_node("NonZero"));
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_THAT(status.message(), HasSubstr("node 1 (NonZero, \"odd\"): strict: a reference operator would compute it: types that depend"));
}

TEST(Strict, AllowsSequencesWhichComputeNothing) {
  Model model = one_node("Abs");
  model.graph.nodes[1] = {.op = "SequenceConstruct", .inputs = {"r"}, .outputs = {"s"}};
  model.graph.nodes.push_back({.op = "ConcatFromSequence", .inputs = {"s"}, .outputs = {"y"}});
  Attribute axis;
  axis.integer = 0;
  model.graph.nodes[2].attributes["axis"] = axis;
  EXPECT_TRUE(strict_error(model).ok()) << strict_error(model).message();
}

TEST(Strict, PassesNetworksOfImagesAndTexts) {
  for (const char* name : {"resnet_tiny", "mobilenet_tiny", "ocr_tiny", "bert_tiny"}) {
    SCOPED_TRACE(name);
    Session::Options options;
    options.compile.strict = true;
    const Session session = load(name, options);
    std::map<std::string, int64_t> dims;
    for (const ValueInfo& input : session.inputs()) {
      for (const Type::Dim& dim : *input.type.shape) {
        if (dim.value < 0) dims[dim.symbol] = 32;
      }
    }
    const auto parts = explain(session, {.dims = dims});
    EXPECT_TRUE(parts) << parts.error().message();
  }
}

TEST(Strict, PassesAVoiceDetectorWhoseBranchesDependOnDataAndOnShapes) {
  Session::Options options;
  options.compile.strict = true;
  const Session session = load("vad_tiny", options);
  for (const int64_t rate : {16000, 8000}) {
    const std::map<std::string, Value> inputs = {{"input", Tensor(DType::f32, {2, 80})},
                                                 {"state", Tensor(DType::f32, {2, 2, 16})},
                                                 {"sr", Tensor::scalar<int64_t>(rate)}};
    const auto parts = explain(session, {.values = inputs});
    ASSERT_TRUE(parts) << parts.error().message();
    size_t chosen_by_data = 0;
    for (const ExplainedPart& part : *parts) chosen_by_data += part.host.size();
    EXPECT_EQ(chosen_by_data, 1u);  // that of the rate
  }
}

}  // namespace
}  // namespace headrace::onnx

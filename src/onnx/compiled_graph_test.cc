// Where the nodes of branches run, and what stands behind a choice: against the reference operators.
#include "onnx/compiled_graph.h"

#include <gmock/gmock.h>

#include "onnx/explain.h"
#include "testing/onnx_compare.h"
#include "testing/onnx_ways.h"

namespace headrace::onnx {
namespace {

using ::testing::HasSubstr;

ValueInfo input(const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  ValueInfo info{name, {.kind = Type::Kind::tensor, .dtype = dtype, .shape = std::vector<Type::Dim>()}};
  for (const std::string& dim : dims) info.type.shape->push_back({-1, dim});
  return info;
}

Node node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {.op = op, .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

Node constant(const std::string& name, Tensor value) {
  Node made = node("Constant", {}, {name});
  made.attributes["value"] = {.kind = Attribute::Kind::tensor, .tensors = {std::move(value)}};
  return made;
}

Graph branch(std::vector<Node> nodes, const std::vector<std::string>& outputs) {
  Graph graph;
  graph.nodes = std::move(nodes);
  for (const std::string& name : outputs) graph.outputs.push_back({name, {}});
  return graph;
}

Node choice(const std::string& condition, std::vector<std::string> outputs, Graph taken, Graph other) {
  Node made = node("If", {condition}, std::move(outputs));
  const auto attribute = [](Graph graph) {
    return Attribute{.kind = Attribute::Kind::graph, .graphs = {std::make_shared<const Graph>(std::move(graph))}};
  };
  made.attributes["then_branch"] = attribute(std::move(taken));
  made.attributes["else_branch"] = attribute(std::move(other));
  return made;
}

Model model_of(std::vector<ValueInfo> inputs, std::vector<Node> nodes, const std::vector<std::string>& outputs) {
  Model model;
  model.opsets[""] = 17;
  model.graph = branch(std::move(nodes), outputs);
  model.graph.inputs = std::move(inputs);
  return model;
}

using Values = std::map<std::string, Value>;

void expect_as_by_reference(const Session& session, const Values& inputs) {
  const auto got = session.run(inputs), want = interpret(session.model(), inputs);
  ASSERT_TRUE(want) << want.error().message();
  ASSERT_TRUE(got) << got.error().message();
  for (const auto& [name, value] : *want) EXPECT_EQ(testing::onnx_difference(got->at(name), value, {1e-6, 1e-6}), "") << name;
}

Session strict_session(Model model) {
  Session::Options options;
  options.compile.strict = true;
  return Session::make(std::move(model), options).value();
}

Tensor floats(Dims dims) {
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = static_cast<float>(i % 7) - 3;
  return tensor;
}

// y = x for one row, |x| + 1 for more.
std::vector<Node> by_rows() {
  Node rows = node("Gather", {"shape", "zero"}, {"rows"});
  return {constant("zero", Tensor::scalar<int64_t>(0)),
          constant("one", Tensor::scalar<int64_t>(1)),
          node("Shape", {"x"}, {"shape"}),
          rows,
          node("Equal", {"rows", "one"}, {"single"}),
          choice("single", {"y"}, branch({}, {"x"}),
                 branch({node("Abs", {"x"}, {"a"}), constant("c", Tensor::scalar(1.0f)), node("Add", {"a", "c"}, {"b"})}, {"b"}))};
}

TEST(CompiledGraph, PutsABranchInPlaceOfAnIfWhoseConditionFollowsFromShapes) {
  const Session session = strict_session(model_of({input("x", DType::f32, {"n", "m"})}, by_rows(), {"y"}));
  expect_as_by_reference(session, {{"x", floats({1, 5})}});
  expect_as_by_reference(session, {{"x", floats({3, 5})}});
  const auto parts = explain(session, {.dims = {{"n", 3}, {"m", 5}}}).value();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].host.empty());
  std::vector<std::string> origins;
  for (const ExplainedNode& one : parts[0].program->nodes) origins.insert(origins.end(), one.origins.begin(), one.origins.end());
  EXPECT_THAT(origins, ::testing::IsSupersetOf({"node 5 (If), node 0 (Abs)", "node 5 (If), node 2 (Add)"}));
}

TEST(CompiledGraph, PutsBranchesWithinBranchesInPlace) {
  Node inner = choice("single", {"y"}, branch({node("Neg", {"r"}, {"n"})}, {"n"}), branch({node("Exp", {"r"}, {"e"})}, {"e"}));
  std::vector<Node> nodes = by_rows();
  nodes.back() = choice("single", {"z"}, branch({node("Relu", {"x"}, {"r"}), inner}, {"y"}),
                        branch({node("Abs", {"x"}, {"r"}), inner}, {"y"}));
  const Session session = strict_session(model_of({input("x", DType::f32, {"n", "m"})}, nodes, {"z"}));
  for (const int64_t rows : {1, 2}) {
    expect_as_by_reference(session, {{"x", floats({rows, 4})}});
    const auto parts = explain(session, {.dims = {{"n", rows}, {"m", 4}}}).value();
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_TRUE(parts[0].host.empty());
  }
}

// z = unsqueeze(flag ? x W + b : x W), where W and b are constants of the graph around the branches.
Model by_data() {
  std::vector<Node> nodes = {constant("W", floats({4, 6})), constant("b", floats({6})), constant("axes", Tensor::of<int64_t>({1}, {0}))};
  nodes.push_back(choice("flag", {"y"}, branch({node("MatMul", {"x", "W"}, {"p"}), node("Add", {"p", "b"}, {"s"})}, {"s"}),
                         branch({node("MatMul", {"x", "W"}, {"p"})}, {"p"})));
  nodes.push_back(node("Unsqueeze", {"y", "axes"}, {"z"}));
  return model_of({input("x", DType::f32, {"n", "m"}), input("flag", DType::boolean, {})}, std::move(nodes), {"z"});
}

TEST(CompiledGraph, ChoosesABranchByDataAndPlansWhatStandsBehindIt) {
  const Session session = strict_session(by_data());
  for (const bool flag : {true, false, true}) {
    expect_as_by_reference(session, {{"x", floats({3, 4})}, {"flag", Tensor::scalar(flag)}});
  }
  const Values values = {{"x", floats({3, 4})}, {"flag", Tensor::scalar(true)}};
  const auto parts = explain(session, {.values = values}).value();
  std::map<std::string, const ExplainedPart*> places;
  for (const ExplainedPart& part : parts) places[part.place] = &part;
  ASSERT_TRUE(places.contains("graph") && places.contains("graph, behind 1 host part") && places.contains("node 3 (If), then_branch"));
  EXPECT_THAT(places["graph"]->host.at(0).second, HasSubstr("depends on data"));
  EXPECT_TRUE(places["graph, behind 1 host part"]->host.empty());
  // W and b are constants of the branch, which is given x alone.
  EXPECT_THAT(places["node 3 (If), then_branch"]->program->inputs, ::testing::ElementsAre("x: f32 [3, 4]"));
}

TEST(CompiledGraph, GivesValuesOfAroundBranchesThatComputeNothing) {
  Model model = model_of({input("x", DType::f32, {"n"}), input("flag", DType::boolean, {})},
                         {choice("flag", {"y", ""}, branch({}, {"x", "x"}), branch({node("Neg", {"x"}, {"n"})}, {"n", "own"}))}, {"y"});
  Graph other = *model.graph.nodes[0].attributes["else_branch"].graphs[0];
  other.initializers["own"] = Tensor::scalar(2.0f);
  model.graph.nodes[0].attributes["else_branch"].graphs[0] = std::make_shared<const Graph>(other);
  const Session session = strict_session(model);
  for (const bool flag : {true, false}) expect_as_by_reference(session, {{"x", floats({5})}, {"flag", Tensor::scalar(flag)}});
}

TEST(CompiledGraph, RefusesAConditionThatIsNotOneBool) {
  Model model = by_data();
  model.graph.inputs[1] = input("flag", DType::boolean, {"k"});
  const auto outputs = Session::make(model, {}).value().run({{"x", floats({3, 4})}, {"flag", Tensor::of<bool>({2}, {true, false})}});
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code(), Code::malformed);
  EXPECT_THAT(outputs.error().message(), HasSubstr("node 3 (If): a condition: want one bool, got 2 of bool"));
}

TEST(CompiledGraph, RefusesABranchWithTooFewOutputs) {
  Model model = model_of({input("x", DType::f32, {"n"}), input("flag", DType::boolean, {})},
                         {choice("flag", {"y", "z"}, branch({}, {"x", "x"}), branch({}, {"x"}))}, {"y"});
  const auto session = Session::make(model, {});
  ASSERT_FALSE(session);
  EXPECT_THAT(session.error().message(), HasSubstr("node 0 (If): the branch has 1 outputs, the node 2"));
}

// A split of int32 has no lowering: its reference makes the output that has no name, too.
TEST(CompiledGraph, LeavesOutAnOutputWithoutANameThatAnOperatorMakes) {
  Node split = node("Split", {"x"}, {"a", "b", ""});
  split.attributes["num_outputs"] = {.kind = Attribute::Kind::integer, .integer = 3};
  Model model = model_of({input("x", DType::i32, {"n"})}, {split}, {"a", "b"});
  model.opsets[""] = 19;
  expect_as_by_reference(Session::make(model, {}).value(), {{"x", Tensor::of<int32_t>({6}, {1, 2, 3, 4, 5, 6})}});
}

// What an If is does not depend on which branch a run takes, by any way.
TEST(CompiledGraph, RefusesAnIfWithoutOneOfItsBranchesWhicheverIsTaken) {
  const Values inputs = {{"x", floats({5})}, {"flag", Tensor::scalar(true)}};
  for (const bool missing : {true, false}) {
    Model model = model_of({input("x", DType::f32, {"n"}), input("flag", DType::boolean, {})},
                           {choice("flag", {"y"}, branch({}, {"x"}), missing ? Graph() : branch({}, {}))}, {"y"});
    if (missing) model.graph.nodes[0].attributes.erase("else_branch");
    for (const testing::OnnxWay& way : testing::kOnnxWays) {
      const auto got = way.run(model, inputs);
      ASSERT_FALSE(got) << way.name;
      EXPECT_EQ(got.error().code(), Code::malformed) << way.name;
    }
  }
}

// A chain of choices by data, each in a branch of the one before it: what is compiled grows with what a run takes.
TEST(CompiledGraph, RunsDeepChoices) {
  Graph inner = branch({node("Neg", {"x"}, {"deepest"})}, {"deepest"});
  for (int depth = 0; depth < 30; ++depth) {
    const std::string name = "y" + std::to_string(depth);
    inner = branch({choice("flag", {name}, inner, branch({}, {"x"}))}, {name});
  }
  Model model = model_of({input("x", DType::f32, {"n"}), input("flag", DType::boolean, {})}, {}, {});
  inner.inputs = model.graph.inputs;
  model.graph = inner;
  const Session session = strict_session(model);
  for (const bool flag : {true, false}) expect_as_by_reference(session, {{"x", floats({5})}, {"flag", Tensor::scalar(flag)}});
}

}  // namespace
}  // namespace headrace::onnx

#include <gmock/gmock.h>

#include "graph/dense_testing.h"
#include "graph/test_ops.h"
#include "ops/elementwise.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ::testing::ElementsAre;

TEST(ConstantFolding, ComputesAChainOfConstants) {
  WithInput p(2);
  const ValueId a = p.graph.add_constant("a", DType::f32, {1, 2}, {1, 2});
  const ValueId b = p.graph.add_constant("b", DType::f32, {1, 2}, {0.5, 0.1});
  const ValueId sum = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {a, b}, "sum");
  p.graph.set_output("product", node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {sum, sum}, "product"));
  EXPECT_EQ(run_alone(p.graph, "constant_folding"), 2);
  EXPECT_TRUE(p.graph.nodes.empty());
  const Value& folded = p.graph.values[p.graph.outputs[0].value];
  EXPECT_EQ(folded.role, ValueRole::constant);
  // Rounded to float32 after each node, as the node would.
  const double second = static_cast<float>(2 + static_cast<double>(0.1f));
  EXPECT_THAT(constant_values(folded), ElementsAre(2.25, static_cast<float>(second * second)));
}

TEST(ConstantFolding, LeavesWhatDependsOnInputsStateOrChance) {
  WithInput p(2);
  const ValueId a = p.graph.add_constant("a", DType::f32, {2}, {1, 2});
  const ValueId state = p.graph.add_state("state", ValueType::tensor(DType::f32, {2}));
  p.graph.set_output("x", node(p.graph, test_ops::sum, test_ops::NoAttrs{}, {p.x}, "x"));
  p.graph.set_output("load", node(p.graph, test_ops::load, test_ops::NoAttrs{}, {a, state}, "load"));
  p.graph.set_output("draw", node(p.graph, test_ops::draw, test_ops::NoAttrs{}, {a}, "draw"));
  const std::string before = p.graph.to_string();
  EXPECT_EQ(run_alone(p.graph, "constant_folding"), 0);
  EXPECT_EQ(p.graph.to_string(), before);
}

TEST(ConstantFolding, LeavesResultsThatAreTooLargeToKeep) {
  for (const int64_t rows : {32768, 32769}) {
    Dense g;
    const ValueId column = g.constant({rows, 1}, std::vector<double>(static_cast<size_t>(rows), 1.0));
    g.output(g.plus(column, g.constant({2}, {1, 2})));
    EXPECT_EQ(run_alone(g.graph, "constant_folding"), rows == 32768 ? 1 : 0);
  }
}

TEST(ConstantFolding, MovesBytesOfEveryDtypeAsTheReferenceDoes) {
  for (const DType dtype : {DType::f32, DType::f16, DType::f64, DType::i8, DType::i64, DType::boolean}) {
    Dense g;
    std::vector<double> data;
    for (int i = 0; i < 24; ++i) data.push_back(dtype == DType::boolean ? i % 3 == 0 : i % 11 - 5);
    const ValueId c = g.constant({2, 3, 4}, data, dtype);
    g.output(g.transpose(c, {2, 0, 1}));
    ops::SliceAttrs back{{1, 2, 3}, {-1, -2, -1}, {2, 2, 3}};
    g.output(g.add(ops::slice, back, {c}));
    g.output(g.expand(g.slice(c, 1, 0, 1), {2, 2, 3, 4}));
    g.output(g.concat({c, g.slice(c, 1, 1, 3)}, 1));
    g.output(g.reshape(c, {6, 4}));
    g.output(g.add(ops::cast, ops::CastAttrs{DType::f32}, {c}));
    EXPECT_EQ(g.run("constant_folding"), 8);
    EXPECT_TRUE(g.graph.nodes.empty());
  }
}

TEST(ConstantFolding, MovesLargeConstantsThatDoNotGrow) {
  Dense g;
  const ValueId c = g.constant({300, 400}, std::vector<double>(120000, 1.0));
  g.output(g.transpose(c, {1, 0}));
  g.output(g.expand(g.reshape(c, {300, 1, 400}), {300, 2, 400}));
  EXPECT_EQ(run_alone(g.graph, "constant_folding"), 2);
  EXPECT_EQ(g.num(ops::expand), 1);
}

TEST(ConstantFolding, DoesNotMakeGigabytesOfOneConstant) {
  Dense g;
  const ValueId c = g.constant({1 << 11, 1 << 11}, std::vector<double>(1 << 22, 1.0));  // 16 MiB
  for (int i = 0; i < 20; ++i) g.output(g.unary(UnaryKind::neg, g.transpose(c, {1, 0})));
  EXPECT_LT(run_alone(g.graph, "constant_folding"), 20);
}

}  // namespace
}  // namespace headrace

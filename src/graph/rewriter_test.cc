#include "graph/rewriter.h"

#include <gmock/gmock.h>

#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ::testing::HasSubstr;

TEST(Rewriter, AppliesReplacementsThroughChainsAndSortsNewNodesBeforeTheirReaders) {
  Dense g;
  const ValueId x = g.input({2});
  const ValueId first = g.unary(UnaryKind::exp, x), second = g.unary(UnaryKind::log, first), last = g.unary(UnaryKind::neg, second);
  g.output(last);
  Rewriter rewriter(g.graph);
  const ValueId tanh = rewriter.add(ops::unary, ops::UnaryAttrs{UnaryKind::tanh}, {x}, "tanh");
  const ValueId relu = rewriter.add(ops::unary, ops::UnaryAttrs{UnaryKind::relu}, {tanh}, "relu");
  rewriter.replace(second, tanh);
  rewriter.replace(tanh, rewriter.resolve(tanh));
  EXPECT_EQ(rewriter.producer(first), nullptr);  // nothing reads it any more
  EXPECT_EQ(rewriter.num_uses(tanh), 2);         // relu, which dies in the end, and the last node
  EXPECT_EQ(rewriter.node(2).inputs[0], tanh);
  static_cast<void>(relu);
  ASSERT_EQ(rewriter.finish(1).value(), 1);
  EXPECT_TRUE(verify(g.graph).ok());
  ASSERT_EQ(g.graph.nodes.size(), 2u);
  EXPECT_EQ(g.graph.nodes[0].name, "tanh");
  EXPECT_EQ(g.graph.nodes[1].outputs[0], last);
}

TEST(Rewriter, ReportsTheFirstErrorOfANewNode) {
  Dense g;
  const ValueId x = g.input({2}), y = g.input({3});
  const ValueId sum = g.unary(UnaryKind::exp, x);
  g.output(sum);
  Rewriter rewriter(g.graph);
  const ValueId wrong = rewriter.add(ops::binary, ops::BinaryAttrs{}, {x, y}, "wrong");
  EXPECT_EQ(wrong, kNone);
  rewriter.replace(sum, wrong);
  EXPECT_EQ(rewriter.add(ops::unary, ops::UnaryAttrs{}, {x}, "later"), kNone);
  const Result<int> finished = rewriter.finish(1);
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().to_string(), HasSubstr("wrong"));
}

TEST(Rewriter, AffordsConstantsInProportionToThoseThatAreThere) {
  Dense g;
  g.noise({1 << 20});
  Rewriter rewriter(g.graph);
  EXPECT_TRUE(rewriter.affords(int64_t{16} << 20));
  EXPECT_FALSE(rewriter.affords(int64_t{1} << 30));
}

}  // namespace
}  // namespace headrace

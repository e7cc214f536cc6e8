#include <limits>

#include "graph/dense_testing.h"
#include "ops/sdpa.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ops::SdpaAttrs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two heads of 4 over batches of 3 queries and 5 keys, q [B, 2, 3, 4], k [B, 2, 5, 4], v [B, 2, 5, 4] split from projections.
struct Heads : Dense {
  int64_t batch;
  ValueId q_rows, k_rows, v_rows, q, k, v;
  explicit Heads(int64_t batch_size = 2) : batch(batch_size) {
    q_rows = input({batch, 3, 8});
    k_rows = input({batch, 5, 8});
    v_rows = input({batch, 5, 8});
    q = split(q_rows);
    k = split(k_rows);
    v = split(v_rows);
  }
  ValueId split(ValueId rows) { return transpose(reshape(rows, {batch, dims(rows)[1], 2, 4}), {0, 2, 1, 3}); }
  ValueId scores() { return gemm(q, transpose(k, {0, 1, 3, 2})); }
  // [B, 3, 8] of the attention that softmax makes.
  void attend(ValueId scores) { output(reshape(transpose(gemm(softmax(scores), v), {0, 2, 1, 3}), {batch, 3, 8})); }
  // The graph is one sdpa that reads the projections.
  const Node& attention() {
    EXPECT_EQ(run("fuse_attention"), 1);
    run("dead_code");
    const Node& node = only(ops::sdpa);
    EXPECT_EQ(num(ops::transpose) + num(ops::reshape) + num(ops::gemm) + num(ops::softmax), 0) << graph.to_string();
    EXPECT_EQ(node.inputs[0], q_rows);
    EXPECT_EQ(node.inputs[1], k_rows);
    EXPECT_EQ(node.inputs[2], v_rows);
    return node;
  }
};

TEST(FuseAttention, TakesTheScaleFromScoresQueriesAndKeys) {
  for (int place = 0; place < 4; ++place) {
    Heads g;
    if (place == 1) g.q = g.times(g.q, g.number(0.5));
    if (place == 2) {
      g.q = g.over(g.q, g.number(1.4142135));
      g.k = g.times(g.k, g.number(0.70710678));
    }
    if (place == 3) g.k = g.split(g.times(g.k_rows, g.number(0.5)));  // above the movements
    ValueId scores = g.scores();
    if (place == 0) scores = g.over(scores, g.number(2));
    g.attend(scores);
    const auto& attrs = g.attention().attrs.as<SdpaAttrs>();
    EXPECT_NEAR(attrs.scale, 0.5f, 1e-6);
    EXPECT_EQ(attrs.heads, 2);
    EXPECT_EQ(attrs.kv_heads, 2);
    EXPECT_FALSE(attrs.mask);
  }
}

TEST(FuseAttention, AddsAMaskThatIsComputedOrConstant) {
  for (const Dims& dims : {Dims{2, 1, 1, 5}, Dims{1, 2, 3, 5}, Dims{3, 5}, Dims{2, 2, 3, 5}}) {
    for (const bool computed : {true, false}) {
      Heads g;
      const ValueId mask = computed ? g.input(dims) : g.noise(dims);
      const ValueId scores = g.times(g.scores(), g.number(0.5));
      g.attend(computed ? g.plus(scores, mask) : g.plus(mask, scores));
      EXPECT_EQ(g.run("fuse_attention"), 1);
      EXPECT_TRUE(g.only(ops::sdpa).attrs.as<SdpaAttrs>().mask);
      EXPECT_EQ(g.num(ops::softmax), 0);
    }
  }
}

TEST(FuseAttention, MakesAMaskOfAChoiceBetweenScoresAndAVeryLowNumber) {
  for (const bool low_first : {true, false}) {
    Heads g;
    const ValueId condition = g.input({2, 1, 3, 5}, DType::boolean), low = g.number(-1e9), scores = g.scores();
    g.attend(g.add(ops::where, ops::WhereAttrs{}, {condition, low_first ? low : scores, low_first ? scores : low}));
    EXPECT_EQ(g.run("fuse_attention"), 1);
    EXPECT_TRUE(g.only(ops::sdpa).attrs.as<SdpaAttrs>().mask);
  }
}

TEST(FuseAttention, SeesThatAConstantMaskHidesTheFuture) {
  for (const bool shifted : {false, true}) {
    Heads g;
    std::vector<double> mask;
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t t = 0; t < 5; ++t) mask.push_back(t <= s + (shifted ? 1 : 2) ? 0 : -kInfinity);
    }
    g.attend(g.plus(g.scores(), g.constant({1, 1, 3, 5}, mask)));
    EXPECT_EQ(g.run("fuse_attention"), 1);
    const auto& attrs = g.only(ops::sdpa).attrs.as<SdpaAttrs>();
    EXPECT_EQ(attrs.causal, !shifted);
    EXPECT_EQ(attrs.mask, shifted);
  }
}

TEST(FuseAttention, ReadsRepeatedHeadsOnce) {
  Dense g;
  const ValueId q_rows = g.input({2, 3, 16}), k_rows = g.input({2, 5, 8}), v_rows = g.input({2, 5, 8});
  const auto repeat = [&](ValueId rows) {
    const ValueId heads = g.transpose(g.reshape(rows, {2, 5, 2, 4}), {0, 2, 1, 3});
    return g.reshape(g.expand(g.reshape(heads, {2, 2, 1, 5, 4}), {2, 2, 2, 5, 4}), {2, 4, 5, 4});
  };
  const ValueId q = g.transpose(g.reshape(q_rows, {2, 3, 4, 4}), {0, 2, 1, 3});
  const ValueId scores = g.gemm(q, g.transpose(repeat(k_rows), {0, 1, 3, 2}));
  g.output(g.reshape(g.transpose(g.gemm(g.softmax(scores), repeat(v_rows)), {0, 2, 1, 3}), {2, 3, 16}));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.run("fuse_attention"), 1);
  const Node& node = g.only(ops::sdpa);
  EXPECT_EQ(node.attrs.as<SdpaAttrs>().kv_heads, 2);
  EXPECT_EQ(node.inputs, (std::vector{q_rows, k_rows, v_rows})) << g.graph.to_string();
}

TEST(FuseAttention, TakesRowsWithoutHeadsAndHeadsThatLieAsBatches) {
  Dense flat;
  const ValueId q = flat.input({2, 3, 4});
  flat.output(flat.gemm(flat.softmax(flat.gemm(q, flat.input({2, 5, 4}), true)), flat.input({2, 5, 6})));
  EXPECT_EQ(flat.run("fuse_attention"), 1);
  EXPECT_EQ(flat.graph.nodes.size(), 1u) << flat.graph.to_string();

  Dense batches;
  const ValueId scores = batches.gemm(batches.input({2, 3, 3, 4}), batches.input({2, 3, 4, 5}));
  batches.output(batches.gemm(batches.softmax(batches.plus(scores, batches.input({3, 5}))), batches.input({2, 3, 5, 4})));
  EXPECT_EQ(batches.run("fuse_attention"), 1);
  EXPECT_EQ(batches.only(ops::sdpa).attrs.as<SdpaAttrs>().heads, 1);
  EXPECT_LE(batches.num(ops::transpose), 1);  // of the keys, which stand as columns

  Dense matrix;
  matrix.output(matrix.gemm(matrix.softmax(matrix.gemm(matrix.input({3, 4}), matrix.input({5, 4}), true)), matrix.input({5, 6})));
  EXPECT_EQ(matrix.run("fuse_attention"), 1);
}

TEST(FuseAttention, KnowsHeadsThatWereMergedWithTheBatch) {
  for (const int64_t batch : {1, 2}) {
    Heads g(batch);
    const ValueId q = g.reshape(g.q, {batch * 2, 3, 4}), k = g.reshape(g.k, {batch * 2, 5, 4}), v = g.reshape(g.v, {batch * 2, 5, 4});
    const ValueId heads = g.gemm(g.softmax(g.gemm(q, g.transpose(k, {0, 2, 1}))), v);
    g.output(g.reshape(g.transpose(g.reshape(heads, {batch, 2, 3, 4}), {0, 2, 1, 3}), {batch, 3, 8}));
    EXPECT_EQ(g.run("fuse_attention"), 1);
    EXPECT_EQ(g.only(ops::sdpa).attrs.as<SdpaAttrs>().heads, 2);
    EXPECT_EQ(g.num(ops::transpose), 0) << g.graph.to_string();
  }
}

TEST(FuseAttention, LeavesScoresThatSomethingElseReadsAndMasksInsideTheScale) {
  Heads g;
  const ValueId probabilities = g.softmax(g.scores());
  g.output(probabilities);
  g.output(g.gemm(probabilities, g.v));
  g.output(g.gemm(g.softmax(g.times(g.plus(g.scores(), g.input({3, 5})), g.number(0.5))), g.v));
  EXPECT_EQ(g.run("fuse_attention"), 0);
}

}  // namespace
}  // namespace headrace

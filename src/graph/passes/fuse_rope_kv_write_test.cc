#include "graph/pass_testing.h"
#include "ops/attention.h"
#include "ops/rope_kv_write.h"

namespace headrace {
namespace {

using namespace pass_testing;

// q, k and v of one layer over a pool of one group; `key` is how keys turn.
struct Layer {
  Graph graph;
  Layer(ops::RopeAttrs query, ops::RopeAttrs key) {
    const Dim tokens = Dim::symbol(graph.symbols.add("T", 8)), seqs = Dim::symbol(graph.symbols.add("S", 8));
    const ValueId q = graph.add_input("q", DType::f32, {tokens, 64}), k = graph.add_input("k", DType::f32, {tokens, 32});
    const ValueId v = graph.add_input("v", DType::f32, {tokens, 32}), positions = graph.add_input("positions", DType::i32, {tokens});
    const ValueId table = graph.add_constant("inv_freq", DType::f32, {16}, std::vector<double>(16, 1.0));
    const ValueId kv = graph.add_state("kv.0", ValueType::kv_layer({KvKind::self, 1, 32, 0, DType::f32}), 0);
    const ValueId turned_q = node(graph, ops::rope, query, {q, positions, table}, "q_rope");
    const ValueId turned_k = node(graph, ops::rope, key, {k, positions, table}, "k_rope");
    const ValueId slots = graph.add_input("kv_slot", DType::i32, {tokens});
    EXPECT_TRUE(graph.add_node(ops::kv_write, ops::KvWriteAttrs{1, 32}, {turned_k, v, slots, kv}, "kv_write"));
    const std::vector<ValueId> plan = {graph.add_input("query_start", DType::i32, {seqs + 1}), graph.add_input("context_len", DType::i32, {seqs}),
                                       graph.add_input("block_table", DType::i32, {seqs, 4})};
    graph.set_output("mixed", node(graph, ops::attention, ops::AttentionAttrs{.heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 1},
                                   {turned_q, kv, plan[0], plan[1], plan[2]}, "attention"));
  }
};
constexpr ops::RopeAttrs kQuery{.heads = 2, .head_dim = 32, .rotary_dim = 32}, kKey{.heads = 1, .head_dim = 32, .rotary_dim = 32};

TEST(FuseRopeKvWrite, MakesOneNodeOfThreeOnADevice) {
  Layer layer(kQuery, kKey);
  EXPECT_EQ(run_alone(layer.graph, "fuse_rope_kv_write", DtypePolicy::bf16(), DeviceKind::cuda), 1);
  ASSERT_EQ(layer.graph.nodes.size(), 2u);
  const Node& fused = layer.graph.nodes[0];
  EXPECT_EQ(fused.op, &ops::rope_kv_write);
  EXPECT_EQ(fused.attrs.as<ops::RopeKvWriteAttrs>(), (ops::RopeKvWriteAttrs{kQuery, 1}));
  EXPECT_EQ(fused.inputs, (std::vector<ValueId>{layer.graph.find("q"), layer.graph.find("k"), layer.graph.find("v"), layer.graph.find("positions"),
                                                layer.graph.find("inv_freq"), layer.graph.find("kv_slot"), layer.graph.find("kv.0")}));
  EXPECT_EQ(layer.graph.nodes[1].inputs[0], fused.outputs[0]);
}

TEST(FuseRopeKvWrite, LeavesKeysThatTurnOtherwiseAndTheCpu) {
  ops::RopeAttrs other = kKey;
  other.interleaved = true;
  Layer differs(kQuery, other), on_cpu(kQuery, kKey);
  EXPECT_EQ(run_alone(differs.graph, "fuse_rope_kv_write", DtypePolicy::bf16(), DeviceKind::cuda), 0);
  EXPECT_EQ(run_alone(on_cpu.graph, "fuse_rope_kv_write"), 0);
  EXPECT_EQ(on_cpu.graph.nodes.size(), 4u);
}

}  // namespace
}  // namespace headrace

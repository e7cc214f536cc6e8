// rope of the queries, rope of the keys and the kv_write of a layer become rope_kv_write: one launch instead of three on a device, where a
// step of small batches is bound by its launches. On a CPU kernels by rows already follow each other without a barrier.
#include <algorithm>

#include "graph/passes.h"
#include "ops/attention.h"
#include "ops/rope_kv_write.h"

namespace headrace::passes {
namespace {

// The node that makes `value`, when it is a rope whose result nothing but one node reads.
NodeId rope_of(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId value) {
  const NodeId producer = graph.values[value].producer;
  if (producer == kNone || graph.nodes[producer].dead || graph.nodes[producer].op != &ops::rope) return kNone;
  const bool is_output = std::ranges::any_of(graph.outputs, [&](const GraphOutput& output) { return output.value == value; });
  return users[value].size() == 1 && !is_output ? producer : kNone;
}

// The query's rope of the attention that reads the pool which `write` writes.
NodeId query_rope(const Graph& graph, const std::vector<std::vector<NodeId>>& users, const Node& write) {
  for (const NodeId user : users[write.inputs[3]]) {
    const Node& node = graph.nodes[user];
    if (!node.dead && node.op == &ops::attention) return rope_of(graph, users, node.inputs[0]);
  }
  return kNone;
}

bool turn_alike(const Node& q, const Node& k) {
  ops::RopeAttrs query = q.attrs.as<ops::RopeAttrs>();
  query.heads = k.attrs.as<ops::RopeAttrs>().heads;
  return query == k.attrs.as<ops::RopeAttrs>() && q.inputs[1] == k.inputs[1] && q.inputs[2] == k.inputs[2];
}

Result<int> run(Graph& graph, const PassOptions& options) {
  if (options.device == DeviceKind::cpu) return 0;
  int hits = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].dead || graph.nodes[id].op != &ops::kv_write) continue;
    const std::vector<std::vector<NodeId>> users = graph.users();
    const Node write = graph.nodes[id];
    const NodeId key = rope_of(graph, users, write.inputs[0]), query = query_rope(graph, users, write);
    if (key == kNone || query == kNone || query > id || !turn_alike(graph.nodes[query], graph.nodes[key])) continue;
    const Node q = graph.nodes[query], k = graph.nodes[key];
    const ops::RopeKvWriteAttrs attrs{q.attrs.as<ops::RopeAttrs>(), write.attrs.as<ops::KvWriteAttrs>().kv_heads};
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                        graph.insert_node(id, ops::rope_kv_write, attrs,
                                          {q.inputs[0], k.inputs[0], write.inputs[1], q.inputs[1], q.inputs[2], write.inputs[2], write.inputs[3]},
                                          write.name));
    for (const NodeId part : {query, key, ++id}) {
      graph.nodes[id - 1].absorb(graph.nodes[part]);
      graph.nodes[part].dead = true;
    }
    graph.replace_uses(q.outputs[0], fused[0]);
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass fuse_rope_kv_write_pass;
const Pass fuse_rope_kv_write_pass = {"fuse_rope_kv_write", "On a device: rotates queries and keys and writes the cache in one launch.", run};

}  // namespace headrace::passes

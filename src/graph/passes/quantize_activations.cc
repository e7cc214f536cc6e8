// With the int8 policy a matmul over a weight that matmul_q8 takes reads its input as 8-bit blocks: quantize_rows once per value
// and number of terms, then matmul_q8 for each of its readers. Where bf16 products pay, a matmul over bf16 weights reads its
// input in bf16: round_bf16 once per value, then matmul_bf16.
//
// Two terms go where an error of the activations weighs most: the projections that attention reads, whose error the softmax
// magnifies, and the logits that choose the token. Measured on SmolLM2-135M Q4_1, 2,000 tokens of prose, best token against
// --exact: one term everywhere 95.5% (mean KL 0.0025); float32 activations in these linears alone 97.8%; two
// terms in these 97.65% (0.0012).
#include <algorithm>
#include <map>
#include <set>

#include "graph/passes.h"
#include "ops/attention.h"
#include "ops/logprobs.h"
#include "ops/matmul.h"
#include "ops/rope.h"
#include "ops/sample.h"

namespace headrace::passes {
namespace {

bool takes_bf16(const Graph& graph, const Node& node, const DtypePolicy& policy) {
  return policy.bf16_products && !node.dead && node.op == &ops::matmul &&
         ops::matmul_bf16_takes(graph.values[node.inputs[1]].type);
}

bool takes_q8(const Graph& graph, const Node& node) {
  if (node.dead || node.op != &ops::matmul) return false;
  const ValueType& weight = graph.values[node.inputs[1]].type;
  if (weight.kind != ValueType::Kind::weight || weight.shape.rank() != 2) return false;
  return ops::matmul_q8_takes(weight.format) && weight.shape[1].constant() % ops::kActivationBlock == 0;
}

// Whether `node` reads `value` as a query, key, value or row of logits.
bool is_sensitive(const Node& node, ValueId value) {
  size_t count = 0;  // of leading inputs
  const Op* const firsts[] = {&ops::rope, &ops::attention, &ops::sample, &ops::logprobs};
  if (std::find(std::begin(firsts), std::end(firsts), node.op) != std::end(firsts)) count = 1;
  if (node.op == &ops::kv_write) count = 2;
  if (node.op == &ops::attention_ragged) count = 3;
  return std::find(node.inputs.begin(), node.inputs.begin() + count, value) != node.inputs.begin() + count;
}

// Whether a sensitive node reads `value` or a window of it.
bool feeds_sensitive(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId value) {
  return std::any_of(users[value].begin(), users[value].end(), [&](NodeId id) {
    const Node& user = graph.nodes[id];
    return is_sensitive(user, value) || (user.op->effects.view && feeds_sensitive(graph, users, user.outputs[0]));
  });
}

// The outputs of the matmuls that take two terms: node ids move, value ids stay.
std::set<ValueId> two_term_outputs(const Graph& graph, const DtypePolicy& policy) {
  std::set<ValueId> found;
  if (!policy.two_terms_where_sensitive) return found;
  const std::vector<std::vector<NodeId>> users = graph.users();
  for (const Node& node : graph.nodes) {
    if (takes_q8(graph, node) && feeds_sensitive(graph, users, node.outputs[0])) found.insert(node.outputs[0]);
  }
  return found;
}

Result<int> run(Graph& graph, const PassOptions& options) {
  if (options.policy.activation != DtypePolicy::Activation::int8) return 0;
  const std::set<ValueId> two_terms = two_term_outputs(graph, options.policy);
  std::map<std::pair<ValueId, int32_t>, std::vector<ValueId>> reduced;  // a value in so many 8-bit terms, or (0) in bf16
  int hits = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    const bool bf16 = takes_bf16(graph, graph.nodes[id], options.policy);
    if (!bf16 && !takes_q8(graph, graph.nodes[id])) continue;
    const Node matmul = graph.nodes[id];
    const ValueId x = matmul.inputs[0];
    const int32_t terms = bf16 ? 0 : two_terms.contains(matmul.outputs[0]) ? 2 : 1;
    const Attrs attrs = bf16 ? matmul.attrs : Attrs(ops::Q8Attrs{terms});
    std::vector<ValueId>& values = reduced[{x, terms}];
    if (values.empty()) {
      static constexpr std::string_view kSuffix[] = {"bf16", "q8", "q8x2"};
      HR_ASSIGN_OR_RETURN(values, graph.insert_node(id, bf16 ? ops::round_bf16 : ops::quantize_rows, attrs, {x},
                                                    fmt::format("{}.{}", graph.values[x].name, kSuffix[terms])));
      ++id;
    }
    std::vector<ValueId> inputs = values;
    inputs.insert(inputs.end(), matmul.inputs.begin() + 1, matmul.inputs.end());
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> output,
                        graph.insert_node(id, bf16 ? ops::matmul_bf16 : ops::matmul_q8, attrs, std::move(inputs), matmul.name));
    ++id;
    graph.replace_uses(matmul.outputs[0], output[0]);
    graph.nodes[id].dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass quantize_activations_pass;
const Pass quantize_activations_pass = {
    "quantize_activations", "With 8-bit activations: quantizes the input of matmuls over block-quantized weights, most finely for attention and logits, and rounds that of bf16 weights.",
    run};

}  // namespace headrace::passes

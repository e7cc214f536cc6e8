#include "graph/rewriter.h"

#include <algorithm>
#include <set>

#include "ops/host.h"
#include "ops/movement.h"

namespace headrace {
namespace {

// What a value reads as after an error, so that a pass may finish its step without asking after every line.
const Value kNoValue;

// What a pass may add to the constants that are there.
constexpr int64_t kSpareConstantBytes = int64_t{64} << 20;
constexpr int64_t kMaxConstantGrowth = 4;

int64_t bytes_of(const Value& constant) {
  return constant.type.shape.elements(Bindings()) * static_cast<int64_t>(dtype_bytes(constant.type.dtype));
}

}  // namespace

Rewriter::Rewriter(Graph& graph) : graph_(graph), constant_bytes_left_(kSpareConstantBytes) {
  follow_new_values();
  std::set<const void*> counted;  // a buffer may stand under several shapes
  for (const Value& value : graph.values) {
    if (value.role == ValueRole::constant && counted.insert(value.bytes.id()).second) {
      constant_bytes_left_ += kMaxConstantGrowth * bytes_of(value);
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.dead) continue;
    for (const ValueId input : node.inputs) {
      if (input != kNone) ++uses_[input];
    }
  }
  for (const GraphOutput& output : graph.outputs) {
    ++uses_[output.value];
    is_output_[output.value] = 1;
  }
}

Node& Rewriter::mutable_node(NodeId id) {
  const auto num_old = static_cast<NodeId>(graph_.nodes.size());
  return id < num_old ? graph_.nodes[id] : added_[id - num_old];
}

const Node& Rewriter::node(NodeId id) {
  Node& node = mutable_node(id);
  for (ValueId& input : node.inputs) input = resolve(input);
  return node;
}

ValueId Rewriter::resolve(ValueId id) {
  if (id == kNone) return kNone;
  ValueId last = id;
  while (replacement_[last] != last) last = replacement_[last];
  while (replacement_[id] != last) id = std::exchange(replacement_[id], last);
  return last;
}

const Value& Rewriter::value(ValueId id) { return id == kNone ? kNoValue : graph_.values[resolve(id)]; }

std::vector<int64_t> Rewriter::dims(ValueId id) {
  std::vector<int64_t> dims;
  for (const Dim& dim : type(id).shape) dims.push_back(dim.constant());
  return dims;
}

const Node* Rewriter::producer(ValueId id) {
  const NodeId at = value(id).producer;
  if (at == kNone) return nullptr;
  const Node& found = node(at);
  return found.dead ? nullptr : &found;
}

std::vector<ValueId> Rewriter::add_all(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name, size_t num_outputs) {
  const std::vector<ValueId> none(num_outputs, kNone);
  if (!ok()) return none;
  for (ValueId& input : inputs) input = resolve(input);
  auto node = graph_.make_node(num_nodes(), op, std::move(attrs), std::move(inputs), std::move(name));
  if (!node) {
    fail(std::move(node).error());
    return none;
  }
  CHECK(node->outputs.size() == num_outputs);
  follow_new_values();
  for (const ValueId input : node->inputs) {
    if (input != kNone) ++uses_[input];
  }
  added_.push_back(*std::move(node));
  return added_.back().outputs;
}

void Rewriter::follow_new_values() {
  for (size_t id = replacement_.size(); id < graph_.values.size(); ++id) replacement_.push_back(static_cast<ValueId>(id));
  uses_.resize(graph_.values.size());
  is_output_.resize(graph_.values.size());
}

ValueId Rewriter::add(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name) {
  return add_all(op, std::move(attrs), std::move(inputs), std::move(name), 1)[0];
}

ValueId Rewriter::constant(std::string name, DType dtype, std::vector<int64_t> dims, const std::vector<double>& data) {
  const ValueId id = graph_.add_constant(std::move(name), dtype, std::move(dims), data);
  constant_bytes_left_ -= bytes_of(graph_.values[id]);
  follow_new_values();
  return id;
}

ValueId Rewriter::constant_bytes(std::string name, DType dtype, Shape shape, ConstantBytes bytes) {
  const bool shared = bytes.is_shared();
  const ValueId id = graph_.add_constant_bytes(std::move(name), dtype, shape, std::move(bytes));
  if (!shared) constant_bytes_left_ -= bytes_of(graph_.values[id]);
  follow_new_values();
  return id;
}

void Rewriter::replace(ValueId from, ValueId to) {
  if (from == kNone || to == kNone) return;
  from = resolve(from);
  to = resolve(to);
  if (from == to) return;
  if (const NodeId at = graph_.values[to].producer; at != kNone && mutable_node(at).dead) {
    return fail(make_status(Code::internal, "value {}: replaced by one whose node is dead", graph_.values[from].name));
  }
  changed_ = true;
  replacement_[from] = to;
  uses_[to] += std::exchange(uses_[from], 0);
  is_output_[to] |= is_output_[from];
  Node* heir = find_heir(to);
  heir_of_added_.resize(added_.size(), heir);
  release(from, heir);
}

int Rewriter::replace_each(const Better& better, NodeId most) {
  int hits = 0;
  for (NodeId id = 0; id < std::min(most, num_nodes()) && ok(); ++id) {
    const Node& old = node(id);
    if (old.dead || old.outputs.size() != 1) continue;
    const ValueId found = better(old);
    replace(old.outputs[0], found);
    hits += found == kNone ? 0 : 1;
  }
  return hits;
}

// The node that does the work behind a value: of what a pass added, the one in front of the reshapes, transposes and windows.
Node* Rewriter::find_heir(ValueId value) {
  const auto num_old = static_cast<NodeId>(graph_.nodes.size());
  NodeId at = graph_.values[value].producer;
  while (at >= num_old) {
    const Node& added = mutable_node(at);
    const bool moves = added.op->effects.view || added.op == &ops::transpose || added.op == &ops::slice;
    const NodeId source = moves ? graph_.values[resolve(added.inputs[0])].producer : kNone;
    if (source == kNone || source < num_old) break;
    at = source;
  }
  return at == kNone ? nullptr : &mutable_node(at);
}

// The producer of a value without readers dies where it has no other purpose, and so do nodes that only it read.
void Rewriter::release(ValueId id, Node* heir) {
  std::vector<ValueId> unread = {id};
  while (!unread.empty()) {
    const NodeId at = graph_.values[unread.back()].producer;
    unread.pop_back();
    if (at == kNone) continue;
    Node& node = mutable_node(at);
    if (node.dead || !may_die(node)) continue;
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return uses_[output] > 0; })) continue;
    node.dead = true;
    if (heir != nullptr && heir != &node && !heir->dead) heir->absorb(node);
    for (const ValueId input : node.inputs) {
      const ValueId read = resolve(input);
      if (read != kNone && --uses_[read] == 0) unread.push_back(read);
    }
  }
}

// Living nodes in their order, each preceded by what it reads and was not yet there. Without recursion: graphs may be deep.
std::vector<Node> Rewriter::sorted_nodes() {
  const NodeId count = num_nodes();
  std::vector<char> state(count);  // 1: waits for its inputs, 2: stands in `order`
  std::vector<NodeId> order, stack;
  for (NodeId start = 0; start < count; ++start) {
    stack.push_back(start);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      const Node& found = node(id);
      if (state[id] == 2 || found.dead) {
        stack.pop_back();
        continue;
      }
      const bool expanded = std::exchange(state[id], 1) == 1;
      if (expanded) {
        state[id] = 2;
        order.push_back(id);
        stack.pop_back();
        continue;
      }
      for (auto input = found.inputs.rbegin(); input != found.inputs.rend(); ++input) {
        const NodeId source = *input == kNone ? kNone : graph_.values[*input].producer;
        // A cycle would be a bug of the pass; the verifier names it.
        if (source != kNone && state[source] == 0) stack.push_back(source);
      }
    }
  }
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const NodeId id : order) nodes.push_back(std::move(mutable_node(id)));
  return nodes;
}

Result<int> Rewriter::finish(int hits) {
  if (!ok()) return tl::unexpected<Status>(status_);
  if (!changed_ && added_.empty()) return hits;
  // Nodes that a pass added and did not use.
  heir_of_added_.resize(added_.size(), nullptr);
  for (size_t i = added_.size(); i-- > 0;) release(added_[i].outputs[0], heir_of_added_[i]);
  for (GraphOutput& output : graph_.outputs) output.value = resolve(output.value);
  for (Node& node : graph_.nodes) {
    if (!node.dead) continue;
    for (const ValueId output : node.outputs) graph_.values[output].producer = kNone;
  }
  for (const Node& node : added_) {
    if (!node.dead) continue;
    for (const ValueId output : node.outputs) graph_.values[output].producer = kNone;
  }
  graph_.nodes = sorted_nodes();
  added_.clear();
  graph_.compact();
  return hits;
}

bool may_die(const Node& node) {
  const Effects& effects = node.op->effects;
  if (effects.writes_state || effects.communicates) return false;
  return node.op != &ops::host || node.attrs.as<ops::HostAttrs>().pure;
}

bool has_constant_shapes(const Graph& graph) {
  return std::all_of(graph.values.begin(), graph.values.end(), [](const Value& value) {
    return std::all_of(value.type.shape.begin(), value.type.shape.end(), [](const Dim& dim) { return dim.is_constant(); });
  });
}

Result<int> rewrite_each(Graph& graph, const std::function<ValueId(Rewriter&, const Node&)>& better) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  const int hits = rewriter.replace_each([&](const Node& node) { return better(rewriter, node); });
  return rewriter.finish(hits);
}

}  // namespace headrace

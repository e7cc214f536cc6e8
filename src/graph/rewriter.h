#pragma once
// Rewrites a graph in time linear in its size: new nodes, replaced values and dead nodes are kept aside while a pass matches, and take
// effect together in finish(), which also sorts the nodes so that producers stand before readers. A pass therefore neither cares where a
// new node stands nor pays for each replacement. Values are seen as the rewrites so far have made them. Not thread-safe.
//
// References to nodes stay valid until finish(); references to values do until the next node or constant is added.

#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace headrace {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  // As it was, with the new values.
  const Graph& graph() const { return graph_; }
  // Old nodes first, in execution order; nodes added later have higher ids, so that a loop up to num_nodes() sees them too.
  NodeId num_nodes() const { return static_cast<NodeId>(graph_.nodes.size() + added_.size()); }
  const Node& node(NodeId id);
  // The value that readers of `id` see now.
  ValueId resolve(ValueId id);
  const Value& value(ValueId id);
  const ValueType& type(ValueId id) { return value(id).type; }
  // Of values whose shape is constant.
  std::vector<int64_t> dims(ValueId id);
  bool is_constant(ValueId id) { return value(id).role == ValueRole::constant; }
  // The living node that computes a value; null for inputs, constants and the like.
  const Node* producer(ValueId id);
  // How many inputs of living nodes and outputs of the graph read a value.
  int num_uses(ValueId id) { return uses_[resolve(id)]; }
  bool is_output(ValueId id) const { return is_output_[id]; }

  // The first output of a new node; kNone after an error, which finish() reports.
  ValueId add(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name);
  // All of its outputs; `num_outputs` times kNone after an error.
  std::vector<ValueId> add_all(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name, size_t num_outputs);
  ValueId constant(std::string name, DType dtype, std::vector<int64_t> dims, const std::vector<double>& data);
  ValueId constant_bytes(std::string name, DType dtype, Shape shape, ConstantBytes bytes);
  // Whether constants of so many more bytes may be made: a graph of a few bytes must not fold into gigabytes by using one constant often.
  bool affords(int64_t bytes) const { return bytes <= constant_bytes_left_; }
  // Readers of `from` read `to` from now on. Pure nodes that nothing reads any more die. `to` must not depend on `from`; kNone (after
  // an error) changes nothing. Origins of the nodes that die go to the node that computes `to`.
  void replace(ValueId from, ValueId to);

  // Asks for each living node with one output, in order, those added on the way too, what its readers shall read instead, and replaces it
  // so; kNone: it stays. Returns how many were replaced. Ends after an error, or when `most` nodes have been visited.
  using Better = std::function<ValueId(const Node&)>;
  int replace_each(const Better& better, NodeId most = std::numeric_limits<NodeId>::max());
  // `most` for rules that visit what they made: they end by themselves, the bound only makes sure.
  NodeId generous_bound() const { return 8 * num_nodes() + 1000; }

  bool ok() const { return status_.ok(); }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Applies everything. Returns `hits`, or the first error of add().
  Result<int> finish(int hits);

 private:
  Node& mutable_node(NodeId id);
  void follow_new_values();
  Node* find_heir(ValueId value);
  void release(ValueId id, Node* heir);  // what dies leaves its origins to `heir`, if there is one
  std::vector<Node> sorted_nodes();

  Graph& graph_;
  std::deque<Node> added_;             // stable references
  std::vector<Node*> heir_of_added_;   // by added node: the heir of the replacement that it was added for; null without one
  std::vector<ValueId> replacement_;   // by value; itself where nothing replaced it
  std::vector<int> uses_;              // by value
  std::vector<char> is_output_;        // by value, as the graph came
  int64_t constant_bytes_left_;
  bool changed_ = false;
  Status status_;
};

// Whether a node may go when nothing reads it: it writes no state, talks to no other rank and is no impure operator of the host.
bool may_die(const Node& node);
// Whether every value has constant dims: what the rewrites of dense graphs ask for first. Graphs of language models have symbolic ones.
bool has_constant_shapes(const Graph& graph);
// A whole pass over a graph of constant shapes: replace_each() and finish(). Leaves other graphs as they are.
Result<int> rewrite_each(Graph& graph, const std::function<ValueId(Rewriter&, const Node&)>& better);

}  // namespace headrace

#pragma once
// The values and nodes of a graph by number, as sections of it are compiled (onnx/compiled_graph.h). The branches of an If are lists of
// nodes of the same scope: one of them stands in the If's place where the condition is known, and no value has to be handed in or out.
// Graphs that other nodes hold (Loop, Scan) are compiled graphs of their own.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/op.h"
#include "onnx/runtime.h"
#include "onnx/shape_inference.h"

namespace headrace::onnx {

class CompiledGraph;

// A graph that a node holds.
struct HeldGraph {
  HeldGraph(const Graph* graph, std::unique_ptr<CompiledGraph> compiled);
  HeldGraph(HeldGraph&& other) noexcept;
  ~HeldGraph();
  const Graph* graph;
  std::unique_ptr<CompiledGraph> compiled;
  std::vector<int> captures;  // values of the scope, in the order of compiled->captures()
};

struct Scope {
  struct Step {
    const Node* node = nullptr;
    size_t index = 0;  // in its graph, for errors
    int64_t opset = 0;
    const OpRow* row = nullptr;
    std::vector<int> inputs, outputs;  // -1: left out
    std::vector<int> captures;         // what its graphs and branches read of the values around them, all together
    std::vector<HeldGraph> graphs;
    std::vector<std::vector<int>> branches;  // of an If: the steps of then_branch and of else_branch, which give the If's outputs
    int around = -1;                         // the If whose branch it is in
    bool stands_for_if = false;              // gives one of that If's outputs
  };
  std::vector<std::string> names;                           // by value
  std::vector<std::shared_ptr<const Tensor>> initializers;  // by value; null for the others
  std::vector<Step> steps;
  std::map<std::string, int64_t> opsets;
  std::vector<int> inputs;  // the graph's own, then captures
  std::vector<int> outputs;
  std::deque<Node> made;  // nodes of steps that stand for an If

  const Step& step(int index) const { return steps[static_cast<size_t>(index)]; }
  const Tensor* initializer(int id) const { return initializers[static_cast<size_t>(id)].get(); }
  // How errors and reports name a step: "node 2 (If), node 5 (Conv, "c")".
  std::string describe(const Step& step) const;
  // Value `id` of a run, or the initializer that stands for one that is not there; none for -1.
  Value read(const std::vector<Value>& values, int id) const;
};

// Fills `scope`; `captures`: the names of outer values that it reads, in the order of the inputs behind the graph's own. `outer` names the
// values around the graph that it may read. Errors: unsupported for operators that are not known, malformed for values that nothing gives
// and branches without outputs enough, resource_exhausted for graphs deeper than Interpreter::kMaxDepth.
Status build_scope(const Graph& graph, const std::map<std::string, int64_t>& opsets, SessionRuntime& runtime,
                   const std::vector<const std::map<std::string, int>*>& outer, Scope& scope, std::vector<std::string>& captures);

// What is known of a scope's values. Of an initializer its contents, unless it is given.
class Facts {
 public:
  // `given`: by value.
  Facts(const Scope& scope, std::map<int, ValueFact> given);
  const ValueFact& operator[](int id);  // of -1: left out
  void set(int id, ValueFact fact) { facts_[id] = std::move(fact); }
  std::vector<ValueFact> list(const std::vector<int>& ids);

 private:
  const Scope& scope_;
  std::map<int, ValueFact> facts_;
};

}  // namespace headrace::onnx

#pragma once
// One graph of a model, compiled for each shape of its inputs: nodes whose types follow from the inputs' types become a program of
// Headrace's IR, run by the executor that runs language models; what depends on data (NonZero, control flow, sequences, strings) runs
// between programs, node by node. Graphs that nodes hold (Loop, Scan) are compiled graphs of their own; the outer values that they
// read are explicit inputs. The branches of an If stand in the scope around it: where its condition is known while a plan is made, the
// branch is compiled in its place, else each branch is a section of its own and the run chooses.
//
// A section is a set of nodes that a plan covers. Its plan is made of
//   1. a program over all nodes whose types are known,
//   2. nodes that run on the host because their outputs' types are not known, and whose inputs step 1 gives,
//   3. the rest as a section of its own, planned when the types that step 2 gave are there. What the plan knows, it knows too.

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "graph/passes.h"
#include "onnx/interpreter.h"
#include "onnx/op.h"
#include "onnx/runtime.h"
#include "onnx/scope.h"

namespace headrace::onnx {

// What a plan's program is made of; what explain shows.
struct ProgramReport {
  std::vector<PassReport> passes;
  std::unique_ptr<runtime::Program> program;
  std::vector<std::pair<int, ValueId>> inputs;   // value of the scope, value of the program's graph
  std::vector<std::pair<int, ValueId>> outputs;
  std::vector<std::string> steps;                    // the nodes of the file that it covers, as errors name them
  std::map<std::string, std::string> host_reasons;   // by step: why an operator of the host computes it
  std::vector<std::vector<double>> node_seconds;     // by run, then node; while SessionRuntime::time_nodes is set
};

class Section {
 public:
  // `depth`: sections before it. `before`: what is known where it stands; constants that it reads are none of its inputs.
  Section(const Scope& scope, SessionRuntime& runtime, std::vector<int> steps, std::vector<int> outputs, int depth, Facts& before);
  ~Section();

  // `values` by number of the scope: the section's inputs must be there; its outputs are written.
  Status run(std::vector<Value>& values, RunBudget& budget);

  struct Plan;
  // The plan for the types of `values`, made when it is not there. Errors: with the node.
  Result<std::shared_ptr<Plan>> plan_for(const std::vector<Value>& values);
  // The plans that are kept, the one used last at the end.
  std::vector<std::shared_ptr<Plan>> plans();
  size_t num_steps() const { return steps_.size(); }
  // What becomes of a plan. `run`: constants that no run reads are let go when they have been packed. `show`: its graph is whole.
  enum class Purpose : uint8_t { run, show };
  // The plan for these facts of the section's inputs, by value. Errors: with the node; unsupported under `strict` for a node that a reference
  // operator would compute.
  Result<std::shared_ptr<Plan>> compile(std::map<int, ValueFact> given, Purpose purpose = Purpose::show);

  // A step that runs between programs, and why.
  struct HostStep {
    int index = 0;  // of the scope's steps
    std::string reason;
    std::vector<std::unique_ptr<Section>> branches;  // of an If
  };
  struct Plan {
    std::unique_ptr<ProgramReport> program;              // null: no node of it
    std::vector<std::pair<int, Tensor>> constants;       // values that are known
    std::vector<HostStep> host_steps;
    std::unique_ptr<Section> rest;                       // null: nothing left
    uint64_t written_bytes = 0;                          // by the program's nodes in one run
    int64_t num_steps = 0;                               // those of the rest too
    PlanShare share;                                     // of what the session may keep
  };

 private:
  struct Division;

  std::string key_of(const std::vector<Value>& values) const;
  // Decides whether a step is the program's, the host's or the rest's, and so the steps of a branch that stands in its place. Adds the
  // facts of what it gives, and host steps to the plan.
  Status divide(int index, Facts& facts, Division& division, Plan& plan) const;
  // Why a step runs on the host, or "" where its types are known. Adds the facts of its outputs.
  Result<std::string> why_on_host(const Scope::Step& step, Facts& facts) const;
  Result<std::unique_ptr<ProgramReport>> make_program(const std::vector<int>& steps, const std::vector<int>& outputs, Facts& facts,
                                                      Purpose purpose);
  Status prepare(runtime::Program& program, Purpose purpose, const std::set<const void*>& of_model);
  Status run_program(ProgramReport& program, std::vector<Value>& values);
  Status run_step(const HostStep& host, std::vector<Value>& values, RunBudget& budget);

  const Scope& scope_;
  SessionRuntime& runtime_;
  const std::vector<int> steps_;
  const std::vector<int> outputs_;
  std::vector<int> inputs_;         // values that steps read and none of them writes, initializers and what is known aside
  std::map<int, ValueFact> known_;  // constants among what steps read
  const int depth_;                 // sections before it

  std::mutex mutex_;
  // Guarded by mutex_; least recently used first.
  std::vector<std::pair<std::string, std::shared_ptr<Plan>>> plans_;
};

class CompiledGraph {
 public:
  // `outer` names the values around the graph that it may read. Errors: unsupported for operators that are not known, malformed for values
  // that nothing gives, resource_exhausted for graphs deeper than Interpreter::kMaxDepth.
  static Result<std::unique_ptr<CompiledGraph>> make(const Graph& graph, const std::map<std::string, int64_t>& opsets,
                                                     SessionRuntime& runtime, const std::vector<const std::map<std::string, int>*>& outer);

  // The graph's own inputs in order (an empty one takes its initializer), then captures. Outputs in order.
  Result<std::vector<Value>> run(std::vector<Value> inputs, RunBudget& budget);
  size_t num_inputs() const { return num_inputs_; }                              // its own
  const std::vector<std::string>& captures() const { return captures_; }         // names of outer values that it reads
  const Scope& scope() const { return scope_; }
  Section& section() { return *section_; }

 private:
  CompiledGraph() = default;

  Scope scope_;
  size_t num_inputs_ = 0;
  std::vector<std::string> captures_;
  std::unique_ptr<Section> section_;
};

}  // namespace headrace::onnx

#pragma once
// A model that is ready to run: compiled for each shape of its inputs when that is first seen, and kept. Thread-safe: any number of threads
// may call run() at once; steps of one process take turns on the device.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/compiled_graph.h"
#include "onnx/interpreter.h"
#include "onnx/model.h"
#include "onnx/runtime.h"

namespace headrace::onnx {

class Session {
 public:
  struct Options {
    RunLimits limits;           // of each run
    CompileOptions compile;
    int threads = 0;            // 0: as many as the process may use
    uint64_t memory_limit = 0;  // bytes of the device; 0: none
    bool reference = false;     // the interpreter alone: every operator by its reference
  };

  // Errors: those of read_model, Interpreter::make and DeviceQueue::cpu; resource_exhausted where memory runs out.
  static Result<Session> load(const std::string& path, const Options& options);
  static Result<Session> make(Model model, const Options& options);

  const Model& model() const { return *state_->model; }
  // In the order of the file.
  const std::vector<ValueInfo>& inputs() const { return model().graph.inputs; }
  const std::vector<ValueInfo>& outputs() const { return model().graph.outputs; }
  bool may_be_left_out(const ValueInfo& input) const { return model().graph.initializers.contains(input.name); }

  // Outputs by name. A run that fails leaves the session as it was. Errors: those of Interpreter::run, resource_exhausted where memory runs
  // out; unsupported for a node without a kernel under `strict`.
  Result<std::map<std::string, Value>> run(const std::map<std::string, Value>& inputs) const;

  // The facts of the main graph's inputs by value of its scope, where `dims` says what an open dim of that name is; "INPUT.AXIS" stands
  // for one without a name. Errors: invalid_argument for a dim that is missing, unknown or below 0; unsupported for an input of unknown
  // rank.
  Result<std::map<int, ValueFact>> input_facts(const std::map<std::string, int64_t>& dims) const;

  // The compiled main graph, for those who explain or write it; null with `reference`.
  CompiledGraph* compiled() const { return state_->compiled.get(); }
  SessionRuntime* runtime() const { return state_->runtime.get(); }

 private:
  struct State {
    std::shared_ptr<const Model> model;     // as it was read
    std::shared_ptr<const Model> inlined;   // what the graphs below point into; the same where it has no functions
    std::unique_ptr<SessionRuntime> runtime;
    std::unique_ptr<CompiledGraph> compiled;
    std::unique_ptr<Interpreter> interpreter;  // with `reference`
    Options options;
  };
  explicit Session(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Result<Session> prepare(Model model, const Options& options);
  Result<std::map<std::string, Value>> run_compiled(const std::map<std::string, Value>& inputs) const;

  std::shared_ptr<State> state_;
};

}  // namespace headrace::onnx

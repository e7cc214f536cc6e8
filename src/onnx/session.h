#pragma once
// A model that is ready to run. Thread-safe: any number of threads may call run() at once.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/interpreter.h"
#include "onnx/model.h"

namespace headrace::onnx {

class Session {
 public:
  struct Options {
    RunLimits limits;  // of each run
  };

  // Errors: those of read_model and Interpreter::make.
  static Result<Session> load(const std::string& path, const Options& options);
  static Result<Session> make(Model model, const Options& options);

  const Model& model() const { return interpreter_->model(); }
  // In the order of the file.
  const std::vector<ValueInfo>& inputs() const { return model().graph.inputs; }
  const std::vector<ValueInfo>& outputs() const { return model().graph.outputs; }
  bool may_be_left_out(const ValueInfo& input) const { return model().graph.initializers.contains(input.name); }

  // Outputs by name. Errors: those of Interpreter::run.
  Result<std::map<std::string, Value>> run(const std::map<std::string, Value>& inputs) const;

 private:
  Session(Interpreter interpreter, const Options& options)
      : interpreter_(std::make_shared<const Interpreter>(std::move(interpreter))), options_(options) {}

  std::shared_ptr<const Interpreter> interpreter_;  // prepared once
  Options options_;
};

}  // namespace headrace::onnx

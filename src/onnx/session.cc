#include "onnx/session.h"

#include <fmt/format.h>

#include "onnx/file.h"

namespace headrace::onnx {

Result<Session> Session::load(const std::string& path, const Options& options) {
  HR_ASSIGN_OR_RETURN(Model model, read_model(path));
  return make(std::move(model), options);
}

Result<Session> Session::make(Model model, const Options& options) {
  HR_ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::make(std::make_shared<const Model>(std::move(model))));
  return Session(std::move(interpreter), options);
}

Result<std::map<std::string, Value>> Session::run(const std::map<std::string, Value>& inputs) const {
  return interpreter_->run(inputs, options_.limits);
}

}  // namespace headrace::onnx

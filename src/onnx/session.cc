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

std::string describe(const Type& type) {
  switch (type.kind) {
    case Type::Kind::unknown: return "unknown";
    case Type::Kind::sequence: return "sequence of " + describe(*type.element);
    case Type::Kind::optional: return "optional " + describe(*type.element);
    case Type::Kind::tensor: break;
  }
  if (!type.shape) return std::string(dtype_name(type.dtype));
  std::vector<std::string> dims;
  for (const Type::Dim& dim : *type.shape) dims.push_back(dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol);
  return fmt::format("{} [{}]", dtype_name(type.dtype), fmt::join(dims, ", "));
}

}  // namespace headrace::onnx

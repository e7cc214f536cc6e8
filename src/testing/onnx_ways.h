#pragma once
// The ways in which a model can be computed, which all must give the same: by the reference operators, compiled without a pass, compiled
// with all of them.

#include <map>
#include <string>
#include <string_view>

#include "onnx/session.h"

namespace headrace::testing {

struct OnnxWay {
  std::string_view name;
  bool reference = false;
  bool passes = true;

  Result<std::map<std::string, onnx::Value>> run(const onnx::Model& model, const std::map<std::string, onnx::Value>& inputs) const {
    onnx::Session::Options options;
    options.reference = reference;
    options.threads = 1;  // models of a few elements
    if (!passes) options.compile.skip_passes = {"all"};
    HR_ASSIGN_OR_RETURN(const onnx::Session session, onnx::Session::make(model, options));
    return session.run(inputs);
  }
};

inline constexpr OnnxWay kOnnxWays[] = {
    {"reference operators", true, false}, {"compiled, no pass", false, false}, {"compiled", false, true}};

}  // namespace headrace::testing

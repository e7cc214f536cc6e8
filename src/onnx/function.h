#pragma once
// Model-local functions: how one is found, and how its body takes the attributes of a call.

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "onnx/model.h"

namespace headrace::onnx {

// The functions of a model by domain, name and overload; of two that share them, the first. The model must outlive it.
class FunctionTable {
 public:
  explicit FunctionTable(const Model& model);
  const Function* find(std::string_view domain, std::string_view name, std::string_view overload) const;
  const Function* find(const Node& node) const { return find(node.domain, node.op, node.overload); }  // null: the node calls none

 private:
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const Function*> functions_;
};

// The body of `function` for one call: attributes that refer to the function's own get the call's values, or the defaults; those that have
// neither go. Errors: malformed for more inputs or outputs than the function has.
Result<std::vector<Node>> bind_function(const Function& function, const Node& call);

}  // namespace headrace::onnx

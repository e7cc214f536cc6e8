#pragma once
// An operator's host function as the kernel of a node of a program.

#include <memory>

#include "onnx/op.h"
#include "ops/host.h"

namespace headrace::onnx {

// `node` must outlive it. The operator must hold no graphs.
std::shared_ptr<const ops::HostFunction> make_host_node(const Node& node, int64_t opset, const OpRow& row);

// What make_host_node was given; null for a function that it did not make.
struct HostOrigin {
  const Node* node;
  int64_t opset;  // of the node's domain
};
const HostOrigin* host_origin(const ops::HostFunction& function);

}  // namespace headrace::onnx

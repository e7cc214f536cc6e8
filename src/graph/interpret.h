#pragma once
// Runs a graph with its ops' float64 references, values on the host: what golden tests and tests of passes compare with, and
// how constants are folded. Slow and exact; no kernel is involved.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace headrace {

// A weight value decoded to its shape.
using HostWeights = std::function<Result<HostTensor>(const Value& weight)>;

HostValue constant_on_host(const Value& constant);

// The outputs of one node. Views are read through their op's view(). Errors: internal for an op without a reference.
Result<std::vector<HostTensor>> interpret_node(const Graph& graph, const Node& node, std::span<const HostValue> inputs,
                                               const Bindings& sizes);

// `values`: inputs and states by name; KV pools and `state` tensors in it are written to. Returns the graph's outputs by
// name. Errors: not_found for an input or state that is missing, malformed for one whose dims are not its shape under
// `sizes`.
Result<std::map<std::string, HostTensor>> interpret(const Graph& graph, const Bindings& sizes,
                                                    const std::map<std::string, HostValue>& values,
                                                    const HostWeights& weights);

}  // namespace headrace

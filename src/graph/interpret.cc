#include "graph/interpret.h"

#include <fmt/format.h>

namespace headrace {
namespace {

std::vector<int64_t> dims_of(const Shape& shape, const Bindings& sizes) {
  std::vector<int64_t> dims;
  for (const Dim& dim : shape) dims.push_back(dim.eval(sizes));
  return dims;
}

// Copies the window that `view` cuts out of `input`. Offsets come from pointers that are never read through.
HostTensor copy_window(const Node& node, const HostTensor& input, HostTensor output) {
  Shape shape;
  for (const int64_t dim : input.dims) shape.push_back(dim);
  const size_t unit = dtype_bytes(input.dtype);
  std::vector<std::byte> ground(std::max<size_t>(1, input.values.size()) * unit);
  const TensorView whole = contiguous_view(ground.data(), input.dtype, shape, Bindings());
  const TensorView window = node.op->view(node.attrs, whole);
  const int64_t start = (static_cast<std::byte*>(window.data) - ground.data()) / static_cast<int64_t>(unit);

  std::vector<int64_t> index(window.rank, 0);
  for (double& value : output.values) {
    int64_t at = start;
    for (int axis = 0; axis < window.rank; ++axis) at += index[axis] * window.strides[axis];
    value = input.values[at];
    for (int axis = window.rank - 1; axis >= 0 && ++index[axis] == window.dims[axis]; --axis) index[axis] = 0;
  }
  return output;
}

}  // namespace

HostValue constant_on_host(const Value& constant) {
  HostValue host;
  host.tensor = {constant.type.dtype, dims_of(constant.type.shape, Bindings()), constant_values(constant)};
  return host;
}

Result<std::vector<HostTensor>> interpret_node(const Graph& graph, const Node& node, std::span<const HostValue> inputs,
                                               const Bindings& sizes) {
  std::vector<HostTensor> outputs;
  for (const ValueId id : node.outputs) {
    const ValueType& type = graph.values[id].type;
    HostTensor tensor{type.dtype, dims_of(type.shape, sizes), {}};
    tensor.values.resize(type.shape.elements(sizes));
    outputs.push_back(std::move(tensor));
  }
  if (node.op->effects.view) {
    outputs[0] = copy_window(node, inputs[0].tensor, std::move(outputs[0]));
  } else if (node.op->reference != nullptr) {
    node.op->reference(node.attrs, inputs, outputs);
  } else {
    return error(Code::internal, "node {} ({}): the op has no reference", node.name, node.op->name);
  }
  return outputs;
}

Result<std::map<std::string, HostTensor>> interpret(const Graph& graph, const Bindings& sizes,
                                                    const std::map<std::string, HostValue>& values,
                                                    const HostWeights& weights) {
  std::vector<HostValue> host(graph.values.size());
  const auto users = graph.users();
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.role == ValueRole::constant) host[id] = constant_on_host(value);
    if (value.role == ValueRole::weight && !users[id].empty()) {
      HR_ASSIGN_OR_RETURN(host[id].tensor, weights(value));
    }
    if (value.role != ValueRole::input && value.role != ValueRole::state) continue;
    const auto found = values.find(value.name);
    if (found == values.end()) return error(Code::not_found, "value {}: none was given", value.name);
    if (value.type.kind == ValueType::Kind::tensor) {
      const std::vector<int64_t> want = dims_of(value.type.shape, sizes);
      if (found->second.tensor.dims != want) {
        return error(Code::malformed, "value {}: want dims [{}], got [{}]", value.name, fmt::join(want, ", "),
                     fmt::join(found->second.tensor.dims, ", "));
      }
    }
    host[id] = found->second;
    // What earlier steps stored counts, not what the state was made with.
    if (found->second.state != nullptr) host[id].tensor = *found->second.state;
  }
  for (const Node& node : graph.nodes) {
    if (node.dead) continue;
    std::vector<HostValue> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNone ? HostValue{} : host[id]);
    HR_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs, interpret_node(graph, node, inputs, sizes));
    for (size_t index = 0; index < outputs.size(); ++index) host[node.outputs[index]].tensor = std::move(outputs[index]);
  }
  std::map<std::string, HostTensor> results;
  for (const GraphOutput& output : graph.outputs) results[output.name] = host[output.value].tensor;
  return results;
}

}  // namespace headrace

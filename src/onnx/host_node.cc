#include "onnx/host_node.h"

#include <fmt/format.h>

#include <cstring>

namespace headrace::onnx {
namespace {

// Outputs are as large as they were planned: nothing to count.
class NoGraphs final : public GraphRunner {
 public:
  Result<std::vector<Value>> run(const Graph&, std::vector<Value>) override {
    return error(Code::internal, "an operator of a program runs a graph");
  }
  Result<std::vector<Type>> infer(const Graph&, const std::vector<ValueFact>&) override {
    return error(Code::internal, "an operator of a program infers a graph");
  }
  Status charge(uint64_t) override { return {}; }
};

class HostNode final : public ops::HostFunction {
 public:
  HostNode(const Node& node, int64_t opset, const OpRow& row) : origin_{&node, opset}, node_(node), row_(row) {}

  const HostOrigin& origin() const { return origin_; }

  Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const override {
    std::vector<Value> values(node_.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorView& view = inputs[i];
      if (i >= node_.inputs.size() || node_.inputs[i].empty()) continue;
      // Borrowed: the view outlives the call.
      std::shared_ptr<const std::byte[]> bytes(std::shared_ptr<void>(), static_cast<const std::byte*>(view.data));
      values[i] = Tensor::over(view.dtype, Dims(view.dims.begin(), view.dims.begin() + view.rank), std::move(bytes));
    }
    NoGraphs none;
    OpContext context(node_, origin_.opset, values, none);
    HR_RETURN_IF_ERROR(within_memory([&] { return row_.run(context); }));
    const std::vector<Value> made = context.take_outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorView& to = outputs[i];
      const Tensor* from = made[i].tensor();
      const Dims dims(to.dims.begin(), to.dims.begin() + to.rank);
      if (node_.outputs[i].empty()) continue;  // nobody reads it, whatever the operator made
      if (from == nullptr || from->dtype() != to.dtype || from->dims() != dims) {
        return make_status(Code::internal, "output {}: planned as {} [{}], is {} [{}]", i, dtype_name(to.dtype), fmt::join(dims, ", "),
                           from == nullptr ? "nothing" : dtype_name(from->dtype()),
                           fmt::join(from == nullptr ? Dims() : from->dims(), ", "));
      }
      if (from->bytes() > 0) std::memcpy(to.data, from->raw(), from->bytes());
    }
    return {};
  }

 private:
  const HostOrigin origin_;
  const Node& node_;
  const OpRow& row_;
};

}  // namespace

std::shared_ptr<const ops::HostFunction> make_host_node(const Node& node, int64_t opset, const OpRow& row) {
  return std::make_shared<const HostNode>(node, opset, row);
}

const HostOrigin* host_origin(const ops::HostFunction& function) {
  const auto* made = dynamic_cast<const HostNode*>(&function);
  return made == nullptr ? nullptr : &made->origin();
}

}  // namespace headrace::onnx

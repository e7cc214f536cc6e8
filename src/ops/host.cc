#include "ops/host.h"

#include "ops/input_check.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& host = attrs.as<HostAttrs>();
  InputCheck check(host.name, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) check.any_tensor(static_cast<int>(i));
  check.require(host.function != nullptr, "an operator on the host needs its function");
  for (const ValueType& output : host.outputs) {
    check.require(output.kind == ValueType::Kind::tensor && output.dtype != DType::string,
                  fmt::format("outputs must be tensors of numbers, got {}", describe(output)));
  }
  return check.outputs(host.outputs);
}

// What the function computes is not known; its values move at least once.
Cost cost(const NodeSizes& sizes) { return {.flops = 0, .bytes = all_bytes(sizes)}; }

std::vector<OpCase> no_cases() { return {}; }

}  // namespace

const Op host{.name = "host", .infer = infer, .cost = cost, .cases = no_cases};

}  // namespace headrace::ops

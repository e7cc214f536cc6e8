#include "ops/packed_constant.h"

#include "ops/input_check.h"

namespace headrace::ops {

PackedConstant::~PackedConstant() = default;
bool PackedConstant::reads(int other) const { return other != input; }

Result<std::shared_ptr<const KernelState>> pack_constant(const NodeSetup& setup, int input, std::string_view form, int64_t parameter,
                                                         uint64_t bytes,
                                                         void (*pack)(const NodeSizes&, const std::byte*, std::byte*)) {
  const std::byte* constant = setup.constants[input];
  if (constant == nullptr) return std::shared_ptr<const KernelState>();
  const ValueType& type = setup.sizes.inputs[input];
  const auto size = static_cast<size_t>(type.shape.elements(setup.sizes.bindings)) * dtype_bytes(type.dtype);
  auto state = std::make_shared<PackedConstant>();
  state->input = input;
  HR_ASSIGN_OR_RETURN(state->owner,
                      setup.packed.get({constant, size}, fmt::format("{} {} of {}", form, parameter, describe(type)), bytes,
                                       [&](std::byte* out) { pack(setup.sizes, constant, out); }));
  state->data = state->owner.get();
  return state;
}

}  // namespace headrace::ops

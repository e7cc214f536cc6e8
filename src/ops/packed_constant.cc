#include "ops/packed_constant.h"

#include "ops/input_check.h"

namespace headrace::ops {

PackedConstant::~PackedConstant() = default;

Result<std::shared_ptr<const KernelState>> pack_constant(const NodeSetup& setup, int input, std::string_view form, int64_t parameter,
                                                         uint64_t bytes,
                                                         void (*pack)(const NodeSizes&, const std::byte*, std::byte*)) {
  const std::byte* constant = setup.constants[input];
  if (constant == nullptr) return std::shared_ptr<const KernelState>();
  auto state = std::make_shared<PackedConstant>();
  HR_ASSIGN_OR_RETURN(state->owner,
                      setup.packed.get(constant, fmt::format("{} {} of {}", form, parameter, describe(setup.sizes.inputs[input])), bytes,
                                       [&](std::byte* out) { pack(setup.sizes, constant, out); }));
  state->data = state->owner.get();
  return state;
}

}  // namespace headrace::ops

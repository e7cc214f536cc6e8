#include "ops/packed_constant.h"

#include "ops/input_check.h"

namespace headrace::ops {

PackedConstant::~PackedConstant() = default;
bool PackedConstant::reads(int other) const { return other != input; }
PackedPair::~PackedPair() = default;
bool PackedPair::reads(int input) const { return first.reads(input) && second.reads(input); }

namespace {

// Of an input that is a constant.
Status fill(const NodeSetup& setup, int input, std::string_view form, int64_t parameter, uint64_t bytes, Pack pack, PackedConstant& state) {
  const ValueType& type = setup.sizes.inputs[input];
  const auto size = static_cast<size_t>(type.shape.elements(setup.sizes.bindings)) * dtype_bytes(type.dtype);
  const std::byte* constant = setup.constants[input];
  state.input = input;
  HR_ASSIGN_OR_RETURN(state.owner,
                      setup.packed.get({constant, size}, fmt::format("{} {} of {}", form, parameter, describe(type)), bytes,
                                       [&](std::byte* out) { pack(setup.sizes, constant, out); }));
  state.data = state.owner.get();
  return {};
}

}  // namespace

Result<std::shared_ptr<const KernelState>> pack_constant(const NodeSetup& setup, int input, std::string_view form, int64_t parameter,
                                                         uint64_t bytes, Pack pack) {
  if (setup.constants[input] == nullptr) return std::shared_ptr<const KernelState>();
  auto state = std::make_shared<PackedConstant>();
  HR_RETURN_IF_ERROR(fill(setup, input, form, parameter, bytes, pack, *state));
  return state;
}

Result<std::shared_ptr<const KernelState>> pack_constants(const NodeSetup& setup, const Packing& first, const Packing& second) {
  if (setup.constants[first.input] == nullptr || setup.constants[second.input] == nullptr) return std::shared_ptr<const KernelState>();
  auto state = std::make_shared<PackedPair>();
  HR_RETURN_IF_ERROR(fill(setup, first.input, first.form, 0, first.bytes, first.pack, state->first));
  HR_RETURN_IF_ERROR(fill(setup, second.input, second.form, 0, second.bytes, second.pack, state->second));
  return state;
}

}  // namespace headrace::ops

#pragma once
// Kernel::prepare for kernels that want one constant input packed, or two. It stands here and not beside the kernels because their objects may
// hold no shared code of the standard library (kernels/cpu/isa.h).

#include "ops/op.h"

namespace headrace::ops {

// What run() finds in args.state: the packed bytes, 64-byte aligned. No state: the input was no constant.
struct PackedConstant final : KernelState {
  ~PackedConstant() override;
  bool reads(int input) const override;
  int input = 0;  // which is packed
  const std::byte* data = nullptr;
  std::shared_ptr<const std::byte[]> owner;
};

// Two packed inputs.
struct PackedPair final : KernelState {
  ~PackedPair() override;
  bool reads(int input) const override;
  PackedConstant first, second;
};

using Pack = void (*)(const NodeSizes& sizes, const std::byte* constant, std::byte* out);

// The packed form of input `input`, or null where it is no constant. `form` and `parameter` name the packing; the input's type is added.
Result<std::shared_ptr<const KernelState>> pack_constant(const NodeSetup& setup, int input, std::string_view form, int64_t parameter,
                                                         uint64_t bytes, Pack pack);

// How one of two inputs is packed.
struct Packing {
  int input;
  std::string_view form;
  uint64_t bytes;
  Pack pack;
};
// A PackedPair, or null where one of the two is no constant.
Result<std::shared_ptr<const KernelState>> pack_constants(const NodeSetup& setup, const Packing& first, const Packing& second);

}  // namespace headrace::ops

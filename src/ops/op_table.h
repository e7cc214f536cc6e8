#pragma once
// Which kernels exist, and which one computes a node. ops.def is the list of ops; this is the only door from graph,
// models and runtime to kernels/. Device plug-ins add their rows at run time.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace headrace {

// What the kernels of a plan may use.
struct KernelTarget {
  DeviceKind device = DeviceKind::cpu;
  Isa isa = Isa::generic;          // kernels of this level or below
  bool row_invariant_only = true;
  bool libraries = true;           // kernels of libraries too
};

std::span<const Op* const> all_ops();
const Op* find_op(std::string_view name);
// Every kernel of `op`, all devices, best first within a device.
std::vector<const Kernel*> kernels_of(const Op& op);

// The kernel of highest priority that supports these types. Errors: unsupported; the message lists the candidates and
// what ruled each out.
Result<const Kernel*> select_kernel(const Op& op, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                                    const Attrs& attrs, const KernelTarget& target);

// Why kernels that come before the selected one are not it: "jit (types), vnni (instruction set)". Those of other devices are left out.
std::string describe_refusals(const Op& op, std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs,
                              const KernelTarget& target);

// Adds a plug-in's kernels (they must live until the process ends). Called once, before the first plan.
void register_kernels(std::span<const Kernel> kernels);

}  // namespace headrace

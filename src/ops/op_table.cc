// The one place that knows every op and every kernel.
#include "ops/op_table.h"

#include <algorithm>
#include <array>

#include "ops/add_q8.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/conv.h"
#include "ops/conv_q8.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/gemm.h"
#include "ops/gemm_q8.h"
#include "ops/host.h"
#include "ops/kernel_lists.h"
#include "ops/layer_norm.h"
#include "ops/logprobs.h"
#include "ops/lstm.h"
#include "ops/matmul.h"
#include "ops/movement.h"
#include "ops/pool.h"
#include "ops/pool_2d.h"
#include "ops/quantize_linear.h"
#include "ops/reduce.h"
#include "ops/resize_2d.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/rope_kv_write.h"
#include "ops/rotary.h"
#include "ops/rows.h"
#include "ops/sample.h"
#include "ops/sdpa.h"
#include "ops/select_tokens.h"
#include "ops/unary.h"

namespace headrace {
namespace {

constexpr const Op* kOps[] = {
#define HR_OP(op) &ops::op,
#define HR_VIEW_OP(op) &ops::op,
#include "ops/ops.def"
#undef HR_OP
#undef HR_VIEW_OP
};

constexpr const KernelList* kCpuLists[] = {
#define HR_VIEW_OP(op)
#if defined(__x86_64__) && !defined(HEADRACE_PORTABLE_KERNELS)
#define HR_OP(op) &generic::kernels_##op, &avx2::kernels_##op, &avx512::kernels_##op,
#else
#define HR_OP(op) &generic::kernels_##op,
#endif
#include "ops/ops.def"
#undef HR_OP
#undef HR_VIEW_OP
};

std::vector<std::span<const Kernel>>& plugin_lists() {
  static std::vector<std::span<const Kernel>> lists;
  return lists;
}

// Why `kernel` cannot compute the node; empty when it can.
std::string_view refusal(const Kernel& kernel, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                         const Attrs& attrs, const KernelTarget& target) {
  if (kernel.device != target.device) return "other device";
  if (kernel.device == DeviceKind::cpu && kernel.isa > target.isa) return "instruction set";
  if (kernel.of_library && !target.libraries) return "a library's";
  if (target.row_invariant_only && !kernel.row_invariant) return "not row-invariant";
  if (kernel.supports != nullptr && !kernel.supports(inputs, outputs, attrs)) return "types";
  return {};
}

}  // namespace

std::span<const Op* const> all_ops() { return kOps; }

const Op* find_op(std::string_view name) {
  for (const Op* op : kOps) {
    if (op->name == name) return op;
  }
  return nullptr;
}

std::vector<const Kernel*> kernels_of(const Op& op) {
  std::vector<const Kernel*> found;
  const auto collect = [&](std::span<const Kernel> rows) {
    for (const Kernel& kernel : rows) {
      if (kernel.op == &op) found.push_back(&kernel);
    }
  };
  for (const KernelList* list : kCpuLists) collect({list->rows, static_cast<size_t>(list->count)});
  for (const auto& rows : plugin_lists()) collect(rows);
  std::stable_sort(found.begin(), found.end(), [](const Kernel* a, const Kernel* b) {
    if (a->device != b->device) return a->device < b->device;
    return a->priority > b->priority;
  });
  return found;
}

Result<const Kernel*> select_kernel(const Op& op, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                                    const Attrs& attrs, const KernelTarget& target) {
  std::string candidates;
  for (const Kernel* kernel : kernels_of(op)) {
    const std::string_view why = refusal(*kernel, inputs, outputs, attrs, target);
    if (why.empty()) return kernel;
    candidates += fmt::format("{}{} ({})", candidates.empty() ? "" : ", ", kernel->name, why);
  }
  return error(Code::unsupported, "{}: no kernel for these types on {}; candidates: {}", op.name,
               target.device == DeviceKind::cpu ? isa_name(target.isa) : std::string_view("cuda"),
               candidates.empty() ? "none" : candidates);
}

std::string describe_refusals(const Op& op, std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs,
                              const KernelTarget& target) {
  std::string text;
  for (const Kernel* kernel : kernels_of(op)) {
    if (kernel->device != target.device) continue;
    const std::string_view why = refusal(*kernel, inputs, outputs, attrs, target);
    if (why.empty()) break;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kernel->name, why);
  }
  return text;
}

void register_kernels(std::span<const Kernel> kernels) { plugin_lists().push_back(kernels); }

}  // namespace headrace

// select_tokens and gather_rows: copies.
#include "ops/rows.h"

#include "kernels/cpu/lanes.h"
#include "ops/select_tokens.h"

HR_BEGIN_KERNELS
namespace {

// A few integers: one member does it.
void run_select_tokens(const StepContext&, const NodeArgs& args, Team& team) {
  if (team.rank() != 0) return;
  const TensorView& source = args.inputs[0].tensor;
  const TensorView& last = args.inputs[1].tensor;
  int32_t* ids = args.outputs[0].tensor.as<int32_t>();
  for (int64_t t = 0; t < source.dims[0]; ++t) {
    const int32_t token = source.as<int32_t>()[t];
    const int64_t slot = -(int64_t{token} + 1);
    ids[t] = token >= 0 ? token : slot < last.dims[0] ? last.as<int32_t>()[slot] : -1;
  }
}

void run_gather_rows(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const int32_t* from = args.inputs[1].tensor.as<int32_t>();
  const TensorView& out = args.outputs[0].tensor;
  const size_t bytes = static_cast<size_t>(out.dims[1]) * sizeof(float);
  const Team::Range rows = team.share(out.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const bool inside = from[row] >= 0 && from[row] < x.dims[0];
    if (inside) {
      std::memcpy(out.row<float>(row), x.row<float>(from[row]), bytes);
    } else {
      std::memset(out.row<float>(row), 0, bytes);
    }
  }
}

constexpr Kernel kSelect{.op = &ops::select_tokens,
                         .name = kIsaName,
                         .isa = kIsa,
                         .priority = kIsaPriority,
                         .run = run_select_tokens};
constexpr Kernel kGather{
    .op = &ops::gather_rows, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_gather_rows};

}  // namespace

const KernelList kernels_select_tokens = {&kSelect, 1};
const KernelList kernels_gather_rows = {&kGather, 1};
HR_END_KERNELS

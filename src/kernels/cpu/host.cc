// host: the node's own function, on the calling thread. One kernel serves every instruction set.
#include "ops/host.h"

#include "kernels/cpu/isa.h"

HR_BEGIN_KERNELS
namespace {

void run(const StepContext& step, const NodeArgs& args, Team& team) {
  if (team.rank() == 0) ops::run_host(step, args);
}

constexpr Kernel kHost{.op = &ops::host, .name = "host", .outside_team = true, .run = run};

}  // namespace

const KernelList kernels_host = {&kHost, kIsa == Isa::generic ? 1 : 0};
HR_END_KERNELS

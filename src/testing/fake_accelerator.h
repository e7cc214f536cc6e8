#pragma once
// An accelerator without a device: a plug-in whose memory is the host's and whose kernels are the generic CPU ones of the step programs. What
// the runtime does for a device (padding, uploads, recorded steps, copies in the order of streams) so runs where there is none. Launches
// run at once; while a stream records they are kept with copies of their arguments, as a device's graph keeps them.

#include <memory>
#include <string>
#include <vector>

#include "runtime/device_queue.h"

namespace headrace::testing {

struct FakeAcceleratorCounts {
  int launches = 0;   // of kernels, out of graphs too
  int recorded = 0;   // graphs made
  int replayed = 0;   // graphs launched
  int64_t allocated = 0;  // bytes held now
};

// What was asked of the device's plan of products. A file is a plan where its first line is "fake plan"; saving writes such a file.
struct FakeMatmulPlan {
  std::vector<std::string> loaded, saved;  // paths
  std::vector<DeviceMatmul> tuned;
};

// A queue of the one fake device of this process; its kernels are registered with the first call. `memory_limit` 0: none.
std::shared_ptr<runtime::DeviceQueue> fake_device_queue(int threads, uint64_t memory_limit = 0);
// The passes that make ops which only devices have kernels of.
inline const std::vector<std::string> kFakeDeviceSkips = {"fuse_rope_kv_write"};
const FakeAcceleratorCounts& fake_device_counts();
FakeMatmulPlan& fake_matmul_plan();
// The next `count`-th synchronizing call fails, as when a device is lost; 0: none does.
void fail_fake_device_after(int count);

}  // namespace headrace::testing

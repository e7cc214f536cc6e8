#pragma once
// Memory of a device that is not the host's. A MemoryLedger may stand before one: its buffers then lie there.

#include <cstdint>

#include "base/status.h"

namespace headrace {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // 256-byte aligned, filled with zeros before anything that is launched later reads it. Errors: resource_exhausted.
  virtual Result<void*> allocate(uint64_t bytes) = 0;
  virtual void release(void* memory) = 0;
};

}  // namespace headrace

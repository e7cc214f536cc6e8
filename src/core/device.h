#pragma once
// Devices and instruction sets.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace {

enum class DeviceKind : uint8_t { cpu, cuda };

struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int32_t index = 0;
  bool operator==(const DeviceId&) const = default;
};

std::string device_name(DeviceId device);  // "cpu", "cuda", "cuda:1"
// Errors: invalid_argument for anything else.
Result<DeviceId> parse_device(std::string_view name);

// Instruction-set levels of the CPU kernels, each a superset of the one before.
//   generic  what the compiler's baseline gives
//   avx2     AVX2, FMA, F16C
//   avx512   AVX-512 F/BW/VL/DQ, VNNI, BF16
enum class Isa : uint8_t { generic, avx2, avx512 };

std::string_view isa_name(Isa isa);
Isa detect_isa();  // the best level that this processor and operating system run
// Errors: invalid_argument for an unknown name, unsupported for a level that this machine lacks.
Result<Isa> parse_isa(std::string_view name);

// Processors that this process may use: the affinity mask, cut to the cgroup's quota. At least 1.
int usable_cpus();

}  // namespace headrace

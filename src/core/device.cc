#include "core/device.h"

#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace headrace {
namespace {

// cgroup v2: "max 100000" or "150000 100000" (quota and period in microseconds). 0: no limit known.
int cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  char* end = nullptr;
  const double value = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || value <= 0) return 0;
  return std::max(1, static_cast<int>(value / period));
}

#if defined(__x86_64__)
// By hand, since clang 16's __builtin_cpu_supports does not know the name. The system keeps the registers wherever it
// keeps AVX's, which the caller asks for too.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::generic: return "generic";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

std::string device_name(DeviceId device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return device.index == 0 ? "cuda" : fmt::format("cuda:{}", device.index);
}

Result<DeviceId> parse_device(std::string_view name) {
  if (name == "cpu") return DeviceId{};
  if (name == "cuda") return DeviceId{DeviceKind::cuda, 0};
  DeviceId device{DeviceKind::cuda, -1};
  const std::string_view digits = name.starts_with("cuda:") ? name.substr(5) : "";
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
  if (digits.empty() || code != std::errc() || end != digits.data() + digits.size() || device.index < 0) {
    return error(Code::invalid_argument, "want cpu, cuda or cuda:N, got \"{}\"", name.substr(0, 32));
  }
  return device;
}

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
  if (avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::generic;
}

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (name != isa_name(isa)) continue;
    if (isa > detect_isa()) {
      return error(Code::unsupported, "--isa {}: this machine runs {} at most", name, isa_name(detect_isa()));
    }
    return isa;
  }
  return error(Code::invalid_argument, "--isa: want generic, avx2 or avx512, got \"{}\"", name);
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const int quota = cgroup_cpus(); quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

}  // namespace headrace

#pragma once
// What this machine can do at most, measured: read bandwidth of each cache level and of memory, copy bandwidth, and the
// arithmetic peaks of every instruction set it runs, each for several numbers of threads. Kernels and benches are
// judged against it. Figures are medians; neighbours on a shared machine lower them, so compare within one run.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/device.h"

namespace headrace::runtime {

struct RoofOptions {
  int threads = 0;                // the most to measure; 0: usable_cpus()
  int repeats = 7;                // the median is taken of these
  double seconds_per_repeat = 0.01;
  // Called before each measurement, from the caller's thread. May be empty.
  std::function<void(std::string_view what, int done, int total)> progress;
};

struct CacheLevel {
  std::string name;      // "L1", "L2", "L3"
  uint64_t bytes = 0;    // of one instance
  int shared_by = 1;     // processors that share an instance
};

struct ReadRate {
  std::string name;             // a cache level's, or "memory"
  uint64_t working_set = 0;     // bytes read over and over, all threads together
  double bytes_per_s = 0;
};

// Operations a second, multiply and add counted apart. 0: the set has no such instruction.
struct ArithmeticRate {
  Isa isa = Isa::generic;
  double f32 = 0, bf16 = 0, int8 = 0;
};

struct RoofRow {
  int threads = 1;
  std::vector<ReadRate> reads;    // by level from L1, memory last
  double copy_bytes_per_s = 0;    // through memory; each byte counts once read and once written
  std::vector<ArithmeticRate> arithmetic;  // from generic up

  double memory_bytes_per_s() const { return reads.empty() ? 0 : reads.back().bytes_per_s; }
  const ArithmeticRate* find(Isa isa) const;
};

struct RoofReport {
  std::string processor;  // the model's name, "" when the system does not say
  std::vector<CacheLevel> caches;
  std::vector<RoofRow> rows;  // 1, 2, 4, ... threads and the most; every count up to 4
  double seconds = 0;         // what the measurement took
};

// Takes a few seconds and up to 256 MiB. Errors: invalid_argument for counts below 1 or above 4096; resource_exhausted
// when the memory is not there.
Result<RoofReport> measure_roof(const RoofOptions& options);

// The data and unified caches of processor 0 under `root` (/sys/devices/system/cpu), by level. Empty when the system
// does not say; entries that make no sense are left out.
std::vector<CacheLevel> read_cache_levels(const std::string& root);

// The thread counts that are measured up to `most`.
std::vector<int> roof_thread_counts(int most);

}  // namespace headrace::runtime

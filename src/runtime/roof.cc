#include "runtime/roof.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/clock.h"
#include "core/team.h"
#include "ops/roof_kernels.h"
#include "runtime/thread_team.h"

namespace headrace::runtime {
namespace {

constexpr int kMaxThreads = 4096;
constexpr uint64_t kMaxMemorySet = uint64_t{256} << 20;
constexpr uint64_t kMaxCacheBytes = uint64_t{4} << 30;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "512K" or "32M"; 0 when it is neither.
uint64_t parse_size(const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str() || value > kMaxCacheBytes) return 0;
  const uint64_t unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;
  return value * unit <= kMaxCacheBytes ? value * unit : 0;
}

// "0-3,8" names five processors.
int parse_cpu_list(const std::string& text) {
  int count = 0;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (last < first || last - first >= kMaxThreads) break;
    count = std::min<int>(count + static_cast<int>(last - first) + 1, kMaxThreads);
    at = *end == ',' ? end + 1 : end;
  }
  return std::max(count, 1);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

// One thing to measure: what every member does in a pass, and how much of it that is in all.
struct Probe {
  std::string name;
  std::function<void(int rank)> pass;
  double amount = 0;  // bytes or operations of one pass, all members together
  double* rate = nullptr;
};

class Meter {
 public:
  Meter(ThreadTeam& team, const RoofOptions& options) : team_(team), options_(options) {}

  // Passes a second times the amount: the median of the repeats, each long enough for the clock.
  double rate(const Probe& probe) {
    int64_t passes = 1;
    double seconds = timed(probe, passes);  // warms caches, pages and clocks
    while (seconds < options_.seconds_per_repeat / 2 && passes < (int64_t{1} << 40)) {
      passes *= 2;
      seconds = timed(probe, passes);
    }
    std::vector<double> rates;
    for (int i = 0; i < options_.repeats; ++i) {
      rates.push_back(probe.amount * static_cast<double>(passes) / std::max(timed(probe, passes), 1e-9));
    }
    std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
    return rates[rates.size() / 2];
  }

 private:
  // From the moment all members are there until the last one ends.
  double timed(const Probe& probe, int64_t passes) {
    TimePoint start, stop;
    team_.run([&](Team& team) {
      team.barrier();
      if (team.rank() == 0) start = Clock::now();
      for (int64_t i = 0; i < passes; ++i) probe.pass(team.rank());
      team.barrier();
      if (team.rank() == 0) stop = Clock::now();
    });
    return seconds_between(start, stop);
  }

  ThreadTeam& team_;
  const RoofOptions& options_;
};

// Keeps the results of loops that exist for their speed alone.
void keep(int32_t value) { asm volatile("" : : "r"(value)); }
void keep(double value) { asm volatile("" : : "m"(value)); }

std::vector<Isa> isas_here() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (isa <= detect_isa() && roof_kernels(isa) != nullptr) found.push_back(isa);
  }
  return found;
}

// What one number of threads is asked, into `row` (whose vectors do not move any more).
class RowProbes {
 public:
  RowProbes(int threads, const std::vector<CacheLevel>& caches, std::byte* memory, uint64_t memory_bytes, RoofRow& row)
      : threads_(threads), memory_(memory), memory_bytes_(memory_bytes), row_(row) {
    row.threads = threads;
    row.reads.reserve(caches.size() + 1);
    const RoofKernels* best = roof_kernels(isas_here().back());
    for (const CacheLevel& cache : caches) {
      // Half an instance leaves room for the rest of the system; threads fill instances of their own where they can.
      const int sharers = std::clamp(threads / std::max(1, threads / cache.shared_by), 1, threads);
      add_read(*best, cache.name, cache.bytes / 2 / static_cast<uint64_t>(sharers));
    }
    add_read(*best, "memory", memory_bytes / static_cast<uint64_t>(threads));
    add_copy();
    for (const Isa isa : isas_here()) row.arithmetic.push_back({isa});
    for (ArithmeticRate& rate : row.arithmetic) {
      const RoofKernels& kernels = *roof_kernels(rate.isa);
      add_arithmetic(kernels.f32, "f32", rate.isa, &rate.f32);
      add_arithmetic(kernels.bf16, "bf16", rate.isa, &rate.bf16);
      add_arithmetic(kernels.int8, "int8", rate.isa, &rate.int8);
    }
  }

  const std::vector<Probe>& probes() const { return probes_; }

 private:
  void add_read(const RoofKernels& kernels, const std::string& name, uint64_t bytes_each) {
    bytes_each = std::min(bytes_each, memory_bytes_ / static_cast<uint64_t>(threads_)) / kRoofReadStep * kRoofReadStep;
    if (bytes_each == 0) return;
    row_.reads.push_back({name, bytes_each * static_cast<uint64_t>(threads_), 0});
    probes_.push_back({fmt::format("{} read, {} threads", name, threads_),
                       [this, &kernels, bytes_each](int rank) {
                         keep(kernels.read(memory_ + bytes_each * static_cast<uint64_t>(rank), bytes_each));
                       },
                       static_cast<double>(row_.reads.back().working_set), &row_.reads.back().bytes_per_s});
  }

  void add_copy() {
    const uint64_t each = memory_bytes_ / 2 / static_cast<uint64_t>(threads_) / kRoofReadStep * kRoofReadStep;
    if (each == 0) return;
    probes_.push_back({fmt::format("copy, {} threads", threads_),
                       [this, each](int rank) {
                         std::byte* mine = memory_ + 2 * each * static_cast<uint64_t>(rank);
                         std::memcpy(mine + each, mine, each);
                       },
                       2.0 * static_cast<double>(each) * threads_, &row_.copy_bytes_per_s});
  }

  void add_arithmetic(RoofKernels::Arithmetic loop, std::string_view what, Isa isa, double* rate) {
    constexpr int64_t kRounds = 1000;
    if (loop == nullptr) return;
    probes_.push_back({fmt::format("{} {}, {} threads", isa_name(isa), what, threads_),
                       [loop](int) { keep(loop(kRounds)); }, loop(kRounds) * threads_, rate});
  }

  int threads_;
  std::byte* memory_;
  uint64_t memory_bytes_;
  RoofRow& row_;
  std::vector<Probe> probes_;
};

struct FreeDeleter {
  void operator()(std::byte* p) const { std::free(p); }
};

}  // namespace

const ArithmeticRate* RoofRow::find(Isa isa) const {
  for (const ArithmeticRate& rate : arithmetic) {
    if (rate.isa == isa) return &rate;
  }
  return nullptr;
}

std::vector<int> roof_thread_counts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count = count < 4 ? count + 1 : count * 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<CacheLevel> read_cache_levels(const std::string& root) {
  std::vector<CacheLevel> levels;
  for (int index = 0; index < 16; ++index) {
    const std::filesystem::path dir = std::filesystem::path(root) / "cpu0" / "cache" / fmt::format("index{}", index);
    const std::string type = first_line(dir / "type");
    const std::string level = first_line(dir / "level");
    const uint64_t bytes = parse_size(first_line(dir / "size"));
    if ((type != "Data" && type != "Unified") || level.size() != 1 || level[0] < '1' || level[0] > '4' || bytes == 0) continue;
    levels.push_back({"L" + level, bytes, parse_cpu_list(first_line(dir / "shared_cpu_list"))});
  }
  std::sort(levels.begin(), levels.end(), [](const CacheLevel& a, const CacheLevel& b) { return a.name < b.name; });
  return levels;
}

Result<RoofReport> measure_roof(const RoofOptions& options) {
  const int most = options.threads == 0 ? usable_cpus() : options.threads;
  if (most < 1 || most > kMaxThreads || options.repeats < 1) {
    return error(Code::invalid_argument, "roof: want 1 to {} threads and at least one repeat, got {} and {}", kMaxThreads, most,
                 options.repeats);
  }
  const TimePoint start = Clock::now();
  RoofReport report{processor_name(), read_cache_levels("/sys/devices/system/cpu"), {}, 0};
  // Four times the largest cache for each thread leaves it a quarter of the reads at most: threads may have one each, whatever
  // the machine says (a virtual one that called two caches one read 103 GB/s of "memory" from half as much).
  uint64_t memory_bytes = uint64_t{64} << 20;
  for (const CacheLevel& cache : report.caches) memory_bytes = std::max(memory_bytes, 4 * cache.bytes * static_cast<uint64_t>(most));
  memory_bytes = std::min(memory_bytes, kMaxMemorySet);
  const std::unique_ptr<std::byte, FreeDeleter> memory(static_cast<std::byte*>(std::aligned_alloc(4096, memory_bytes)));
  if (memory == nullptr) {
    return error(Code::resource_exhausted, "roof: {} MiB to read from are not there", memory_bytes >> 20);
  }
  std::memset(memory.get(), 1, memory_bytes);

  const std::vector<int> counts = roof_thread_counts(most);
  report.rows.resize(counts.size());
  int done = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const RowProbes row(counts[i], report.caches, memory.get(), memory_bytes, report.rows[i]);
    const int per_row = static_cast<int>(row.probes().size());
    ThreadTeam team(counts[i]);
    Meter meter(team, options);
    for (const Probe& probe : row.probes()) {
      if (options.progress) options.progress(probe.name, done, per_row * static_cast<int>(counts.size()));
      *probe.rate = meter.rate(probe);
      ++done;
    }
  }
  report.seconds = seconds_between(start, Clock::now());
  return report;
}

}  // namespace headrace::runtime

// Speed is not asserted here: only that every number asked for is there, and what is read from the system.
#include "runtime/roof.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headrace::runtime {
namespace {

class FakeSystem {
 public:
  FakeSystem() : root_(std::filesystem::temp_directory_path() / fmt::format("headrace_roof_{}", ::getpid())) {}
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void cache(int index, const char* level, const char* type, const char* size, const char* cpus) {
    const auto dir = root_ / "cpu0" / "cache" / fmt::format("index{}", index);
    std::filesystem::create_directories(dir);
    std::ofstream(dir / "level") << level << "\n";
    std::ofstream(dir / "type") << type << "\n";
    std::ofstream(dir / "size") << size << "\n";
    std::ofstream(dir / "shared_cpu_list") << cpus << "\n";
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(Roof, ReadsDataAndUnifiedCachesByLevel) {
  FakeSystem system;
  system.cache(0, "3", "Unified", "32768K", "0-3,8-11,40");
  system.cache(1, "1", "Instruction", "32K", "0");
  system.cache(2, "1", "Data", "48K", "0");
  system.cache(3, "2", "Unified", "2M", "0,4");
  const auto levels = read_cache_levels(system.root());
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].name, "L1");
  EXPECT_EQ(levels[0].bytes, 48u << 10);
  EXPECT_EQ(levels[1].bytes, 2u << 20);
  EXPECT_EQ(levels[1].shared_by, 2);
  EXPECT_EQ(levels[2].bytes, 32u << 20);
  EXPECT_EQ(levels[2].shared_by, 9);
}

TEST(Roof, LeavesOutCachesThatMakeNoSense) {
  FakeSystem system;
  system.cache(0, "1", "Data", "", "0");
  system.cache(1, "12", "Unified", "32K", "0");
  system.cache(2, "2", "Unified", "99999999999999999999K", "0");
  EXPECT_TRUE(read_cache_levels(system.root()).empty());
  EXPECT_TRUE(read_cache_levels(system.root() + "/nowhere").empty());
}

TEST(Roof, MeasuresEveryCountUpToFourThenDoubles) {
  EXPECT_EQ(roof_thread_counts(1), (std::vector{1}));
  EXPECT_EQ(roof_thread_counts(3), (std::vector{1, 2, 3}));
  EXPECT_EQ(roof_thread_counts(24), (std::vector{1, 2, 3, 4, 8, 16, 24}));
}

TEST(Roof, FillsEveryRateOfEveryRow) {
  int calls = 0;
  RoofOptions options{.threads = 2, .repeats = 1, .seconds_per_repeat = 1e-5};
  options.progress = [&](std::string_view, int done, int total) {
    EXPECT_EQ(done, calls++);
    EXPECT_LT(done, total);
  };
  const Result<RoofReport> report = measure_roof(options);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  ASSERT_EQ(report->rows.size(), 2u);
  EXPECT_GT(calls, 4);
  for (const RoofRow& row : report->rows) {
    ASSERT_EQ(row.reads.size(), report->caches.size() + 1);
    EXPECT_EQ(row.reads.back().name, "memory");
    for (const ReadRate& read : row.reads) EXPECT_GT(read.bytes_per_s, 0) << read.name;
    EXPECT_GT(row.copy_bytes_per_s, 0);
    ASSERT_NE(row.find(detect_isa()), nullptr);
    for (const ArithmeticRate& rate : row.arithmetic) EXPECT_GT(rate.f32, 0) << isa_name(rate.isa);
  }
}

TEST(Roof, RefusesCountsThatMakeNoSense) {
  EXPECT_EQ(measure_roof({.threads = -1}).error().code(), Code::invalid_argument);
  EXPECT_EQ(measure_roof({.threads = 1, .repeats = 0}).error().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace::runtime

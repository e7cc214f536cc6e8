#pragma once
// EngineConfig: the fields of config.def. Sizes in bytes and the cache's dtype have parsers of their own.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "core/dtype.h"

namespace headrace::engine {

struct EngineConfig {
#define HR_OPTION(type, field, flag, default_value, min, max, help) type field = default_value;
#include "engine/config.def"
#undef HR_OPTION
  uint64_t memory_bytes = 0;  // --memory: one budget for weights, arena and KV; 0: no limit
  // For tests: after every step the block bookkeeping is recounted, and a fault aborts the process.
  bool check_every_step = false;
};

struct OptionRow {
  std::string_view field, flag, help;
  int64_t default_value, min, max;
  int64_t EngineConfig::*member;
};
std::span<const OptionRow> engine_options();
// Errors: invalid_argument, naming the flag, the range and the value.
Status check_config(const EngineConfig& config);
// "2GiB", "512MiB", "1500000000". Errors: invalid_argument.
Result<uint64_t> parse_bytes(std::string_view text);
// What a KV cache may hold: "f16", "bf16", "f32", "i8" ("int8"). Errors: invalid_argument.
Result<DType> parse_kv_dtype(std::string_view name);

}  // namespace headrace::engine

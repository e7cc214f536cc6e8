#include "engine/config.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace headrace::engine {
namespace {

constexpr OptionRow kOptions[] = {
#define HR_OPTION(type, field, flag, default_value, min, max, help) \
  {#field, flag, help, default_value, min, max, &EngineConfig::field},
#include "engine/config.def"
#undef HR_OPTION
};

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr ByteUnit kByteUnits[] = {
    {"", 1.0},     {"B", 1.0},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"KB", 1e3},   {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12},    {"K", 0x1p10},   {"M", 0x1p20},
    {"G", 0x1p30}, {"T", 0x1p40},
};
// Above this no machine can follow, and every product with a unit stays exact enough to convert back.
constexpr double kMaxBytes = 0x1p53;

}  // namespace

std::span<const OptionRow> engine_options() { return kOptions; }

Status check_config(const EngineConfig& config) {
  for (const OptionRow& row : kOptions) {
    const int64_t value = config.*row.member;
    if (value < row.min || value > row.max) {
      return make_status(Code::invalid_argument, "{}: want {} to {}, got {}", row.flag, row.min, row.max, value);
    }
  }
  return {};
}

Result<uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (problem == std::errc() && std::isfinite(number) && number >= 0) {
    std::string_view name(rest, static_cast<size_t>(end - rest));
    while (name.starts_with(' ')) name.remove_prefix(1);
    for (const ByteUnit& unit : kByteUnits) {
      if (name != unit.name) continue;
      const double bytes = number * unit.bytes;
      if (bytes > kMaxBytes) break;
      return static_cast<uint64_t>(bytes);
    }
  }
  return error(Code::invalid_argument, "a size in bytes: want a number with B, KiB, MiB, GiB or TiB such as 2GiB, got \"{}\"",
               text.substr(0, 64));
}

Result<DType> parse_kv_dtype(std::string_view name) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i8}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  if (name == "int8") return DType::i8;
  return error(Code::invalid_argument, "want f16, bf16, f32 or i8 (int8), got \"{}\"", name.substr(0, 64));
}

}  // namespace headrace::engine

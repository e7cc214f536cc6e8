#include "testing/compare.h"

#include <bit>
#include <cmath>

namespace headrace::testing {
namespace {

bool close(double got, double want, const Tolerance& tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= tolerance.absolute + tolerance.relative * std::fabs(want);
}

}  // namespace

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::string place_of(const std::vector<int64_t>& dims, int64_t index) {
  std::string text;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const int64_t size = dims[axis] > 0 ? dims[axis] : 1;
    text = fmt::format("{}{}{}", index % size, text.empty() ? "" : ", ", text);
    index /= size;
  }
  return "[" + text + "]";
}

std::string difference(const HostTensor& got, const HostTensor& want, const Tolerance& tolerance) {
  if (got.dims != want.dims || got.values.size() != want.values.size()) return "other dims";
  int64_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < want.values.size(); ++i) {
    if (close(got.values[i], want.values[i], tolerance)) continue;
    if (wrong++ > 0) continue;
    first = fmt::format("at {}: want {:.9g}, got {:.9g}", place_of(want.dims, static_cast<int64_t>(i)),
                        want.values[i], got.values[i]);
  }
  if (wrong > 1) first += fmt::format(" and {} of {} more", wrong - 1, want.values.size());
  return first;
}

}  // namespace headrace::testing

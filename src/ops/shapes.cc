#include "ops/shapes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/input_check.h"

namespace headrace::ops {

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int axis = 0; axis < rank; ++axis) {
    const int from_a = axis - (rank - a.rank()), from_b = axis - (rank - b.rank());
    const Dim x = from_a < 0 ? Dim(1) : a[from_a], y = from_b < 0 ? Dim(1) : b[from_b];
    if (!(x == y) && !(x == Dim(1)) && !(y == Dim(1))) return std::nullopt;
    out.push_back(x == Dim(1) ? y : x);
  }
  return out;
}

std::string shape_text(const Shape& shape) { return shape.to_string({}); }
std::string list_text(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
std::string list_text(const std::vector<int32_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::optional<std::vector<int64_t>> constant_dims(const Shape& shape) {
  std::vector<int64_t> dims;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(dim.constant());
  }
  return dims;
}

Shape shape_of(const std::vector<int64_t>& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return shape;
}

int64_t elements_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::vector<int64_t> packed_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

int64_t broadcast_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& of, int64_t index) {
  int64_t place = 0, stride = 1;
  for (size_t back = 1; back <= of.size(); ++back) {
    const int64_t at = index % of[of.size() - back];
    index /= of[of.size() - back];
    if (back > dims.size()) continue;
    const int64_t dim = dims[dims.size() - back];
    place += (dim == 1 ? 0 : at) * stride;
    stride *= dim;
  }
  return place;
}

std::vector<int64_t> place_of(const std::vector<int64_t>& dims, int64_t index) {
  std::vector<int64_t> place(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    place[axis] = index % dims[axis];
    index /= dims[axis];
  }
  return place;
}

double in_float32(double value) {
  const bool fits = !(std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max()));
  return fits ? value : std::copysign(std::numeric_limits<double>::infinity(), value);
}

std::vector<HostValue> broadcast_row_alone(std::span<const HostValue> inputs, int64_t row) {
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  size_t rank = 0;
  for (const HostValue& input : inputs) rank = std::max(rank, input.tensor.dims.size());
  for (HostValue& input : alone) {
    if (rank > 0 && input.tensor.dims.size() == rank && input.tensor.dims[0] != 1) input.tensor = slice_row(input.tensor, row);
  }
  return alone;
}

std::vector<HostValue> no_row_alone(const Attrs&, std::span<const HostValue>, int64_t) { return {}; }

}  // namespace headrace::ops

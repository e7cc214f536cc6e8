#pragma once
// Windows that slide over the spatial axes of [batch, channels, spatial...]: what convolutions and pools share.

#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"
#include "onnx/ops/elements.h"

namespace headrace::onnx {

struct Window {
  Dims input, kernel, strides, dilations, begin, end, output;  // one number for each spatial axis

  size_t rank() const { return kernel.size(); }
  int64_t positions() const { return product(output); }
  int64_t taps() const { return product(kernel); }
  int64_t extent(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

// An attribute with one number for each of `rank` axes, each from `least` on. The bound keeps products with a dim within 64
// bits.
inline Result<Dims> per_axis(const NodeReader& context, std::string_view name, size_t rank, int64_t otherwise, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 28;
  HR_ASSIGN_OR_RETURN(Dims values, context.integers(name, Dims(rank, otherwise)));
  if (values.size() != rank) return error(Code::malformed, "{}: want {} numbers, got {}", name, rank, values.size());
  for (const int64_t value : values) {
    if (value < least || value > kMost) return error(Code::malformed, "{}: want {} to {}, got {}", name, least, kMost, value);
  }
  return values;
}

// Kernel, strides, dilations and pads as the attributes say; the output's dims are not yet set.
inline Result<Window> window_attributes(const NodeReader& context, std::span<const int64_t> spatial, const Dims& kernel) {
  Window window;
  window.input.assign(spatial.begin(), spatial.end());
  const size_t rank = spatial.size();
  if (kernel.empty() || context.has("kernel_shape")) {
    if (!context.has("kernel_shape")) return error(Code::malformed, "kernel_shape: not given");
    HR_ASSIGN_OR_RETURN(window.kernel, per_axis(context, "kernel_shape", rank, 1, 1));
    if (!kernel.empty() && kernel != window.kernel) {
      return error(Code::malformed, "kernel_shape: [{}], but the weights have [{}]", fmt::join(window.kernel, ", "),
                   fmt::join(kernel, ", "));
    }
  } else {
    window.kernel = kernel;
    for (const int64_t k : kernel) {
      if (k < 1) return error(Code::malformed, "a kernel of [{}]", fmt::join(kernel, ", "));
    }
  }
  HR_ASSIGN_OR_RETURN(window.strides, per_axis(context, "strides", rank, 1, 1));
  HR_ASSIGN_OR_RETURN(window.dilations, per_axis(context, "dilations", rank, 1, 1));
  HR_ASSIGN_OR_RETURN(const Dims pads, per_axis(context, "pads", 2 * rank, 0, 0));
  window.begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  window.end.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  for (const int64_t dim : window.input) {
    if (dim > kMaxElements) return error(Code::resource_exhausted, "an axis of {}", dim);
  }
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t taps, count_elements(window.kernel));
  return window;
}

inline Result<std::string> auto_pad_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(std::string mode, context.text("auto_pad", "NOTSET"));
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID") {
    return error(Code::malformed, "auto_pad: want NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {}", mode);
  }
  return mode;
}

// How many positions the window has along spatial axis `i`, whose padding is set on the way as `mode` has it.
inline Result<int64_t> place_window(Window& window, size_t i, std::string_view mode, bool ceil_mode) {
  const int64_t in = window.input[i], stride = window.strides[i], extent = window.extent(i);
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const int64_t out = (in + stride - 1) / stride;
    const int64_t pad = std::max<int64_t>(0, (out - 1) * stride + extent - in);
    window.begin[i] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
    window.end[i] = pad - window.begin[i];
    return out;
  }
  if (mode == "VALID") window.begin[i] = window.end[i] = 0;
  const int64_t room = in + window.begin[i] + window.end[i] - extent;
  // Rounded down; with ceil_mode up, where a window that reaches beyond the end counts unless it starts there.
  int64_t out = (room >= 0 ? room : room - stride + 1) / stride + 1;
  if (ceil_mode && mode == "NOTSET" && room % stride != 0 && out * stride < in + window.begin[i]) ++out;
  if (out < 0) {
    return error(Code::malformed, "spatial axis {}: a window of {} does not fit into {} padded by {} and {}", i, extent, in,
                 window.begin[i], window.end[i]);
  }
  return out;
}

// `kernel`: from the weights, or empty where the attribute kernel_shape alone says it.
inline Result<Window> make_window(const NodeReader& context, std::span<const int64_t> spatial, const Dims& kernel,
                                  bool ceil_mode = false) {
  HR_ASSIGN_OR_RETURN(Window window, window_attributes(context, spatial, kernel));
  HR_ASSIGN_OR_RETURN(const std::string mode, auto_pad_of(context));
  for (size_t i = 0; i < window.rank(); ++i) {
    HR_ASSIGN_OR_RETURN(const int64_t positions, place_window(window, i, mode, ceil_mode));
    window.output.push_back(positions);
  }
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t positions, count_elements(window.output));
  return window;
}

// The spatial dims of what windows give: a dim that is not known stays what it is where every place has a window of its own. `kernel`: the
// weights', or empty where the attribute kernel_shape alone says it.
inline Result<Shape> infer_windows(const NodeReader& context, std::span<const Dim> spatial, std::span<const Dim> kernel,
                                   bool ceil_mode = false) {
  std::optional<Dims> taps = known_dims(Shape(kernel.begin(), kernel.end()));
  if (!taps && !context.has("kernel_shape")) return unknown_shape(spatial.size());
  Dims input;
  for (const Dim& dim : spatial) input.push_back(is_known(dim) ? dim.value : 0);
  HR_ASSIGN_OR_RETURN(Window window, window_attributes(context, input, taps.value_or(Dims())));
  HR_ASSIGN_OR_RETURN(const std::string mode, auto_pad_of(context));
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  Shape output;
  for (size_t i = 0; i < window.rank(); ++i) {
    if (is_known(spatial[i])) {
      HR_ASSIGN_OR_RETURN(const int64_t positions, place_window(window, i, mode, ceil_mode));
      output.push_back(dim_of(positions));
      continue;
    }
    const int64_t padding = mode == "VALID" ? 0 : window.begin[i] + window.end[i];
    output.push_back(window.strides[i] == 1 && (same || window.extent(i) == padding + 1) ? spatial[i] : Dim());
  }
  return output;
}

// The index of element `at` within `dims`.
inline Dims index_of(int64_t at, const Dims& dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    index[i] = at % dims[i];
    at /= dims[i];
  }
  return index;
}

// For `count` window positions from `first` on: where each tap reads within one channel, -1 in the padding. [taps, count]
inline void tap_offsets(const Window& window, int64_t first, int64_t count, std::vector<int64_t>& offsets) {
  const size_t rank = window.rank();
  const Dims steps = contiguous_strides(window.input);
  offsets.resize(static_cast<size_t>(window.taps() * count));
  Dims tap(rank, 0);
  auto to = offsets.begin();
  for (int64_t t = 0; t < window.taps(); ++t, next_index(tap, window.kernel)) {
    Dims position = index_of(first, window.output);
    for (int64_t p = 0; p < count; ++p, next_index(position, window.output)) {
      int64_t offset = 0;
      for (size_t i = 0; i < rank; ++i) {
        const int64_t at = position[i] * window.strides[i] + tap[i] * window.dilations[i] - window.begin[i];
        if (at < 0 || at >= window.input[i]) {
          offset = -1;
          break;
        }
        offset += at * steps[i];
      }
      *to++ = offset;
    }
  }
}

}  // namespace headrace::onnx

#pragma once
// Windows that slide over one axis of an image: what conv, conv_q8 and pool_2d share.

#include <string_view>

#include "ops/input_check.h"

namespace headrace::ops {

struct Windows {
  int64_t window = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;

  // From the first element that a window covers to past its last.
  int64_t extent() const { return dilation * (window - 1) + 1; }
  // How many fit over `size` elements; with `ceil` one more where the last then starts before the end pad. 0 or less: none.
  int64_t count(int64_t size, bool ceil = false) const {
    const int64_t room = size + pad_begin + pad_end - extent();
    if (room < 0) return 0;
    int64_t count = (ceil ? room + stride - 1 : room) / stride + 1;
    if (ceil && (count - 1) * stride >= size + pad_begin) --count;
    return count;
  }
  // How many elements `size` windows cover, side by side, but for the pads: conv_transpose's output.
  int64_t covered(int64_t size, int64_t output_pad) const { return stride * (size - 1) + output_pad + extent() - pad_begin - pad_end; }
};

// Largest value of an attribute: products of two of them and sums of those stay far inside 64 bits.
inline constexpr int64_t kMaxWindowAttr = int64_t{1} << 30;

inline void check_windows(InputCheck& check, const Windows& windows) {
  const auto within = [](int64_t value, int64_t low) { return value >= low && value <= kMaxWindowAttr; };
  check.require(within(windows.window, 1), "a window wants 1 to 2^30 elements");
  check.require(within(windows.stride, 1), "stride: want 1 to 2^30");
  check.require(within(windows.dilation, 1), "dilation: want 1 to 2^30");
  check.require(within(windows.pad_begin, 0) && within(windows.pad_end, 0), "pads: want 0 to 2^30");
}

}  // namespace headrace::ops

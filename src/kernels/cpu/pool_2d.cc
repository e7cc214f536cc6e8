// pool_2d: a claim is a piece of one output row. Channels are contiguous: each tap is a load of lanes, four chains at once, so that
// a window of 9 taps reads L1 at two lines a cycle and memory is the bound.
#include "ops/pool_2d.h"

#include "kernels/cpu/lanes8.h"

HR_BEGIN_KERNELS
namespace {

using ops::Pool2dAttrs;

// The taps of one output index along one axis that lie inside the image: places first, first + step, ...
struct Taps {
  int64_t first = 0;  // index in the image
  int64_t count = 0;
  int64_t padded = 0;  // those inside image and pads
};
Taps taps_at(const Pool2dAttrs& a, int axis, int64_t size, int64_t out) {
  Taps taps;
  const int64_t begin = out * a.stride[axis] - a.pads[axis], end = size + a.pads[2 + axis];
  const int64_t step = a.dilation[axis], window = a.window[axis];
  const int64_t skipped = begin >= 0 ? 0 : ceil_of(-begin, step);
  const auto below = [&](int64_t limit) {  // taps whose place is below `limit`
    return begin >= limit ? 0 : smaller(window, ceil_of(limit - begin, step));
  };
  taps.first = begin + skipped * step;
  taps.count = larger(0, below(size) - skipped);
  taps.padded = below(end);
  return taps;
}

// What a maximum starts from.
template <class T>
constexpr float kLowest = kMinusInfinity;
template <>
constexpr float kLowest<uint8_t> = 0.0f;
template <>
constexpr float kLowest<int8_t> = -128.0f;

// kVectors lanes of channels of one window.
template <bool kMax, int kVectors, class T>
HR_INLINE void pool_lanes(const T* x, int64_t row_step, int64_t column_step, const Taps& rows, const Taps& columns, float divisor,
                          T* out, int count) {
  Lanes acc[kVectors];
  for (int v = 0; v < kVectors; ++v) acc[v] = broadcast(kMax ? kLowest<T> : 0.0f);
  for (int64_t h = 0; h < rows.count; ++h) {
    const T* at = x + h * row_step;
    for (int64_t w = 0; w < columns.count; ++w, at += column_step) {
      for (int v = 0; v < kVectors; ++v) {
        const Lanes value = load_some(at + v * kLanes, kVectors == 1 ? count : kLanes);
        acc[v] = kMax ? max(acc[v], value) : acc[v] + value;
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    store_some(out + v * kLanes, kMax ? acc[v] : acc[v] / broadcast(divisor), kVectors == 1 ? count : kLanes);
  }
}

template <bool kMax, class T>
void run_kind(const Pool2dAttrs& a, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const int64_t channels = out.dims[3], out_rows = out.dims[0] * out.dims[1];
  if (out.elements() == 0) return;
  // Rows whole, or cut by channels where the team is larger than the rows.
  constexpr int64_t kGrain = 4 * kLanes;
  const int64_t grains = ceil_of(channels, kGrain);
  const int64_t pieces = smaller(grains, ceil_of(4 * team.size(), out_rows));
  for (int64_t claim; (claim = team.claim(out_rows * pieces)) >= 0;) {
    const int64_t piece = claim % pieces, oh = claim / pieces % out.dims[1], n = claim / pieces / out.dims[1];
    const int64_t begin = grains * piece / pieces * kGrain, end = smaller(channels, grains * (piece + 1) / pieces * kGrain);
    const Taps rows = taps_at(a, 0, x.dims[1], oh);
    const int64_t row_step = a.dilation[0] * x.strides[1], column_step = a.dilation[1] * x.strides[2];
    for (int64_t ow = 0; ow < out.dims[2]; ++ow) {
      const Taps columns = taps_at(a, 1, x.dims[2], ow);
      const float divisor = static_cast<float>(a.count_pads ? rows.padded * columns.padded : rows.count * columns.count);
      const T* from = x.as<T>() + n * x.strides[0] + rows.first * x.strides[1] + columns.first * x.strides[2];
      T* to = out.as<T>() + n * out.strides[0] + oh * out.strides[1] + ow * out.strides[2];
      int64_t c = begin;
      for (; c + kGrain <= end; c += kGrain) {
        pool_lanes<kMax, 4, T>(from + c, row_step, column_step, rows, columns, divisor, to + c, kLanes);
      }
      for (; c < end; c += kLanes) {
        const int count = static_cast<int>(smaller(kLanes, end - c));
        pool_lanes<kMax, 1, T>(from + c, row_step, column_step, rows, columns, divisor, to + c, count);
      }
    }
  }
}

void run_pool(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& a = args.attrs.as<Pool2dAttrs>();
  if (a.kind == Pool2dAttrs::Kind::max) {
    switch (args.inputs[0].tensor.dtype) {
      case DType::u8: return run_kind<true, uint8_t>(a, args, team);
      case DType::i8: return run_kind<true, int8_t>(a, args, team);
      default: return run_kind<true, float>(a, args, team);
    }
  }
  run_kind<false, float>(a, args, team);
}

constexpr Kernel kPool{.op = &ops::pool_2d, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_pool};

}  // namespace

const KernelList kernels_pool_2d = {&kPool, 1};
HR_END_KERNELS

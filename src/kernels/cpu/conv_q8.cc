// conv_q8: products of gathered windows by q8_tile.h, as conv.cc does them with floats; depthwise convolutions by themselves, in floats:
// up to 512 products of 8-bit numbers add up below 2^24, exactly.
#include "ops/conv_q8.h"

#include "kernels/cpu/q8_tile.h"

HR_BEGIN_KERNELS
namespace {

constexpr std::string_view kForm = kPanelWidth == 32 ? "conv_q8 panels of 32, groups" : "conv_q8 panels of 16, groups";

struct Sizes {
  const ops::ConvAttrs& attrs;
  int64_t channels, kh, kw;  // channels: of a group
  Q8Shape shape;

  template <class Dims>
  Sizes(const ops::ConvAttrs& a, const Dims& weight)
      : attrs(a), channels(weight(1)), kh(weight(2)), kw(weight(3)), shape{a.groups, channels * kh * kw, weight(0) / a.groups} {}

  bool depthwise() const { return channels == 1 && shape.columns == 1 && kh * kw <= 512; }
  int64_t depthwise_width() const { return ceil_of(attrs.groups, kPanelWidth) * kPanelWidth; }
  int64_t packed_bytes() const { return depthwise() ? kh * kw * depthwise_width() * 4 : shape.packed_bytes(); }
  int64_t scratch_bytes() const { return depthwise() ? packed_bytes() : shape.scratch_bytes(); }
};

Sizes sizes_of(const NodeSizes& sizes) {
  const Shape& weight = sizes.inputs[1].shape;
  return {sizes.attrs.as<ops::ConvQ8Attrs>().conv, [&](int axis) { return weight[axis].constant(); }};
}

// A weight [O, C / groups, KH, KW]; terms are (kh, kw, c).
struct Weight8 {
  const int8_t* data;
  int64_t channels, taps, columns;
  Weight8(const std::byte* bytes, const Sizes& s)
      : data(reinterpret_cast<const int8_t*>(bytes)), channels(s.channels), taps(s.kh * s.kw), columns(s.shape.columns) {}
  HR_INLINE int8_t operator()(int64_t group, int64_t column, int64_t term) const {
    return data[((group * columns + column) * channels + term % channels) * taps + term / channels];
  }
};

// [kh * kw][channels in whole panels] as floats.
void pack_depthwise(const Sizes& s, const std::byte* bytes, std::byte* out) {
  const int8_t* weight = reinterpret_cast<const int8_t*>(bytes);
  float* packed = reinterpret_cast<float*>(out);
  const int64_t taps = s.kh * s.kw, width = s.depthwise_width();
  for (int64_t tap = 0; tap < taps; ++tap, packed += width) {
    for (int64_t c = 0; c < width; ++c) packed[c] = c < s.attrs.groups ? static_cast<float>(weight[c * taps + tap]) : 0.0f;
  }
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  return static_cast<size_t>(team_size * sizes_of(sizes).scratch_bytes());
}

void pack(const NodeSizes& sizes, const std::byte* constant, std::byte* out) {
  const Sizes s = sizes_of(sizes);
  if (s.depthwise()) return pack_depthwise(s, constant, out);
  pack_all8(s.shape, out, Weight8(constant, s));
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Sizes s = sizes_of(setup.sizes);
  return ops::pack_constant(setup, 1, kForm, s.attrs.groups, static_cast<uint64_t>(s.packed_bytes()), pack);
}

void gather_windows(const Sizes& s, const TensorView& x, const TensorView& out, int zero, int64_t first, int64_t count, int64_t group,
                    uint8_t* to) {
  const ops::ConvAttrs& a = s.attrs;
  const auto bytes = static_cast<size_t>(s.channels);
  for (int64_t pixel = first; pixel < first + count; ++pixel, to += s.shape.window_stride()) {
    const int64_t ow = pixel % out.dims[2], oh = pixel / out.dims[2] % out.dims[1], n = pixel / out.dims[2] / out.dims[1];
    uint8_t* at = to;
    for (int64_t kh = 0; kh < s.kh; ++kh) {
      const int64_t h = oh * a.stride[0] - a.pads[0] + kh * a.dilation[0];
      for (int64_t kw = 0; kw < s.kw; ++kw, at += s.channels) {
        const int64_t w = ow * a.stride[1] - a.pads[1] + kw * a.dilation[1];
        if (h < 0 || h >= x.dims[1] || w < 0 || w >= x.dims[2]) {
          __builtin_memset(at, zero, bytes);
        } else {
          const uint8_t* image = x.as<uint8_t>() + n * x.strides[0] + h * x.strides[1] + w * x.strides[2];
          __builtin_memcpy(at, image + group * s.channels, bytes);
        }
      }
    }
  }
}

void run_windows(const Sizes& s, const ops::Q8ProductAttrs& q8, const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &out = args.outputs[0].tensor;
  const bool pointwise = s.channels % 4 == 0 && is_pointwise(s.attrs, s.kh, s.kw, x);
  const auto windows_of = [&](int64_t first, int64_t count, int64_t group, uint8_t* buffer) -> Rows8 {
    if (pointwise) return {x.as<uint8_t>() + row_offset(x, first) + group * s.channels, x.strides[2]};
    gather_windows(s, x, out, q8.x_zero & 255, first, count, group, buffer);
    return {buffer, s.shape.window_stride()};
  };
  run_q8(s.shape, q8, args, team, windows_of, Weight8(args.inputs[1].tensor.as<std::byte>(), s));
}

// One window of a panel of channels.
template <class T>
HR_INLINE void depthwise_window(const Sizes& s, const TensorView& x, const float* weight, Lanes zero, int64_t n, int64_t oh, int64_t ow,
                                int64_t channel, int columns, float* sums) {
  const ops::ConvAttrs& a = s.attrs;
  Lanes acc[kPanelLanes];
  for (int c = 0; c < kPanelLanes; ++c) acc[c] = broadcast(0.0f);
  for (int64_t kh = 0; kh < s.kh; ++kh) {
    const int64_t h = oh * a.stride[0] - a.pads[0] + kh * a.dilation[0];
    if (h < 0 || h >= x.dims[1]) continue;
    for (int64_t kw = 0; kw < s.kw; ++kw) {
      const int64_t w = ow * a.stride[1] - a.pads[1] + kw * a.dilation[1];
      if (w < 0 || w >= x.dims[2]) continue;
      const T* from = x.as<T>() + n * x.strides[0] + h * x.strides[1] + w * x.strides[2] + channel;
      const float* tap = weight + (kh * s.kw + kw) * s.depthwise_width() + channel;
      for (int c = 0; c < kPanelLanes; ++c) {
        const int left = columns - c * kLanes;
        if (left <= 0) break;
        const Lanes numbers = load_some(from + c * kLanes, left < kLanes ? left : kLanes) - zero;
        acc[c] = mul_add(numbers, load(tap + c * kLanes), acc[c]);
      }
    }
  }
  for (int c = 0; c < kPanelLanes; ++c) store(sums + c * kLanes, acc[c]);
}

template <class T>
void run_depthwise(const Sizes& s, const ops::Q8ProductAttrs& q8, const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &out = args.outputs[0].tensor;
  const EpilogueArgs epilogue(q8.epilogue, args, 3);
  const int64_t channels = out.dims[3], rows = out.dims[0] * out.dims[1], panels = panels_of(channels);
  if (rows * out.dims[2] * channels == 0) return;
  const std::byte* packed = packed_of(args);
  if (packed == nullptr) {
    std::byte* mine = args.scratch + team.rank() * s.scratch_bytes();
    pack_depthwise(s, args.inputs[1].tensor.as<std::byte>(), mine);
    packed = mine;
  }
  const Lanes zero = broadcast(static_cast<float>(q8.x_zero));
  alignas(64) float sums[kPanelWidth];
  for (int64_t claim; (claim = team.claim(rows * panels)) >= 0;) {
    const int64_t row = claim / panels, channel = claim % panels * kPanelWidth;
    const int columns = static_cast<int>(smaller(kPanelWidth, channels - channel));
    Finish8 f{.scale = args.inputs[2].tensor.as<float>() + channel,
              .finish = epilogue.finish_at(channel),
              .y = q8.y ? &*q8.y : nullptr,
              .out = nullptr,
              .out_stride = 0};
    for (int64_t ow = 0; ow < out.dims[2]; ++ow) {
      depthwise_window<T>(s, x, reinterpret_cast<const float*>(packed), zero, row / out.dims[1], row % out.dims[1], ow, channel, columns,
                          sums);
      const int64_t pixel = row * out.dims[2] + ow;
      f.out = out.as<std::byte>() + (row_offset(out, pixel) + channel) * (q8.y ? 1 : 4);
      if (epilogue.residual != nullptr) {
        f.finish.residual = epilogue.residual->as<float>() + row_offset(*epilogue.residual, pixel) + channel;
      }
      finish_rows8(f, sums, 1, columns);
    }
  }
}

void run(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::ConvQ8Attrs>();
  const TensorView& weight = args.inputs[1].tensor;
  const Sizes s(attrs.conv, [&](int axis) { return weight.dims[axis]; });
  if (!s.depthwise()) return run_windows(s, attrs.q8, args, team);
  with_8_bits(args.inputs[0].tensor.dtype, [&]<class T>(T) { run_depthwise<T>(s, attrs.q8, args, team); });
}

constexpr Kernel kConv = packing_kernel(ops::conv_q8, scratch_bytes, prepare, run);

}  // namespace

const KernelList kernels_conv_q8 = {&kConv, 1};
HR_END_KERNELS

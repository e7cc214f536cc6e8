// conv, conv_transpose: products of gathered windows with packed weights; depthwise convolutions by themselves.
//
// A claim is a block of output pixels x some panels of a group's output channels. The windows of its pixels are copied into rows of
// (kh, kw, c), zeros where they leave the image: one copy for as many multiply-adds as there are output channels. A 1x1 convolution
// reads its image as it stands. Constant weights are packed once, others panel by panel where they are used.
//
// Depthwise, a claim is an output row. Per tap and 16 channels it multiplies one line of the image for each pixel, with weights shared
// by kPixels pixels: 1.25 lines from L1 a multiply-add, and memory (each image row read once, it stays in L2 for the windows below)
// is the bound.
#include "ops/conv.h"

#include "kernels/cpu/product_tile.h"

HR_BEGIN_KERNELS
namespace {

// What packed weights depend on beyond their type and groups.
constexpr std::string_view kForm = kPanelWidth == 32 ? "conv panels of 32, groups" : "conv panels of 16, groups";
constexpr std::string_view kTransposeForm =
    kPanelWidth == 32 ? "conv_transpose panels of 32, groups" : "conv_transpose panels of 16, groups";

// Sizes of one node, from types (prepare, scratch) or from views (run).
struct Sizes {
  const ops::ConvAttrs& attrs;
  bool transpose;
  int64_t channels, out_channels, kh, kw;  // channels: of one group, in and out

  template <class Dims>
  Sizes(const ops::ConvAttrs& a, bool transposed, const Dims& weight) : attrs(a), transpose(transposed) {
    const int64_t outer = weight(0) / a.groups, inner = weight(1);
    channels = transposed ? outer : inner;
    out_channels = transposed ? inner : outer;
    kh = weight(2);
    kw = weight(3);
  }
  int64_t terms() const { return kh * kw * channels; }
  bool depthwise() const { return !transpose && channels == 1 && out_channels == 1; }
  int64_t packed_floats() const {
    if (depthwise()) return kh * kw * ceil_of(attrs.groups, kLanes) * kLanes;
    return attrs.groups * panels_of(out_channels) * terms() * kPanelWidth;
  }
  // Pixels of a claim: windows of a megabyte at most.
  int64_t block_pixels() const {
    return larger(kMaxTileRows, smaller(4 * kMaxTileRows, (1 << 18) / larger(1, terms())));
  }
  // One member's scratch.
  int64_t scratch_floats() const {
    if (depthwise()) return packed_floats();
    return kChunkTerms * kPanelWidth + ceil_of(block_pixels() * terms(), kLanes) * kLanes;
  }
};

// Terms [first, first + terms) of the panel of out channels [channel, ...) of a group.
void pack_panel(const Sizes& s, const float* weight, int64_t group, int64_t channel, int64_t first, int64_t terms, float* panel) {
  const int64_t taps = s.kh * s.kw;
  const int columns = static_cast<int>(smaller(kPanelWidth, s.out_channels - channel));
  for (int64_t i = 0; i < terms; ++i, panel += kPanelWidth) {
    const int64_t tap = (first + i) / s.channels, c = (first + i) % s.channels;
    for (int o = 0; o < columns; ++o) {
      const int64_t row = s.transpose ? (group * s.channels + c) * s.out_channels + channel + o
                                      : (group * s.out_channels + channel + o) * s.channels + c;
      panel[o] = weight[row * taps + tap];
    }
    for (int o = columns; o < kPanelWidth; ++o) panel[o] = 0.0f;
  }
}

// [kh * kw][groups in whole lanes]
void pack_depthwise(const Sizes& s, const float* weight, float* packed) {
  const int64_t taps = s.kh * s.kw, width = ceil_of(s.attrs.groups, kLanes) * kLanes;
  for (int64_t tap = 0; tap < taps; ++tap, packed += width) {
    for (int64_t c = 0; c < width; ++c) packed[c] = c < s.attrs.groups ? weight[c * taps + tap] : 0.0f;
  }
}

void pack_all(const Sizes& s, const float* weight, float* packed) {
  if (s.depthwise()) return pack_depthwise(s, weight, packed);
  for (int64_t group = 0; group < s.attrs.groups; ++group) {
    for (int64_t channel = 0; channel < s.out_channels; channel += kPanelWidth, packed += s.terms() * kPanelWidth) {
      pack_panel(s, weight, group, channel, 0, s.terms(), packed);
    }
  }
}

template <bool transpose>
Sizes sizes_of(const NodeSizes& sizes) {
  const Shape& weight = sizes.inputs[1].shape;
  return {sizes.attrs.as<ops::ConvAttrs>(), transpose, [&](int axis) { return weight[axis].eval(sizes.bindings); }};
}

template <bool transpose>
size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  return static_cast<size_t>(team_size * sizes_of<transpose>(sizes).scratch_floats()) * sizeof(float);
}

template <bool transpose>
Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Sizes s = sizes_of<transpose>(setup.sizes);
  const uint64_t bytes = static_cast<uint64_t>(s.packed_floats()) * sizeof(float);
  const auto pack = [](const NodeSizes& sizes, const std::byte* constant, std::byte* out) {
    pack_all(sizes_of<transpose>(sizes), reinterpret_cast<const float*>(constant), reinterpret_cast<float*>(out));
  };
  return ops::pack_constant(setup, 1, transpose ? kTransposeForm : kForm, s.attrs.groups, bytes, pack);
}

// ---- products of windows ------------------------------------------------------------------------

// The image place of a tap, or -1 outside.
HR_INLINE int64_t place_of(const Sizes& s, int axis, int64_t out, int64_t tap, int64_t size) {
  const ops::ConvAttrs& a = s.attrs;
  if (!s.transpose) {
    const int64_t at = out * a.stride[axis] - a.pads[axis] + tap * a.dilation[axis];
    return at < size ? at : -1;
  }
  const int64_t at = out + a.pads[axis] - tap * a.dilation[axis];
  if (at < 0 || at % a.stride[axis] != 0) return -1;
  return at / a.stride[axis] < size ? at / a.stride[axis] : -1;
}

void gather_windows(const Sizes& s, const TensorView& x, const TensorView& out, int64_t first, int64_t count, int64_t group, float* to) {
  for (int64_t pixel = first; pixel < first + count; ++pixel) {
    const int64_t ow = pixel % out.dims[2], oh = pixel / out.dims[2] % out.dims[1], n = pixel / out.dims[2] / out.dims[1];
    for (int64_t kh = 0; kh < s.kh; ++kh) {
      const int64_t h = place_of(s, 0, oh, kh, x.dims[1]);
      for (int64_t kw = 0; kw < s.kw; ++kw, to += s.channels) {
        const int64_t w = h < 0 ? -1 : place_of(s, 1, ow, kw, x.dims[2]);
        if (w < 0) {
          over_row(s.channels, [&](int64_t i, int lanes) { store_some(to + i, zero(), lanes); });
          continue;
        }
        const float* from = x.as<float>() + n * x.strides[0] + h * x.strides[1] + w * x.strides[2] + group * s.channels;
        over_row(s.channels, [&](int64_t i, int lanes) { store_some(to + i, load_some(from + i, lanes), lanes); });
      }
    }
  }
}

void run_windows(const Sizes& s, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const EpilogueArgs epilogue(s.attrs.epilogue, args, 2);
  const float* packed = reinterpret_cast<const float*>(packed_of(args));
  const float* weight = args.inputs[1].tensor.as<float>();
  // A block of pixels lies in one row of the output unless its rows follow each other.
  const bool follow = rows_follow(out) && (epilogue.residual == nullptr || rows_follow(*epilogue.residual));
  const int64_t run_pixels = follow ? out.dims[0] * out.dims[1] * out.dims[2] : out.dims[2];
  const int64_t runs = follow ? 1 : out.dims[0] * out.dims[1];
  const int64_t terms = s.terms(), panels = panels_of(s.out_channels), pixels = s.block_pixels();
  const int64_t blocks = ceil_of(run_pixels, pixels), groups = s.attrs.groups;
  if (out.elements() == 0) return;
  const int64_t parts = smaller(panels, ceil_of(4 * team.size(), runs * blocks * groups));
  float* panel = reinterpret_cast<float*>(args.scratch) + team.rank() * s.scratch_floats();
  float* windows = panel + kChunkTerms * kPanelWidth;
  const bool pointwise = is_pointwise(s.attrs, s.kh, s.kw, x);
  int64_t gathered = -1;

  for (int64_t claim; (claim = team.claim(runs * blocks * groups * parts)) >= 0;) {
    const int64_t part = claim % parts, group = claim / parts % groups, block = claim / parts / groups;
    const int64_t run = block / blocks, first = run * run_pixels + block % blocks * pixels;
    const int64_t count = smaller(pixels, (run + 1) * run_pixels - first);
    const float* rows = windows;
    if (pointwise) {
      rows = x.as<float>() + first * x.strides[2] + group * s.channels;
    } else if (gathered != claim / parts) {
      gathered = claim / parts;
      gather_windows(s, x, out, first, count, group, windows);
    }
    const auto at = [&](const TensorView& view) { return view.as<float>() + row_offset(view, first); };
    for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
      const int64_t channel = group * s.out_channels + p * kPanelWidth;
      Finish finish = epilogue.finish_at(channel);
      if (epilogue.residual != nullptr) {
        finish.residual = at(*epilogue.residual) + channel;
        finish.residual_stride = epilogue.residual->strides[2];
      }
      const Product product{.a = rows,
                            .a_stride = pointwise ? x.strides[2] : terms,
                            .terms = terms,
                            .out = at(out) + channel,
                            .out_stride = out.strides[2],
                            .columns = static_cast<int>(smaller(kPanelWidth, s.out_channels - p * kPanelWidth))};
      multiply_chunks(product, finish, count, [&](int64_t first_term, int64_t chunk) -> const float* {
        if (packed != nullptr) return packed + ((group * panels + p) * terms + first_term) * kPanelWidth;
        pack_panel(s, weight, group, p * kPanelWidth, first_term, chunk, panel);
        return panel;
      });
    }
  }
}

// ---- depthwise ----------------------------------------------------------------------------------

constexpr int kPixels = kIsa == Isa::avx512 ? 8 : kIsa == Isa::avx2 ? 4 : 2;

// Taps [first, first + count) of an axis lie inside the image at output index `out`.
struct Inside {
  int64_t first, count;
};
Inside inside_of(const ops::ConvAttrs& a, int axis, int64_t taps, int64_t size, int64_t out) {
  const int64_t begin = out * a.stride[axis] - a.pads[axis], step = a.dilation[axis];
  const int64_t first = begin >= 0 ? 0 : smaller(taps, ceil_of(-begin, step));
  const int64_t end = begin >= size ? 0 : smaller(taps, ceil_of(size - begin, step));
  return {first, end > first ? end - first : 0};
}

struct Window {
  const float* x;  // its first tap inside the image
  int64_t row_step, column_step, pixel_step;
  int64_t rows, columns;
  const float* weight;  // of that tap
  int64_t weight_row, weight_column;
};

// kCount pixels of a row, `lanes` channels.
template <int kCount, bool kWhole>
HR_INLINE void multiply_pixels(const Window& w, Lanes bias, const float* residual, int64_t residual_step, Lanes low, Lanes high, float* out,
                               int64_t out_step, int lanes) {
  if (kWhole) lanes = kLanes;
  Lanes acc[kCount];
  for (int p = 0; p < kCount; ++p) acc[p] = bias;
  for (int64_t kh = 0; kh < w.rows; ++kh) {
    const float* x = w.x + kh * w.row_step;
    const float* weight = w.weight + kh * w.weight_row;
    for (int64_t kw = 0; kw < w.columns; ++kw, x += w.column_step, weight += w.weight_column) {
      const Lanes tap = load(weight);
      for (int p = 0; p < kCount; ++p) acc[p] = mul_add(load_some(x + p * w.pixel_step, lanes), tap, acc[p]);
    }
  }
  for (int p = 0; p < kCount; ++p) {
    if (residual != nullptr) acc[p] = acc[p] + load_some(residual + p * residual_step, lanes);
    store_some(out + p * out_step, min(high, max(low, acc[p])), lanes);
  }
}

void run_depthwise(const Sizes& s, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const ops::ConvAttrs& a = s.attrs;
  const EpilogueArgs epilogue(a.epilogue, args, 2);
  if (out.elements() == 0) return;
  const float* weight = reinterpret_cast<const float*>(packed_of(args));
  if (weight == nullptr) {
    float* mine = reinterpret_cast<float*>(args.scratch) + team.rank() * s.scratch_floats();
    pack_depthwise(s, args.inputs[1].tensor.as<float>(), mine);
    weight = mine;
  }
  const int64_t channels = out.dims[3], weight_width = ceil_of(channels, kLanes) * kLanes;
  const int64_t out_rows = out.dims[0] * out.dims[1];
  // Rows whole, or cut by channels where the team is larger than the rows.
  const int64_t pieces = smaller(ceil_of(channels, kLanes), ceil_of(4 * team.size(), out_rows));
  // Pixels [begin, end) whose windows lie inside the image's width.
  const int64_t reach = (s.kw - 1) * a.dilation[1];
  const int64_t begin = smaller(out.dims[2], ceil_of(a.pads[1], a.stride[1]));
  const int64_t room = x.dims[2] - 1 - reach + a.pads[1];
  const int64_t end = larger(begin, smaller(out.dims[2], room < 0 ? 0 : room / a.stride[1] + 1));
  const Lanes low = broadcast(epilogue.low), high = broadcast(epilogue.high);

  for (int64_t claim; (claim = team.claim(out_rows * pieces)) >= 0;) {
    const int64_t piece = claim % pieces, oh = claim / pieces % out.dims[1], n = claim / pieces / out.dims[1];
    const int64_t grains = ceil_of(channels, kLanes);
    const int64_t first = grains * piece / pieces * kLanes, last = smaller(channels, grains * (piece + 1) / pieces * kLanes);
    const Inside rows = inside_of(a, 0, s.kh, x.dims[1], oh);
    const float* image = x.as<float>() + n * x.strides[0] + (oh * a.stride[0] - a.pads[0] + rows.first * a.dilation[0]) * x.strides[1];
    float* to = out.as<float>() + n * out.strides[0] + oh * out.strides[1];
    const float* residual = nullptr;
    int64_t residual_step = 0;
    if (epilogue.residual != nullptr) {
      residual = epilogue.residual->as<float>() + n * epilogue.residual->strides[0] + oh * epilogue.residual->strides[1];
      residual_step = epilogue.residual->strides[2];
    }
    const auto pixels = [&]<int kCount>(int64_t ow) __attribute__((always_inline)) {
      const Inside columns = kCount > 1 ? Inside{0, s.kw} : inside_of(a, 1, s.kw, x.dims[2], ow);
      const int64_t place = ow * a.stride[1] - a.pads[1] + columns.first * a.dilation[1];
      Window window{image + place * x.strides[2], a.dilation[0] * x.strides[1], a.dilation[1] * x.strides[2],
                    a.stride[1] * x.strides[2], rows.count, columns.count,
                    weight + (rows.first * s.kw + columns.first) * weight_width, s.kw * weight_width, weight_width};
      window.x += first;
      window.weight += first;
      for (int64_t c = first; c < last; c += kLanes, window.x += kLanes, window.weight += kLanes) {
        const int lanes = static_cast<int>(smaller(kLanes, last - c));
        const Lanes bias = epilogue.bias == nullptr ? zero() : load_some(epilogue.bias + c, lanes);
        const float* add = residual == nullptr ? nullptr : residual + ow * residual_step + c;
        float* pixel = to + ow * out.strides[2] + c;
        if (lanes == kLanes) {
          multiply_pixels<kCount, true>(window, bias, add, residual_step, low, high, pixel, out.strides[2], lanes);
        } else {
          multiply_pixels<kCount, false>(window, bias, add, residual_step, low, high, pixel, out.strides[2], lanes);
        }
      }
    };
    int64_t ow = 0;
    for (; ow < begin; ++ow) pixels.template operator()<1>(ow);
    for (; ow + kPixels <= end; ow += kPixels) pixels.template operator()<kPixels>(ow);
    for (; kPixels > 4 && ow + 4 <= end; ow += 4) pixels.template operator()<4>(ow);
    for (; ow + 2 <= end; ow += 2) pixels.template operator()<2>(ow);
    for (; ow < out.dims[2]; ++ow) pixels.template operator()<1>(ow);
    if (epilogue.activation != nullptr) {
      activate_rows(*epilogue.activation, to + first, out.strides[2], out.dims[2], static_cast<int>(last - first));
    }
  }
}

template <bool transpose>
void run_conv(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& weight = args.inputs[1].tensor;
  const Sizes s(args.attrs.as<ops::ConvAttrs>(), transpose, [&](int axis) { return weight.dims[axis]; });
  if (s.depthwise()) {
    run_depthwise(s, args, team);
  } else {
    run_windows(s, args, team);
  }
}

constexpr Kernel kConv = packing_kernel(ops::conv, scratch_bytes<false>, prepare<false>, run_conv<false>);
constexpr Kernel kTranspose = packing_kernel(ops::conv_transpose, scratch_bytes<true>, prepare<true>, run_conv<true>);

}  // namespace

const KernelList kernels_conv = {&kConv, 1};
const KernelList kernels_conv_transpose = {&kTranspose, 1};
HR_END_KERNELS

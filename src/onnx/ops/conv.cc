// Convolutions: plain, transposed, deformable, integer and quantized, each as products of matrices over blocks of positions;
// Col2Im.
#include "onnx/ops/matmul.h"
#include "onnx/ops/window.h"

namespace headrace::onnx {
namespace {

// Positions at a time: the gathered columns of a block stay small.
int64_t block_of(int64_t rows) { return std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(rows, 1), 16, 4096); }

struct ConvShape {
  Window window;
  int64_t batch = 0, channels = 0, results = 0, group = 1;
  Dims output;
};

// `w` [results, channels / group, kernel...].
Result<ConvShape> conv_shape(const OpContext& context, const Dims& x, const Dims& w) {
  if (x.size() < 3 || w.size() != x.size()) {
    return error(Code::malformed, "want X and W of one rank from 3 on, got dims [{}] and [{}]", fmt::join(x, ", "),
                 fmt::join(w, ", "));
  }
  ConvShape shape;
  HR_ASSIGN_OR_RETURN(shape.group, context.integer("group", 1));
  shape.batch = x[0];
  shape.channels = x[1];
  shape.results = w[0];
  if (shape.group < 1 || shape.group > std::max<int64_t>(shape.channels, 1) || shape.channels % shape.group != 0 ||
      shape.results % shape.group != 0 || w[1] != shape.channels / shape.group) {
    return error(Code::malformed, "group {}: X has {} channels, W dims [{}]", shape.group, shape.channels, fmt::join(w, ", "));
  }
  HR_ASSIGN_OR_RETURN(shape.window, make_window(context, std::span(x).subspan(2), Dims(w.begin() + 2, w.end())));
  shape.output = {shape.batch, shape.results};
  shape.output.insert(shape.output.end(), shape.window.output.begin(), shape.window.output.end());
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, count_elements(shape.output));
  return shape;
}

// gather(batch, channel, first, count, columns) fills [taps, count] of what the taps read. `y` must be zero.
template <class W, class Gather>
void convolve(const ConvShape& shape, const W* w, W* y, Gather&& gather) {
  const int64_t taps = shape.window.taps(), positions = shape.window.positions(), inner = shape.channels / shape.group,
                results = shape.results / shape.group, rows = inner * taps;
  if (shape.batch == 0 || positions == 0 || results == 0 || rows == 0) return;
  const int64_t block = std::min(block_of(rows), positions);
  std::vector<W> columns(static_cast<size_t>(rows * block)), product;
  for (int64_t first = 0; first < positions; first += block) {
    const int64_t count = std::min(block, positions - first);
    for (int64_t n = 0; n < shape.batch; ++n) {
      for (int64_t g = 0; g < shape.group; ++g) {
        for (int64_t c = 0; c < inner; ++c) gather(n, g * inner + c, first, count, columns.data() + c * taps * count);
        product.assign(static_cast<size_t>(results * count), W{0});
        gemm_add(results, count, rows, w + g * results * rows, columns.data(), product.data());
        for (int64_t m = 0; m < results; ++m) {
          std::copy_n(product.data() + m * count, count, y + (n * shape.results + g * results + m) * positions + first);
        }
      }
    }
  }
}

template <class W>
void plain_convolve(const ConvShape& shape, const W* x, const W* w, W* y) {
  const int64_t size = product(shape.window.input), taps = shape.window.taps();
  std::vector<int64_t> offsets;
  int64_t known_first = -1;
  convolve<W>(shape, w, y, [&](int64_t n, int64_t c, int64_t first, int64_t count, W* to) {
    if (first != known_first) tap_offsets(shape.window, first, count, offsets);
    known_first = first;
    const W* from = x + (n * shape.channels + c) * size;
    for (int64_t i = 0; i < taps * count; ++i) {
      const int64_t at = offsets[static_cast<size_t>(i)];
      to[i] = at < 0 ? W{0} : from[at];
    }
  });
}

// y [batch, results, positions] += bias [results]
template <class W>
void add_bias(std::vector<W>& y, const W* bias, int64_t batch, int64_t results, int64_t positions) {
  if (y.empty()) return;
  W* to = y.data();
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t m = 0; m < results; ++m) {
      for (int64_t i = 0; i < positions; ++i) *to++ += bias[m];
    }
  }
}

Status conv(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* w, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*x, *w));
  HR_ASSIGN_OR_RETURN(const ConvShape shape, conv_shape(context, x->dims(), w->dims()));
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> weights, Numbers<W>::of(*w));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, shape.output));
    plain_convolve(shape, from.data(), weights.data(), y.data());
    if (context.has_input(2)) {
      HR_RETURN_IF_ERROR(want_dims(*context.value(2).tensor(), {shape.results}, "B"));
      add_bias(y, bias.data(), shape.batch, shape.results, shape.window.positions());
    }
    return put(context, 0, x->dtype(), shape.output, y);
  });
}

// Eight-bit elements less their zero points, of which there is one or one for each row of the first axis.
Result<std::vector<uint32_t>> shifted(const OpContext& context, int index, int zero_index, bool by_row) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  std::vector<int32_t> zeros = {0};
  if (context.has_input(zero_index)) {
    HR_ASSIGN_OR_RETURN(const Tensor* zero, context.input(zero_index));
    HR_RETURN_IF_ERROR(same_type(*tensor, *zero));
    if (zero->elements() != 1 && !(by_row && tensor->rank() > 0 && zero->elements() == tensor->dim(0))) {
      return error(Code::malformed, "input {}: {} zero points", zero_index, zero->elements());
    }
    dispatch<int8_t, uint8_t>(zero->dtype(),
                              [&]<class T>() { zeros.assign(zero->values<T>().begin(), zero->values<T>().end()); });
  }
  std::vector<uint32_t> values(static_cast<size_t>(tensor->elements()));
  const int64_t per_zero = tensor->elements() / static_cast<int64_t>(std::max<size_t>(zeros.size(), 1));
  const bool known = dispatch<int8_t, uint8_t>(tensor->dtype(), [&]<class T>() {
    const T* from = tensor->data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<uint32_t>(static_cast<int32_t>(from[i]) - zeros[i / static_cast<size_t>(per_zero)]);
    }
  });
  if (!known) return tl::unexpected<Status>(unknown_type(tensor->dtype()));
  return values;
}

// Sums in 32 bits that wrap around.
Result<std::vector<uint32_t>> integer_conv(OpContext& context, int x, int x_zero, int w, int w_zero, ConvShape& shape) {
  HR_ASSIGN_OR_RETURN(const std::vector<uint32_t> from, shifted(context, x, x_zero, false));
  HR_ASSIGN_OR_RETURN(const std::vector<uint32_t> weights, shifted(context, w, w_zero, true));
  HR_ASSIGN_OR_RETURN(shape, conv_shape(context, context.value(x).tensor()->dims(), context.value(w).tensor()->dims()));
  HR_ASSIGN_OR_RETURN(std::vector<uint32_t> y, buffer<uint32_t>(context, shape.output));
  plain_convolve(shape, from.data(), weights.data(), y.data());
  return y;
}

Status conv_integer(OpContext& context) {
  ConvShape shape;
  HR_ASSIGN_OR_RETURN(const std::vector<uint32_t> y, integer_conv(context, 0, 2, 1, 3, shape));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::i32, shape.output));
  std::ranges::transform(y, output->data<int32_t>(), [](uint32_t value) { return static_cast<int32_t>(value); });
  return {};
}

Status qlinear_conv(OpContext& context) {
  ConvShape shape;
  HR_ASSIGN_OR_RETURN(std::vector<uint32_t> y, integer_conv(context, 0, 2, 3, 5, shape));
  const int64_t positions = shape.window.positions();
  if (context.has_input(8)) {
    HR_ASSIGN_OR_RETURN(const Tensor* bias, context.input(8));
    if (bias->dtype() != DType::i32) return unknown_type(bias->dtype());
    HR_RETURN_IF_ERROR(want_dims(*bias, {shape.results}, "B"));
    add_bias(y, reinterpret_cast<const uint32_t*>(bias->data<int32_t>()), shape.batch, shape.results, positions);
  }
  HR_ASSIGN_OR_RETURN(const Numbers<float> x_scale, numbers<float>(context, 1));
  HR_ASSIGN_OR_RETURN(const Numbers<float> w_scale, numbers<float>(context, 4));
  HR_ASSIGN_OR_RETURN(const Numbers<float> y_scale, numbers<float>(context, 6));
  HR_ASSIGN_OR_RETURN(const Tensor* zero, context.input(7));
  const int64_t w_scales = context.value(4).tensor()->elements();
  if (context.value(1).tensor()->elements() != 1 || context.value(6).tensor()->elements() != 1 || zero->elements() != 1 ||
      (w_scales != 1 && w_scales != shape.results)) {
    return make_status(Code::malformed, "want one scale and zero point of x and of y, and one or {} of w", shape.results);
  }
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, zero->dtype(), shape.output));
  return typed(dispatch<int8_t, uint8_t>(zero->dtype(),
                                         [&]<class T>() {
                                           auto from = y.begin();
                                           T* to = output->data<T>();
                                           for (int64_t row = 0; !y.empty() && row < shape.batch * shape.results; ++row) {
                                             const float scale =
                                                 x_scale[0] * w_scale[w_scales == 1 ? 0 : row % shape.results] / y_scale[0];
                                             for (int64_t i = 0; i < positions; ++i) {
                                               *to++ = quantize<T>(static_cast<float>(static_cast<int32_t>(*from++)) * scale,
                                                                   *zero->data<T>());
                                             }
                                           }
                                         }),
               zero->dtype());
}

// The window of the convolution that this one transposes: its input is our output and the other way round.
Result<Window> transposed_window(const NodeReader& context, std::span<const int64_t> spatial, const Dims& kernel) {
  HR_ASSIGN_OR_RETURN(Window window, window_attributes(context, spatial, kernel));
  HR_ASSIGN_OR_RETURN(const std::string mode, auto_pad_of(context));
  const size_t rank = window.rank();
  HR_ASSIGN_OR_RETURN(const Dims more, per_axis(context, "output_padding", rank, 0, 0));
  Dims wanted;
  if (context.has("output_shape")) {
    HR_ASSIGN_OR_RETURN(wanted, context.integers("output_shape", {}));
    // Some writers put batch and channels in front.
    if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    const bool fits = std::ranges::all_of(wanted, [](int64_t length) { return length >= 0 && length <= kMaxElements; });
    if (wanted.size() != rank || !fits) {
      return error(Code::malformed, "output_shape: want {} numbers from 0 to {}, got [{}]", rank, kMaxElements, fmt::join(wanted, ", "));
    }
  }
  window.output = window.input;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t in = window.input[i], stride = window.strides[i];
    const int64_t whole = stride * (in - 1) + more[i] + window.extent(i);
    if (!wanted.empty() || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      window.input[i] = wanted.empty() ? in * stride : wanted[i];
      const int64_t pad = std::max<int64_t>(0, whole - window.input[i]);
      window.begin[i] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
    } else {
      if (mode == "VALID") window.begin[i] = window.end[i] = 0;
      window.input[i] = whole - window.begin[i] - window.end[i];
    }
    if (window.input[i] < 1 && in > 0) return error(Code::malformed, "spatial axis {}: an output of {}", i, window.input[i]);
    window.input[i] = std::max<int64_t>(window.input[i], 0);
  }
  return window;
}

Status conv_transpose(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* w, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*x, *w));
  if (x->rank() < 3 || w->rank() != x->rank()) {
    return make_status(Code::malformed, "want X and W of one rank from 3 on, got dims [{}] and [{}]",
                       fmt::join(x->dims(), ", "), fmt::join(w->dims(), ", "));
  }
  HR_ASSIGN_OR_RETURN(const int64_t group, context.integer("group", 1));
  const int64_t batch = x->dim(0), channels = x->dim(1);
  if (group < 1 || group > std::max<int64_t>(channels, 1) || channels % group != 0 || w->dim(0) != channels) {
    return make_status(Code::malformed, "group {}: X has {} channels, W dims [{}]", group, channels,
                       fmt::join(w->dims(), ", "));
  }
  const int64_t inner = channels / group, results = w->dim(1);
  HR_ASSIGN_OR_RETURN(const Window window, transposed_window(context, std::span(x->dims()).subspan(2),
                                                             Dims(w->dims().begin() + 2, w->dims().end())));
  Dims dims = {batch, results};
  dims.insert(dims.end(), window.input.begin(), window.input.end());
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t in_one_group, count_elements(dims));
  dims[1] *= group;
  const int64_t taps = window.taps(), size = product(window.input), positions = window.positions(), rows = results * taps;
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> weights, Numbers<W>::of(*w));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    if (!y.empty() && x->elements() > 0) {
      // For each group [results * taps, inner]: what a position adds to its taps.
      std::vector<W> turned(static_cast<size_t>(w->elements()));
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
          turned[static_cast<size_t>((c / inner * rows + r) * inner + c % inner)] = weights[c * rows + r];
        }
      }
      const int64_t block = std::min(block_of(rows), positions);
      std::vector<W> columns, block_x;
      std::vector<int64_t> offsets;
      for (int64_t first = 0; first < positions; first += block) {
        const int64_t count = std::min(block, positions - first);
        tap_offsets(window, first, count, offsets);
        for (int64_t n = 0; n < batch; ++n) {
          for (int64_t g = 0; g < group; ++g) {
            block_x.resize(static_cast<size_t>(inner * count));
            for (int64_t c = 0; c < inner; ++c) {
              std::copy_n(from.data() + (n * channels + g * inner + c) * positions + first, count, block_x.data() + c * count);
            }
            columns.assign(static_cast<size_t>(rows * count), W{0});
            gemm_add(rows, count, inner, turned.data() + g * rows * inner, block_x.data(), columns.data());
            for (int64_t m = 0; m < results; ++m) {
              W* to = y.data() + (n * results * group + g * results + m) * size;
              const W* add = columns.data() + m * taps * count;
              for (int64_t i = 0; i < taps * count; ++i) {
                const int64_t at = offsets[static_cast<size_t>(i)];
                if (at >= 0) to[at] += add[i];
              }
            }
          }
        }
      }
    }
    if (context.has_input(2)) {
      HR_RETURN_IF_ERROR(want_dims(*context.value(2).tensor(), {dims[1]}, "B"));
      add_bias(y, bias.data(), batch, dims[1], size);
    }
    return put(context, 0, x->dtype(), dims, y);
  });
}

// Linear interpolation at a point of a grid of `dims`; what lies outside is zero.
template <class W>
W sample_linear(const W* from, const Dims& dims, const Dims& steps, const std::vector<W>& point) {
  const size_t rank = dims.size();
  std::array<int64_t, 8> low{};
  std::array<W, 8> part{};
  for (size_t i = 0; i < rank; ++i) {
    if (!(point[i] > -1 && point[i] < static_cast<W>(dims[i]))) return 0;
    const W floor = std::floor(point[i]);
    low[i] = static_cast<int64_t>(floor);
    part[i] = point[i] - floor;
  }
  W sum = 0;
  for (size_t corner = 0; corner < (size_t{1} << rank); ++corner) {
    W weight = 1;
    int64_t offset = 0;
    bool inside = true;
    for (size_t i = 0; i < rank && inside; ++i) {
      const bool upper = ((corner >> i) & 1) != 0;
      const int64_t at = low[i] + (upper ? 1 : 0);
      inside = at >= 0 && at < dims[i];
      weight *= upper ? part[i] : 1 - part[i];
      offset += at * steps[i];
    }
    if (inside && weight != 0) sum += weight * from[offset];
  }
  return sum;
}

Status deform_conv(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* w, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* offset, context.input(2));
  HR_RETURN_IF_ERROR(same_type(*x, *w));
  HR_ASSIGN_OR_RETURN(const int64_t offset_group, context.integer("offset_group", 1));
  HR_ASSIGN_OR_RETURN(const ConvShape shape, conv_shape(context, x->dims(), w->dims()));
  const Window& window = shape.window;
  const size_t rank = window.rank();
  if (rank > 8) return make_status(Code::unsupported, "{} spatial axes", rank);
  if (offset_group < 1 || offset_group > std::max<int64_t>(shape.channels, 1) || shape.channels % offset_group != 0) {
    return make_status(Code::malformed, "offset_group {}: X has {} channels", offset_group, shape.channels);
  }
  const int64_t taps = window.taps(), positions = window.positions(), size = product(window.input),
                axes = static_cast<int64_t>(rank);
  Dims wanted = shape.output;
  HR_ASSIGN_OR_RETURN(wanted[1], count_elements(Dims{offset_group, taps, axes}));
  HR_RETURN_IF_ERROR(want_dims(*offset, wanted, "offset"));
  wanted[1] = offset_group * taps;
  if (context.has_input(4)) {
    HR_ASSIGN_OR_RETURN(const Tensor* mask, context.input(4));
    HR_RETURN_IF_ERROR(want_dims(*mask, wanted, "mask"));
  }
  const Dims steps = contiguous_strides(window.input);
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> weights, Numbers<W>::of(*w));
    HR_ASSIGN_OR_RETURN(const Numbers<W> offsets, Numbers<W>::of(*offset));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 3, true));
    HR_ASSIGN_OR_RETURN(const Numbers<W> mask, numbers<W>(context, 4, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, shape.output));
    std::vector<W> point(rank);
    convolve<W>(shape, weights.data(), y.data(), [&](int64_t n, int64_t c, int64_t first, int64_t count, W* to) {
      const int64_t group = n * offset_group + c / (shape.channels / offset_group);
      Dims tap(rank, 0);
      for (int64_t t = 0; t < taps; ++t, next_index(tap, window.kernel)) {
        Dims position = index_of(first, window.output);
        for (int64_t p = first; p < first + count; ++p, next_index(position, window.output)) {
          for (size_t i = 0; i < rank; ++i) {
            const int64_t at = position[i] * window.strides[i] + tap[i] * window.dilations[i] - window.begin[i];
            point[i] = static_cast<W>(at) + offsets[((group * taps + t) * axes + static_cast<int64_t>(i)) * positions + p];
          }
          const W value = sample_linear(from.data() + (n * shape.channels + c) * size, window.input, steps, point);
          *to++ = mask.empty() ? value : value * mask[(group * taps + t) * positions + p];
        }
      }
    });
    if (context.has_input(3)) {
      HR_RETURN_IF_ERROR(want_dims(*context.value(3).tensor(), {shape.results}, "B"));
      add_bias(y, bias.data(), shape.batch, shape.results, positions);
    }
    return put(context, 0, x->dtype(), shape.output, y);
  });
}

Status col2im(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_RETURN_IF_ERROR(want_rank(*input, 3, "input"));
  HR_ASSIGN_OR_RETURN(const Dims image, context.integers(1));
  HR_ASSIGN_OR_RETURN(const Dims block, context.integers(2));
  const size_t rank = image.size();
  if (rank == 0 || block.size() != rank) {
    return make_status(Code::malformed, "image_shape has {} axes, block_shape {}", rank, block.size());
  }
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t image_size, count_elements(image));
  HR_ASSIGN_OR_RETURN(const int64_t taps, count_elements(block));
  if (taps == 0) return make_status(Code::malformed, "block_shape [{}]", fmt::join(block, ", "));
  HR_ASSIGN_OR_RETURN(const Window window, make_window(context, image, block));
  HR_ASSIGN_OR_RETURN(const int64_t positions, count_elements(window.output));
  if (input->dim(1) % taps != 0 || input->dim(2) != positions) {
    return make_status(Code::malformed, "input: want [batch, channels * {}, {}], got [{}]", taps, positions,
                       fmt::join(input->dims(), ", "));
  }
  Dims dims = {input->dim(0), input->dim(1) / taps};
  dims.insert(dims.end(), image.begin(), image.end());
  return compute_number(input->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*input));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    if (y.empty() || input->elements() == 0) return put(context, 0, input->dtype(), dims, y);
    std::vector<int64_t> offsets;
    tap_offsets(window, 0, positions, offsets);
    const W* from = x.data();
    for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
      W* to = y.data() + row * product(image);
      for (const int64_t at : offsets) {
        if (at >= 0) to[at] += *from;
        ++from;
      }
    }
    return put(context, 0, input->dtype(), dims, y);
  });
}

// ---- types

// [batch, results, spatial...] of a convolution: x [batch, channels, spatial...], w [results, channels / group, kernel...].
Result<std::optional<Shape>> infer_conv_shape(const InferContext& context, const TensorFact& x, const TensorFact& w) {
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  HR_RETURN_IF_ERROR(want_rank_from(w, 3, "W"));
  const size_t rank = x.shape ? x.shape->size() : w.shape ? w.shape->size() : 0;
  if (rank == 0) return std::optional<Shape>();
  HR_RETURN_IF_ERROR(want_rank(w, rank, "W"));
  HR_ASSIGN_OR_RETURN(const int64_t group, context.integer("group", 1));
  const Shape from = x.shape.value_or(unknown_shape(rank)), weights = w.shape.value_or(unknown_shape(rank));
  const auto whole = [&](const Dim& dim) { return !is_known(dim) || dim.value % group == 0; };
  if (group < 1 || (is_known(from[1]) && group > std::max<int64_t>(from[1].value, 1)) || !whole(from[1]) || !whole(weights[0]) ||
      (is_known(from[1]) && is_known(weights[1]) && from[1].value / group != weights[1].value)) {
    return error(Code::malformed, "group {}: X has dims {}, W dims {}", group, describe(from), describe(weights));
  }
  Shape shape = {from[0], weights[0]};
  HR_ASSIGN_OR_RETURN(const Shape spatial, infer_windows(context, std::span(from).subspan(2), std::span(weights).subspan(2)));
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  return std::optional(std::move(shape));
}

Status infer_conv(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, w));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_conv_shape(context, x, w));
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_conv_integer(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(1));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_conv_shape(context, x, w));
  context.set(0, DType::i32, std::move(shape));
  return {};
}

Status infer_qlinear_conv(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(3));
  HR_ASSIGN_OR_RETURN(const TensorFact zero, context.input(7));
  HR_ASSIGN_OR_RETURN(std::optional<Shape> shape, infer_conv_shape(context, x, w));
  context.set(0, zero.dtype, std::move(shape));
  return {};
}

Status infer_conv_transpose(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, w));
  HR_RETURN_IF_ERROR(want_rank_from(x, 3, "X"));
  const size_t rank = x.shape ? x.shape->size() : w.shape ? w.shape->size() : 0;
  if (rank < 3) {
    context.set(0, dtype, std::nullopt);
    return want_rank_from(w, 3, "W");
  }
  HR_RETURN_IF_ERROR(want_rank(w, rank, "W"));
  HR_ASSIGN_OR_RETURN(const int64_t group, context.integer("group", 1));
  const Shape from = x.shape.value_or(unknown_shape(rank)), weights = w.shape.value_or(unknown_shape(rank));
  if (group < 1 || (is_known(from[1]) && (from[1].value % group != 0 || group > std::max<int64_t>(from[1].value, 1) ||
                                         (is_known(weights[0]) && from[1].value != weights[0].value)))) {
    return make_status(Code::malformed, "group {}: X has dims {}, W dims {}", group, describe(from), describe(weights));
  }
  Shape shape = {from[0], product(weights[1], dim_of(group))};
  shape.resize(rank);
  std::optional<Dims> kernel = known_dims(Shape(weights.begin() + 2, weights.end()));
  if (!kernel && context.has("kernel_shape")) kernel = Dims();  // as the attribute says
  if (kernel) {
    // An axis that is not known is a large one, whose result does not count unless the attribute output_shape says it.
    Dims spatial;
    for (size_t i = 2; i < rank; ++i) spatial.push_back(is_known(from[i]) ? from[i].value : kMaxElements);
    HR_ASSIGN_OR_RETURN(const Window window, transposed_window(context, spatial, *kernel));
    for (size_t i = 2; i < rank; ++i) {
      if (is_known(from[i]) || context.has("output_shape")) shape[i] = dim_of(window.input[i - 2]);
    }
  }
  context.set(0, dtype, std::move(shape));
  return {};
}

Status infer_col2im(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact input, context.input(0));
  HR_RETURN_IF_ERROR(want_rank(input, 3, "input"));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> image, context.elements(1));
  HR_ASSIGN_OR_RETURN(const std::optional<Elements> block, context.elements(2));
  std::optional<Shape> shape;
  if (image) {
    HR_ASSIGN_OR_RETURN(const Shape spatial, shape_of(*image));
    const Shape from = input.shape.value_or(unknown_shape(3));
    shape = Shape{from[0], Dim()};
    if (block) {
      HR_ASSIGN_OR_RETURN(const Shape taps, shape_of(*block));
      (*shape)[1] = quotient(std::span(from).subspan(1, 1), taps);
    }
    shape->insert(shape->end(), spatial.begin(), spatial.end());
  }
  context.set(0, input.dtype, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"Col2Im", 18, col2im, infer_col2im},
    {"Conv", 1, conv, infer_conv},
    {"ConvInteger", 10, conv_integer, infer_conv_integer},
    {"ConvTranspose", 1, conv_transpose, infer_conv_transpose},
    {"DeformConv", 19, deform_conv, infer_conv},
    {"QLinearConv", 10, qlinear_conv, infer_qlinear_conv},
};

}  // namespace

std::span<const OpRow> ops_conv() { return kRows; }

}  // namespace headrace::onnx

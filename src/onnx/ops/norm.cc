// Normalizations.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <class W>
Moments moments(const W* from, int64_t count) {
  Moments m;
  for (int64_t i = 0; i < count; ++i) m.mean += from[i];
  m.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) m.variance += (from[i] - m.mean) * (from[i] - m.mean);
  m.variance /= static_cast<double>(count);
  return m;
}

Status want_channels(const Tensor& x) {
  if (x.rank() >= 2) return {};
  return make_status(Code::malformed, "X: want [batch, channels, ...], got dims [{}]", fmt::join(x.dims(), ", "));
}

Status batch_normalization(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const float epsilon, context.number("epsilon", 1e-5f));
  HR_ASSIGN_OR_RETURN(const float momentum, context.number("momentum", 0.9f));
  HR_ASSIGN_OR_RETURN(const int64_t training, context.integer("training_mode", 0));
  HR_ASSIGN_OR_RETURN(const int64_t spatial, context.integer("spatial", 1));
  if (x->rank() < 1) return want_channels(*x);
  if (spatial == 0 && context.opset() < 9) return make_status(Code::unsupported, "BatchNormalization with spatial = 0");
  if (training == 0 && context.opset() >= 14 && (context.wants_output(1) || context.wants_output(2))) {
    return make_status(Code::malformed, "running_mean and running_var are outputs in training mode alone");
  }
  // One-dimensional data are one channel.
  const int64_t batch = x->dim(0), channels = x->rank() > 1 ? x->dim(1) : 1,
                size = x->rank() > 1 ? product(std::span(x->dims()).subspan(2)) : 1, images = x->elements() == 0 ? 0 : batch;
  Numbers<double> per_channel[4];
  for (int i = 0; i < 4; ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* own, context.input(i + 1));
    HR_RETURN_IF_ERROR(want_dims(*own, {channels}, "scale, B, mean and var"));
    HR_ASSIGN_OR_RETURN(per_channel[i], Numbers<double>::of(*own));
  }
  const DType statistics = context.value(3).tensor()->dtype();
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, x->dims()));
    std::vector<double> running_mean, running_variance;
    for (int64_t c = 0; c < channels; ++c) {
      double mean = per_channel[2][c], variance = per_channel[3][c];
      if (training != 0) {
        double sum = 0, squares = 0;
        const auto count = static_cast<double>(batch * size);
        for (int64_t n = 0; n < images; ++n) {
          for (int64_t i = 0; i < size; ++i) sum += from[(n * channels + c) * size + i];
        }
        const double own = sum / count;
        for (int64_t n = 0; n < images; ++n) {
          for (int64_t i = 0; i < size; ++i) {
            squares += (from[(n * channels + c) * size + i] - own) * (from[(n * channels + c) * size + i] - own);
          }
        }
        running_mean.push_back(mean * momentum + own * (1 - static_cast<double>(momentum)));
        running_variance.push_back(variance * momentum + squares / count * (1 - static_cast<double>(momentum)));
        mean = own;
        variance = squares / count;
      }
      const double factor = per_channel[0][c] / std::sqrt(variance + epsilon), bias = per_channel[1][c];
      for (int64_t n = 0; n < images; ++n) {
        for (int64_t i = 0; i < size; ++i) {
          const int64_t at = (n * channels + c) * size + i;
          y[static_cast<size_t>(at)] = static_cast<W>((from[at] - mean) * factor + bias);
        }
      }
    }
    if (training != 0) {
      HR_RETURN_IF_ERROR(put(context, 1, statistics, {channels}, running_mean));
      HR_RETURN_IF_ERROR(put(context, 2, statistics, {channels}, running_variance));
    }
    return put(context, 0, x->dtype(), x->dims(), y);
  });
}

// Each channel of each image, or each of `groups` groups of channels, by itself. `per_group`: scale and bias are one for each
// group.
Status group_normalize(OpContext& context, int64_t groups, bool per_group) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const float epsilon, context.number("epsilon", 1e-5f));
  const int64_t channels = x->dim(1), size = product(std::span(x->dims()).subspan(2));
  if (groups < 1 || channels % groups != 0) {
    return make_status(Code::malformed, "num_groups: {} for {} channels", groups, channels);
  }
  const int64_t inner = channels / groups;
  for (int i = 1; i < 3; ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* own, context.input(i));
    HR_RETURN_IF_ERROR(want_dims(*own, {per_group ? groups : channels}, "scale and bias"));
  }
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> scale, numbers<W>(context, 1));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, x->dims()));
    for (int64_t row = 0; !y.empty() && row < x->dim(0) * groups; ++row) {
      const W* at = from.data() + row * inner * size;
      const Moments m = moments(at, inner * size);
      const double factor = 1 / std::sqrt(m.variance + epsilon);
      for (int64_t i = 0; i < inner * size; ++i) {
        const int64_t g = row % groups, c = per_group ? g : g * inner + i / size;
        y[static_cast<size_t>(row * inner * size + i)] = static_cast<W>((at[i] - m.mean) * factor * scale[c] + bias[c]);
      }
    }
    return put(context, 0, x->dtype(), x->dims(), y);
  });
}

Status instance_normalization(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_RETURN_IF_ERROR(want_channels(*x));
  return group_normalize(context, std::max<int64_t>(x->dim(1), 1), false);
}

Status group_normalization(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_RETURN_IF_ERROR(want_channels(*x));
  HR_ASSIGN_OR_RETURN(const int64_t groups, context.integer("num_groups", 0));
  return group_normalize(context, groups, context.opset() < 21);
}

DType statistics_type(int64_t stash) {
  return stash == 16 ? DType::bf16 : stash == 11 ? DType::f64 : stash == 10 ? DType::f16 : DType::f32;
}

// The axes from `axis` on, each row by itself. `kCenters`: less the mean (LayerNormalization), else by the root of the mean
// square alone.
template <bool kCenters>
Status normalize_rows(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* scale, context.input(1));
  HR_ASSIGN_OR_RETURN(const float epsilon, context.number("epsilon", 1e-5f));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, x->rank()));
  HR_ASSIGN_OR_RETURN(const int64_t stash, context.integer("stash_type", 1));
  const Dims& dims = x->dims();
  for (int i = 1; i < (kCenters ? 3 : 2); ++i) {
    if (!context.has_input(i)) continue;
    HR_ASSIGN_OR_RETURN(const Tensor* own, context.input(i));
    HR_ASSIGN_OR_RETURN(const Dims common, broadcast(own->dims(), dims));
    if (common != dims) {
      return make_status(Code::malformed, "input {}: dims [{}] do not go into [{}]", i, fmt::join(own->dims(), ", "),
                         fmt::join(dims, ", "));
    }
  }
  const int64_t rows = product(std::span(dims).first(static_cast<size_t>(axis))),
                size = product(std::span(dims).subspan(static_cast<size_t>(axis)));
  Dims outer = dims;
  std::fill(outer.begin() + axis, outer.end(), 1);
  // RMSNormalization gives the type of its scale.
  const DType result = kCenters ? x->dtype() : scale->dtype();
  const DType statistics = statistics_type(stash);
  const auto run = [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> factors, Numbers<W>::of(*scale));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    HR_ASSIGN_OR_RETURN(std::vector<W> means, buffer<W>(context, outer));
    std::vector<W> inverses(means.size());
    for (int64_t row = 0; row < rows && size > 0; ++row) {
      const W* at = from.data() + row * size;
      Moments m;
      if constexpr (kCenters) {
        m = moments(at, size);
      } else {
        for (int64_t i = 0; i < size; ++i) m.variance += static_cast<double>(at[i]) * at[i];
        m.variance /= static_cast<double>(size);
      }
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      means[static_cast<size_t>(row)] = static_cast<W>(m.mean);
      inverses[static_cast<size_t>(row)] = static_cast<W>(inverse);
      for (int64_t i = 0; i < size; ++i) {
        W normal = static_cast<W>((at[i] - m.mean) * inverse);
        // The document casts back to the input's type before the scale.
        if (x->dtype() == DType::f16) normal = to_float(to_f16(static_cast<float>(normal)));
        if (x->dtype() == DType::bf16) normal = to_float(to_bf16(static_cast<float>(normal)));
        y[static_cast<size_t>(row * size + i)] = normal;
      }
    }
    auto to = y.begin();
    const Dims bias_dims = bias.empty() ? Dims() : context.value(2).tensor()->dims();
    walk<2>(dims, {broadcast_strides(scale->dims(), dims), broadcast_strides(bias_dims, dims)},
            [&](const auto& at, const auto& steps, int64_t count) {
              for (int64_t i = 0; i < count; ++i, ++to) {
                *to *= factors[at[0] + i * steps[0]];
                if (!bias.empty()) *to += bias[at[1] + i * steps[1]];
              }
            });
    if constexpr (kCenters) {
      HR_RETURN_IF_ERROR(put(context, 1, statistics, outer, means));
      HR_RETURN_IF_ERROR(put(context, 2, statistics, outer, inverses));
    }
    return put(context, 0, result, dims, y);
  };
  return compute(x->dtype() == DType::f64 ? DType::f64 : scale->dtype(), run);
}

Status lrn(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_RETURN_IF_ERROR(want_channels(*x));
  HR_ASSIGN_OR_RETURN(const float alpha, context.number("alpha", 0.0001f));
  HR_ASSIGN_OR_RETURN(const float beta, context.number("beta", 0.75f));
  HR_ASSIGN_OR_RETURN(const float bias, context.number("bias", 1));
  HR_ASSIGN_OR_RETURN(const int64_t window, context.integer("size", 0));
  if (window < 1) return make_status(Code::malformed, "size: want 1 or more, got {}", window);
  const int64_t channels = x->dim(1), size = product(std::span(x->dims()).subspan(2));
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, x->dims()));
    for (int64_t n = 0; !y.empty() && n < x->dim(0); ++n) {
      for (int64_t c = 0; c < channels; ++c) {
        // An even window reaches further up than down.
        const int64_t first = std::max<int64_t>(0, c - (window - 1) / 2),
                      last = std::min(channels - 1, c + std::min(window / 2, channels));
        for (int64_t i = 0; i < size; ++i) {
          double sum = 0;
          for (int64_t k = first; k <= last; ++k) {
            const double value = from[(n * channels + k) * size + i];
            sum += value * value;
          }
          const int64_t at = (n * channels + c) * size + i;
          y[static_cast<size_t>(at)] =
              static_cast<W>(from[at] / std::pow(bias + alpha / static_cast<double>(window) * sum, static_cast<double>(beta)));
        }
      }
    }
    return put(context, 0, x->dtype(), x->dims(), y);
  });
}

Status lp_normalization(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  HR_ASSIGN_OR_RETURN(const int64_t p, context.integer("p", 2));
  HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, x->rank()));
  if (p != 1 && p != 2) return make_status(Code::malformed, "p: want 1 or 2, got {}", p);
  const std::span<const int64_t> dims = x->dims();
  const auto at_axis = static_cast<size_t>(axis);
  const int64_t outer = product(dims.first(at_axis)), length = dims[at_axis], inner = product(dims.subspan(at_axis + 1));
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, x->dims()));
    for (int64_t o = 0; !y.empty() && o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        double norm = 0;
        for (int64_t k = 0; k < length; ++k) {
          const double value = from[(o * length + k) * inner + i];
          norm += p == 1 ? std::abs(value) : value * value;
        }
        if (p == 2) norm = std::sqrt(norm);
        for (int64_t k = 0; k < length; ++k) {
          const int64_t at = (o * length + k) * inner + i;
          y[static_cast<size_t>(at)] = static_cast<W>(norm == 0 ? 0 : from[at] / norm);
        }
      }
    }
    return put(context, 0, x->dtype(), x->dims(), y);
  });
}

Status mean_variance_normalization(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, context.integers("axes", {0, 2, 3}));
  const Dims& dims = x->dims();
  std::vector<bool> reduced(dims.size(), false);
  for (const int64_t given : axes) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, x->rank()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  Dims strides(dims.size());
  int64_t rows = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = reduced[i] ? 0 : rows;
    if (!reduced[i]) rows *= dims[i];
  }
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    if (y.empty()) return put(context, 0, x->dtype(), dims, y);
    std::vector<double> means(static_cast<size_t>(rows)), variances(means.size());
    const auto each = [&](auto&& f) {
      int64_t k = 0;
      walk<1>(dims, {strides}, [&](const auto& at, const auto& steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i, ++k) f(static_cast<size_t>(at[0] + i * steps[0]), k);
      });
    };
    const double count = static_cast<double>(x->elements()) / static_cast<double>(rows);
    each([&](size_t row, int64_t k) { means[row] += from[k] / count; });
    each([&](size_t row, int64_t k) { variances[row] += (from[k] - means[row]) * (from[k] - means[row]) / count; });
    each([&](size_t row, int64_t k) {
      y[static_cast<size_t>(k)] = static_cast<W>((from[k] - means[row]) / (std::sqrt(variances[row]) + 1e-9));
    });
    return put(context, 0, x->dtype(), dims, y);
  });
}

// ---- types

Status infer_batch_normalization(InferContext& context) {
  HR_RETURN_IF_ERROR(infer_same(context));
  for (int i = 1; i < 5; ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact own, context.input(i));
    HR_RETURN_IF_ERROR(want_rank(own, 1, "scale, B, mean and var"));
  }
  HR_ASSIGN_OR_RETURN(const TensorFact mean, context.input(3));
  // Saved statistics, outputs 3 and 4 before opset 14, are never there outside of training.
  for (int i = 1; i < 3; ++i) context.set(i, mean.dtype, mean.shape);
  return {};
}

Status infer_of_channels(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_rank_from(x, 2, "X"));
  return infer_same(context);
}

template <bool kCenters>
Status infer_normalize_rows(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact scale, context.input(1));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  HR_ASSIGN_OR_RETURN(const int64_t stash, context.integer("stash_type", 1));
  context.set(0, kCenters ? x.dtype : scale.dtype, x.shape);
  std::optional<Shape> outer = x.shape;
  if (outer) {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, static_cast<int>(outer->size())));
    std::fill(outer->begin() + axis, outer->end(), dim_of(1));
  }
  for (int i = 1; kCenters && i < 3; ++i) context.set(i, statistics_type(stash), outer);
  return {};
}

Status infer_along_axis(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", -1));
  if (x.shape) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const int axis, normalize_axis(given, static_cast<int>(x.shape->size())));
  }
  return infer_same(context);
}

constexpr OpRow kRows[] = {
    {"BatchNormalization", 7, batch_normalization, infer_batch_normalization},
    {"GroupNormalization", 18, group_normalization, infer_of_channels},
    {"InstanceNormalization", 6, instance_normalization, infer_of_channels},
    {"LRN", 1, lrn, infer_of_channels},
    {"LayerNormalization", 17, normalize_rows<true>, infer_normalize_rows<true>},
    {"LpNormalization", 1, lp_normalization, infer_along_axis},
    {"MeanVarianceNormalization", 9, mean_variance_normalization, infer_same},
    {"RMSNormalization", 23, normalize_rows<false>, infer_normalize_rows<false>},
};

}  // namespace

std::span<const OpRow> ops_norm() { return kRows; }

}  // namespace headrace::onnx

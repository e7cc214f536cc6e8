// Pools over regions of interest: MaxRoiPool, RoiAlign.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

constexpr int64_t kMostBins = int64_t{1} << 20;     // on one side of a pooled region
constexpr int64_t kMostSamples = int64_t{1} << 24;  // of all regions in all their bins

Status want_batch(int64_t index, int64_t batch) {
  if (index >= 0 && index < batch) return {};
  return make_status(Code::invalid_argument, "a region in image {} of {}", index, batch);
}

Status max_roi_pool(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* rois, context.input(1));
  HR_RETURN_IF_ERROR(same_type(*x, *rois));
  HR_RETURN_IF_ERROR(want_rank(*x, 4, "X"));
  if (rois->rank() != 2 || rois->dim(1) != 5) {
    return make_status(Code::malformed, "rois: want [regions, 5], got [{}]", fmt::join(rois->dims(), ", "));
  }
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> pooled, context.integers("pooled_shape", {}));
  HR_ASSIGN_OR_RETURN(const float scale, context.number("spatial_scale", 1));
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > kMostBins || pooled[1] > kMostBins) {
    return make_status(Code::malformed, "pooled_shape: want two numbers from 1 to {}, got [{}]", kMostBins,
                       fmt::join(pooled, ", "));
  }
  const int64_t batch = x->dim(0), channels = x->dim(1), height = x->dim(2), width = x->dim(3);
  const Dims dims = {rois->dim(0), channels, pooled[0], pooled[1]};
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> regions, Numbers<W>::of(*rois));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    auto to = y.begin();
    for (int64_t r = 0; r < dims[0]; ++r) {
      const W* roi = regions.data() + r * 5;
      const auto image = saturated<int64_t>(roi[0]);
      HR_RETURN_IF_ERROR(want_batch(image, batch));
      // Corners count whole pixels, both ends included.
      int64_t corner[4];
      for (int i = 0; i < 4; ++i) corner[i] = saturated<int32_t>(std::round(static_cast<double>(roi[i + 1]) * scale));
      const double bin_h =
          static_cast<double>(std::max<int64_t>(corner[3] - corner[1] + 1, 1)) / static_cast<double>(pooled[0]);
      const double bin_w =
          static_cast<double>(std::max<int64_t>(corner[2] - corner[0] + 1, 1)) / static_cast<double>(pooled[1]);
      const auto edge = [](double at, int64_t start, int64_t size) {
        return std::clamp<int64_t>(static_cast<int64_t>(at) + start, 0, size);
      };
      for (int64_t c = 0; c < channels; ++c) {
        const W* plane = from.data() + (image * channels + c) * height * width;
        for (int64_t i = 0; i < pooled[0]; ++i) {
          const int64_t top = edge(std::floor(static_cast<double>(i) * bin_h), corner[1], height);
          const int64_t bottom = edge(std::ceil(static_cast<double>(i + 1) * bin_h), corner[1], height);
          for (int64_t j = 0; j < pooled[1]; ++j) {
            const int64_t left = edge(std::floor(static_cast<double>(j) * bin_w), corner[0], width);
            const int64_t right = edge(std::ceil(static_cast<double>(j + 1) * bin_w), corner[0], width);
            W best = top < bottom && left < right ? -std::numeric_limits<W>::infinity() : W{0};
            for (int64_t h = top; h < bottom; ++h) {
              for (int64_t w = left; w < right; ++w) best = larger(best, plane[h * width + w]);
            }
            *to++ = best;
          }
        }
      }
    }
    return put(context, 0, x->dtype(), dims, y);
  });
}

// The four pixels around a point and their weights.
template <class W>
struct Sample {
  int64_t at[4] = {};
  W weight[4] = {};
};

template <class W>
Sample<W> sample_at(W y, W x, int64_t height, int64_t width) {
  Sample<W> sample;
  if (!(y >= -1 && y <= static_cast<W>(height) && x >= -1 && x <= static_cast<W>(width))) return sample;
  y = std::max<W>(y, 0);
  x = std::max<W>(x, 0);
  const int64_t top = std::min(static_cast<int64_t>(y), height - 1), left = std::min(static_cast<int64_t>(x), width - 1);
  const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const W down = top == height - 1 ? 0 : y - static_cast<W>(top), across = left == width - 1 ? 0 : x - static_cast<W>(left);
  const int64_t at[4] = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
  const W weight[4] = {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across};
  std::copy_n(at, 4, sample.at);
  std::copy_n(weight, 4, sample.weight);
  return sample;
}

Status roi_align(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* rois, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* images, context.input(2));
  HR_RETURN_IF_ERROR(same_type(*x, *rois));
  HR_RETURN_IF_ERROR(want_rank(*x, 4, "X"));
  if (rois->rank() != 2 || rois->dim(1) != 4) {
    return make_status(Code::malformed, "rois: want [regions, 4], got [{}]", fmt::join(rois->dims(), ", "));
  }
  HR_RETURN_IF_ERROR(want_dims(*images, {rois->dim(0)}, "batch_indices"));
  if (images->dtype() != DType::i64) return unknown_type(images->dtype());
  HR_ASSIGN_OR_RETURN(const std::string mode, context.text("mode", "avg"));
  // Before opset 16 pixels were never shifted.
  HR_ASSIGN_OR_RETURN(const std::string transform, context.text("coordinate_transformation_mode",
                                                                context.opset() < 16 ? "output_half_pixel" : "half_pixel"));
  HR_ASSIGN_OR_RETURN(const int64_t rows, context.integer("output_height", 1));
  HR_ASSIGN_OR_RETURN(const int64_t columns, context.integer("output_width", 1));
  HR_ASSIGN_OR_RETURN(const int64_t ratio, context.integer("sampling_ratio", 0));
  HR_ASSIGN_OR_RETURN(const float scale, context.number("spatial_scale", 1));
  if (mode != "avg" && mode != "max") return make_status(Code::malformed, "mode: want avg or max, got {}", mode);
  if (transform != "half_pixel" && transform != "output_half_pixel") {
    return make_status(Code::malformed, "coordinate_transformation_mode: want half_pixel or output_half_pixel, got {}",
                       transform);
  }
  if (rows < 1 || columns < 1 || rows > kMostBins || columns > kMostBins || ratio < 0) {
    return make_status(Code::malformed, "output_height {}, output_width {}, sampling_ratio {}", rows, columns, ratio);
  }
  const int64_t batch = x->dim(0), channels = x->dim(1), height = x->dim(2), width = x->dim(3);
  const Dims dims = {rois->dim(0), channels, rows, columns};
  if (height == 0 || width == 0) return make_status(Code::malformed, "X: an image of {} by {}", height, width);
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> regions, Numbers<W>::of(*rois));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, dims));
    const bool half = transform == "half_pixel";
    const W shift = half ? W(0.5) : W{0};
    int64_t left = kMostSamples / (rows * columns);  // in each bin
    for (int64_t r = 0; r < dims[0]; ++r) {
      const W* roi = regions.data() + r * 4;
      const int64_t image = images->data<int64_t>()[r];
      HR_RETURN_IF_ERROR(want_batch(image, batch));
      const W start_w = roi[0] * scale - shift, start_h = roi[1] * scale - shift;
      W roi_w = roi[2] * scale - shift - start_w, roi_h = roi[3] * scale - shift - start_h;
      if (!half) {
        roi_w = std::max<W>(roi_w, 1);
        roi_h = std::max<W>(roi_h, 1);
      }
      const W bin_h = roi_h / static_cast<W>(rows), bin_w = roi_w / static_cast<W>(columns);
      const int64_t grid_h = ratio > 0 ? ratio : saturated<int32_t>(std::ceil(bin_h)),
                    grid_w = ratio > 0 ? ratio : saturated<int32_t>(std::ceil(bin_w));
      const bool fits = grid_h <= kMostSamples && grid_w <= kMostSamples;
      const int64_t samples = fits ? std::max<int64_t>(grid_h, 0) * std::max<int64_t>(grid_w, 0) : 0;
      if (!fits || samples > left) {
        return make_status(Code::resource_exhausted, "region {}: {} by {} bins with {} by {} samples each: want {} in all regions", r, rows,
                           columns, grid_h, grid_w, kMostSamples);
      }
      left -= samples;
      const int64_t count = std::max<int64_t>(samples, 1);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          for (int64_t c = 0; c < channels; ++c) y[static_cast<size_t>(((r * channels + c) * rows + i) * columns + j)] = 0;
          for (int64_t v = 0; v < grid_h; ++v) {
            const W at_y = start_h + static_cast<W>(i) * bin_h + (static_cast<W>(v) + W(0.5)) * bin_h / static_cast<W>(grid_h);
            for (int64_t u = 0; u < grid_w; ++u) {
              const W at_x =
                  start_w + static_cast<W>(j) * bin_w + (static_cast<W>(u) + W(0.5)) * bin_w / static_cast<W>(grid_w);
              const Sample<W> sample = sample_at(at_y, at_x, height, width);
              for (int64_t c = 0; c < channels; ++c) {
                const W* plane = from.data() + (image * channels + c) * height * width;
                W& to = y[static_cast<size_t>(((r * channels + c) * rows + i) * columns + j)];
                W parts[4];
                for (int k = 0; k < 4; ++k) parts[k] = sample.weight[k] * plane[sample.at[k]];
                if (mode == "avg") {
                  to += (parts[0] + parts[1] + parts[2] + parts[3]) / static_cast<W>(count);
                } else {
                  const W most = *std::max_element(parts, parts + 4);
                  to = v == 0 && u == 0 ? most : std::max(to, most);
                }
              }
            }
          }
        }
      }
    }
    return put(context, 0, x->dtype(), dims, y);
  });
}

// ---- types

// [regions, channels, rows, columns]
Status infer_regions(InferContext& context, int64_t rows, int64_t columns) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact rois, context.input(1));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, rois));
  HR_RETURN_IF_ERROR(want_rank(x, 4, "X"));
  HR_RETURN_IF_ERROR(want_rank(rois, 2, "rois"));
  context.set(0, dtype, Shape{rois.shape ? (*rois.shape)[0] : Dim(), x.shape ? (*x.shape)[1] : Dim(), dim_of(rows), dim_of(columns)});
  return {};
}

Status infer_max_roi_pool(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> pooled, context.integers("pooled_shape", {}));
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) {
    return make_status(Code::malformed, "pooled_shape: want two numbers from 1 on, got [{}]", fmt::join(pooled, ", "));
  }
  return infer_regions(context, pooled[0], pooled[1]);
}

Status infer_roi_align(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t rows, context.integer("output_height", 1));
  HR_ASSIGN_OR_RETURN(const int64_t columns, context.integer("output_width", 1));
  if (rows < 1 || columns < 1) return make_status(Code::malformed, "output_height {}, output_width {}", rows, columns);
  return infer_regions(context, rows, columns);
}

constexpr OpRow kRows[] = {
    {"MaxRoiPool", 1, max_roi_pool, infer_max_roi_pool},
    {"RoiAlign", 10, roi_align, infer_roi_align},
};

}  // namespace

std::span<const OpRow> ops_roi() { return kRows; }

}  // namespace headrace::onnx

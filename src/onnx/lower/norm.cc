// Normalizations.
#include <cmath>

#include "onnx/lower.h"
#include "ops/binary.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"

namespace headrace::onnx {
namespace {

// Inference: x * (scale / sqrt(var + eps)) + (bias - mean * scale / sqrt(var + eps)), per channel.
bool batch_normalization(LowerContext& context) {
  const Result<float> epsilon = context.number("epsilon", 1e-5f);
  const Result<int64_t> training = context.integer("training_mode", 0);
  if (!context.all_f32() || !epsilon || !training || *training != 0 || context.rank(0) < 2) return false;
  for (int i = 1; i < context.num_outputs(); ++i) {
    if (context.wants_output(i)) return false;
  }
  const Tensor *scale = context.constant(1), *bias = context.constant(2), *mean = context.constant(3), *variance = context.constant(4);
  if (scale == nullptr || bias == nullptr || mean == nullptr || variance == nullptr) {
    return context.decline("statistics or weights that are computed");
  }
  const int64_t channels = context.dims(0)[1];
  for (const Tensor* given : {scale, bias, mean, variance}) {
    if (given->dims() != Dims{channels}) return false;  // the host says what is wrong
  }
  std::vector<double> factor, offset;
  for (int64_t c = 0; c < channels; ++c) {
    factor.push_back(static_cast<double>(scale->data<float>()[c]) /
                     std::sqrt(static_cast<double>(variance->data<float>()[c]) + static_cast<double>(*epsilon)));
    offset.push_back(static_cast<double>(bias->data<float>()[c]) - static_cast<double>(mean->data<float>()[c]) * factor.back());
  }
  Dims dims(static_cast<size_t>(context.rank(0)) - 1, 1);
  dims[0] = channels;
  const ValueId scaled =
      context.emit(ops::binary, ops::BinaryAttrs{ops::BinaryKind::mul}, {context.input(0), context.constant_f32(dims, factor)});
  context.set(0, context.emit(ops::binary, ops::BinaryAttrs{ops::BinaryKind::add}, {scaled, context.constant_f32(dims, offset)}));
  return true;
}

struct Rows {
  int64_t count = 1, width = 1;
};

// The rows that end with `axis` and what they hold; nothing where the scale is not of the normalized dims.
std::optional<Rows> rows_of(const LowerContext& context) {
  const Result<int64_t> given = context.integer("axis", -1);
  if (!given) return std::nullopt;
  const Result<int> axis = normalize_axis(*given, context.rank(0));
  if (!axis) return std::nullopt;
  const Dims dims = context.dims(0);
  Rows rows;
  for (int i = 0; i < *axis; ++i) rows.count *= dims[static_cast<size_t>(i)];
  Dims normalized(dims.begin() + *axis, dims.end());
  for (const int64_t dim : normalized) rows.width *= dim;
  for (int i = 1; i < context.num_inputs(); ++i) {
    if (context.has_input(i) && context.dims(i) != normalized) return std::nullopt;
  }
  return rows.width > 0 ? std::optional(rows) : std::nullopt;
}

bool layer_normalization(LowerContext& context) {
  const Result<float> epsilon = context.number("epsilon", 1e-5f);
  if (!context.all_f32() || !epsilon || context.wants_output(1) || context.wants_output(2)) return false;
  const std::optional<Rows> rows = rows_of(context);
  if (!rows) return false;
  const ValueId x = context.reshape(context.input(0), {rows->count, rows->width});
  const ValueId scale = context.reshape(context.input(1), {rows->width});
  const auto zeros = [&] { return context.constant_f32({rows->width}, std::vector<double>(static_cast<size_t>(rows->width), 0.0)); };
  const ValueId bias = context.has_input(2) ? context.reshape(context.input(2), {rows->width}) : zeros();
  const ValueId y = context.emit(ops::layer_norm, ops::LayerNormAttrs{*epsilon}, {x, scale, bias});
  context.set(0, context.reshape(y, context.output_dims(0)));
  return true;
}

bool rms_normalization(LowerContext& context) {
  const Result<float> epsilon = context.number("epsilon", 1e-5f);
  if (!context.all_f32() || !epsilon) return false;
  const std::optional<Rows> rows = rows_of(context);
  if (!rows) return false;
  const ValueId x = context.reshape(context.input(0), {rows->count, rows->width});
  const ValueId y = context.emit(ops::rms_norm, ops::RmsNormAttrs{.eps = *epsilon}, {x, context.reshape(context.input(1), {rows->width})});
  context.set(0, context.reshape(y, context.output_dims(0)));
  return true;
}

constexpr LowerRow kRows[] = {
    {"BatchNormalization", batch_normalization},
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", rms_normalization},
};

}  // namespace

std::span<const LowerRow> lower_norm();
std::span<const LowerRow> lower_norm() { return kRows; }

}  // namespace headrace::onnx

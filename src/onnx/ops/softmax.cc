// Softmax, LogSoftmax, Hardmax, and the losses that stand on them.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

enum class Kind : uint8_t { softmax, log_softmax, hardmax };

// `from` and `to`: `length` elements, `step` apart.
template <class W>
void softmax_row(Kind kind, const W* from, W* to, int64_t length, int64_t step) {
  if (length == 0) return;
  int64_t best = 0;
  for (int64_t k = 1; k < length; ++k) {
    if (from[k * step] > from[best * step] || is_nan(from[k * step])) best = k;
    if (is_nan(from[best * step])) break;
  }
  if (kind == Kind::hardmax) {
    for (int64_t k = 0; k < length; ++k) to[k * step] = k == best ? 1 : 0;
    return;
  }
  const W most = from[best * step];
  double sum = 0;
  for (int64_t k = 0; k < length; ++k) {
    const W e = std::exp(from[k * step] - most);
    to[k * step] = e;
    sum += e;
  }
  if (kind == Kind::softmax) {
    for (int64_t k = 0; k < length; ++k) to[k * step] = static_cast<W>(to[k * step] / sum);
  } else {
    const W log_sum = static_cast<W>(std::log(sum));
    for (int64_t k = 0; k < length; ++k) to[k * step] = from[k * step] - most - log_sum;
  }
}

template <Kind kKind>
Status softmax(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  const bool flattens = context.opset() < 13;  // to two dimensions at `axis`, rows are normalized whole
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", flattens ? 1 : -1));
  int64_t outer = 1, length = 1, inner = 1;
  const std::span<const int64_t> dims = input->dims();
  if (flattens && given == input->rank()) {
    outer = input->elements();
  } else if (input->rank() == 0 && given == -1) {
  } else {
    HR_ASSIGN_OR_RETURN(const int axis, normalize_axis(given, input->rank()));
    const auto at = static_cast<size_t>(axis);
    outer = product(dims.first(at));
    length = flattens ? product(dims.subspan(at)) : dims[at];
    inner = flattens ? 1 : product(dims.subspan(at + 1));
  }
  return compute(input->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*input));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, input->dims()));
    if (y.empty()) return put(context, 0, input->dtype(), input->dims(), y);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        softmax_row(kKind, x.data() + o * length * inner + i, y.data() + o * length * inner + i, length, inner);
      }
    }
    return put(context, 0, input->dtype(), input->dims(), y);
  });
}

// `scores` are log probabilities [batch, classes, rest...]; labels [batch, rest...].
template <class W>
Status log_loss(OpContext& context, DType dtype, const Dims& dims, const W* scores) {
  HR_ASSIGN_OR_RETURN(const Tensor* labels, context.input(1));
  HR_ASSIGN_OR_RETURN(const Numbers<W> weights, numbers<W>(context, 2, true));
  HR_ASSIGN_OR_RETURN(const std::string reduction, context.text("reduction", "mean"));
  const bool ignores = context.has("ignore_index");
  HR_ASSIGN_OR_RETURN(const int64_t ignored, context.integer("ignore_index", 0));
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    return make_status(Code::malformed, "reduction: want none, mean or sum, got {}", reduction);
  }
  Dims wanted = dims;
  wanted.erase(wanted.begin() + 1);
  HR_RETURN_IF_ERROR(want_dims(*labels, wanted, "labels"));
  const int64_t classes = dims[1], batch = dims[0], rest = product(std::span(dims).subspan(2));
  if (context.has_input(2)) HR_RETURN_IF_ERROR(want_dims(*context.value(2).tensor(), {classes}, "weights"));
  HR_ASSIGN_OR_RETURN(std::vector<W> losses, buffer<W>(context, wanted));
  double sum = 0, weight_sum = 0;
  Status status;
  const bool known = dispatch<int32_t, int64_t>(labels->dtype(), [&]<class L>() {
    const L* label = labels->data<L>();
    for (int64_t n = 0; !losses.empty() && n < batch; ++n) {
      for (int64_t i = 0; i < rest; ++i) {
        const int64_t at = n * rest + i, c = label[at];
        if (ignores && c == ignored) continue;
        if (c < 0 || c >= classes) {
          status = make_status(Code::invalid_argument, "label {}: want 0 to {}", c, classes - 1);
          return;
        }
        const W weight = weights.empty() ? W{1} : weights[c];
        const W loss = -scores[(n * classes + c) * rest + i] * weight;
        losses[static_cast<size_t>(at)] = loss;
        sum += loss;
        weight_sum += weight;
      }
    }
  });
  if (!known) return unknown_type(labels->dtype());
  HR_RETURN_IF_ERROR(std::move(status));
  if (reduction == "none") return put(context, 0, dtype, wanted, losses);
  return put(context, 0, dtype, {}, std::vector<W>{static_cast<W>(reduction == "sum" ? sum : sum / weight_sum)});
}

Status want_classes(const Tensor& scores) {
  if (scores.rank() >= 2) return {};
  return make_status(Code::malformed, "scores: want rank 2 or more, got dims [{}]", fmt::join(scores.dims(), ", "));
}

Status negative_log_likelihood_loss(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* scores, context.input(0));
  HR_RETURN_IF_ERROR(want_classes(*scores));
  return compute(scores->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*scores));
    return log_loss<W>(context, scores->dtype(), scores->dims(), x.data());
  });
}

Status softmax_cross_entropy_loss(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* scores, context.input(0));
  HR_RETURN_IF_ERROR(want_classes(*scores));
  return compute(scores->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> x, Numbers<W>::of(*scores));
    HR_ASSIGN_OR_RETURN(std::vector<W> logs, buffer<W>(context, scores->dims()));
    const int64_t classes = scores->dim(1), rest = product(std::span(scores->dims()).subspan(2));
    for (int64_t n = 0; !logs.empty() && n < scores->dim(0); ++n) {
      for (int64_t i = 0; i < rest; ++i) {
        const int64_t at = n * classes * rest + i;
        softmax_row(Kind::log_softmax, x.data() + at, logs.data() + at, classes, rest);
      }
    }
    HR_RETURN_IF_ERROR(log_loss<W>(context, scores->dtype(), scores->dims(), logs.data()));
    return put(context, 1, scores->dtype(), scores->dims(), logs);
  });
}

// ---- types

Status infer_softmax(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  const bool flattens = context.opset() < 13;
  HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("axis", flattens ? 1 : -1));
  if (x.shape && !(flattens && given == std::ssize(*x.shape)) && !(x.shape->empty() && given == -1)) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const int axis, normalize_axis(given, static_cast<int>(x.shape->size())));
  }
  return infer_same(context);
}

Status infer_loss(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact scores, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact labels, context.input(1));
  HR_RETURN_IF_ERROR(want_rank_from(scores, 2, "scores"));
  HR_ASSIGN_OR_RETURN(const std::string reduction, context.text("reduction", "mean"));
  std::optional<Shape> shape = labels.shape;
  if (scores.shape) {
    Shape wanted = *scores.shape;
    wanted.erase(wanted.begin() + 1);
    if (shape) {
      HR_ASSIGN_OR_RETURN(shape, agreed(wanted, *shape, "labels"));
    } else {
      shape = std::move(wanted);
    }
  }
  if (reduction != "none") shape = Shape();
  context.set(0, scores.dtype, std::move(shape));
  context.set(1, scores.dtype, scores.shape);  // of SoftmaxCrossEntropyLoss
  return {};
}

constexpr OpRow kRows[] = {
    {"Hardmax", 1, softmax<Kind::hardmax>, infer_softmax},
    {"LogSoftmax", 1, softmax<Kind::log_softmax>, infer_softmax},
    {"NegativeLogLikelihoodLoss", 12, negative_log_likelihood_loss, infer_loss},
    {"Softmax", 1, softmax<Kind::softmax>, infer_softmax},
    {"SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy_loss, infer_loss},
};

}  // namespace

std::span<const OpRow> ops_softmax() { return kRows; }

}  // namespace headrace::onnx

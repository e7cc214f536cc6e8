// Reductions over axes, softmax.
#include <algorithm>
#include <numeric>

#include "onnx/lower.h"
#include "ops/reduce.h"

namespace headrace::onnx {
namespace {

using Kind = ops::ReduceAttrs::Kind;

template <Kind kind>
bool reduce(LowerContext& context) {
  const Result<int64_t> keep = context.integer("keepdims", 1), noop = context.integer("noop_with_empty_axes", 0);
  const Result<std::vector<int64_t>> listed = context.NodeReader::integers("axes", {});
  if (!context.all_f32_but(1) || !keep || !noop || !listed) return false;
  // From here on an input lists the axes; the attribute counts before alone.
  const bool by_input = context.opset() >= (kind == Kind::sum ? 13 : 18);
  std::vector<int64_t> axes;
  if (!by_input) axes = *listed;
  if (by_input && context.has_input(1)) {
    const auto given = context.integers(1);
    if (!given) return context.decline("axes that are computed");
    axes = *given;
  }
  ops::ReduceAttrs attrs{kind, {}, *keep != 0};
  for (const int64_t axis : axes) {
    const Result<int> known = normalize_axis(axis, context.rank(0));
    if (!known) return false;
    attrs.axes.push_back(*known);
  }
  std::ranges::sort(attrs.axes);
  if (axes.empty()) {
    if (*noop != 0) return false;
    attrs.axes.resize(static_cast<size_t>(context.rank(0)));
    std::iota(attrs.axes.begin(), attrs.axes.end(), 0);
  }
  if (attrs.axes.empty()) return false;  // of a scalar
  context.set(0, context.emit(ops::reduce, std::move(attrs), {context.input(0)}));
  return true;
}

template <bool kLog>
bool softmax(LowerContext& context) {
  const int rank = context.rank(0);
  const Result<int64_t> given = context.integer("axis", context.opset() < 13 ? 1 : -1);
  if (!context.all_f32() || !given || rank == 0) return false;
  const Result<int> axis = normalize_axis(*given, rank);
  if (!axis) return false;
  const Dims dims = context.dims(0);
  const ops::SoftmaxAttrs attrs{kLog};
  ValueId x = context.input(0);
  if (context.opset() < 13) {  // over all axes from this one on
    int64_t rows = 1, width = 1;
    for (int i = 0; i < rank; ++i) (i < *axis ? rows : width) *= dims[static_cast<size_t>(i)];
    context.set(0, context.reshape(context.emit(ops::softmax, attrs, {context.reshape(x, {rows, width})}), dims));
    return true;
  }
  std::vector<int32_t> swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(*axis)], swap.back());
  x = context.emit(ops::softmax, attrs, {context.transpose(x, swap)});
  context.set(0, context.transpose(x, swap));
  return true;
}

// Over all spatial axes.
template <Kind kind>
bool global_pool(LowerContext& context) {
  if (!context.all_f32() || context.rank(0) < 3) return false;
  ops::ReduceAttrs attrs{kind, {}, true};
  for (int32_t axis = 2; axis < context.rank(0); ++axis) attrs.axes.push_back(axis);
  context.set(0, context.emit(ops::reduce, std::move(attrs), {context.input(0)}));
  return true;
}

constexpr LowerRow kRows[] = {
    {"GlobalAveragePool", global_pool<Kind::mean>},
    {"GlobalMaxPool", global_pool<Kind::max>},
    {"LogSoftmax", softmax<true>},
    {"ReduceL1", reduce<Kind::l1>},
    {"ReduceL2", reduce<Kind::l2>},
    {"ReduceLogSumExp", reduce<Kind::log_sum_exp>},
    {"ReduceMax", reduce<Kind::max>},
    {"ReduceMean", reduce<Kind::mean>},
    {"ReduceMin", reduce<Kind::min>},
    {"ReduceProd", reduce<Kind::prod>},
    {"ReduceSum", reduce<Kind::sum>},
    {"ReduceSumSquare", reduce<Kind::sum_square>},
    {"Softmax", softmax<false>},
};

}  // namespace

std::span<const LowerRow> lower_reduce();
std::span<const LowerRow> lower_reduce() { return kRows; }

}  // namespace headrace::onnx

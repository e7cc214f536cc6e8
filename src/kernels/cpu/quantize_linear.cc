// quantize_linear and dequantize_linear: runs of elements with one scale, or along the last axis with one each. Bound by memory.
#include "ops/quantize_linear.h"

#include "kernels/cpu/elements.h"
#include "kernels/cpu/lanes8.h"

HR_BEGIN_KERNELS
namespace {

// Runs of `width` elements: run r has scale number r % scales, or with `by_element` its element i has scale i.
struct Runs {
  RowGrid grid;
  int64_t scales = 1;
  bool by_element = false;

  Runs(const TensorView& x, const TensorView& y, int64_t num_scales, int32_t axis) : grid(one_row_if(is_packed(x) && is_packed(y), x)) {
    if (num_scales == 1) return;
    int64_t inner = 1;
    for (int a = axis + 1; a < x.rank; ++a) inner *= x.dims[a];
    by_element = inner == 1;
    scales = by_element ? 1 : num_scales;
    const int64_t width = by_element ? num_scales : inner, elements = elements_of(x);
    grid = {width == 0 ? 0 : elements / width, width};
  }
};

// The place of element number `index`, where rows of the first axis may have gaps.
HR_INLINE int64_t offset_of(const TensorView& view, int64_t index) {
  if (view.rank == 0 || index == 0) return index;
  const int64_t row = elements_of(view) / view.dims[0];
  return index / row * view.strides[0] + index % row;
}

template <class T>
void quantize_runs(const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor, &zero = args.inputs[2].tensor;
  const float* scale = args.inputs[1].tensor.as<float>();
  const T* zeros = zero.as<T>();
  const Runs runs(x, y, zero.dims[0], args.attrs.as<ops::QuantizeLinearAttrs>().axis);
  over_pieces(team, runs.grid, false, [&](int64_t row, int64_t begin, int64_t end) {
    const float* from = x.as<float>() + offset_of(x, row * runs.grid.width);
    T* to = y.as<T>() + offset_of(y, row * runs.grid.width);
    const int64_t one = row % runs.scales;
    Quantizer quantizer(scale[one], static_cast<float>(zeros[one]), y.dtype);
    over_row(end - begin, [&](int64_t i, int n) {
      if (runs.by_element) {
        quantizer.scale = load_some(scale + begin + i, n);
        quantizer.zero = load_some(zeros + begin + i, n);
      }
      store_some(to + begin + i, quantizer(load_some(from + begin + i, n)), n);
    });
  });
}

HR_INLINE Lanes load_some(const int32_t* p, int n) {
  float values[kLanes] = {};
  for (int i = 0; i < n; ++i) values[i] = static_cast<float>(p[i]);
  return load(values);
}

template <class T>
void dequantize_runs(const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor, &zero = args.inputs[2].tensor;
  const float* scale = args.inputs[1].tensor.as<float>();
  const T* zeros = zero.as<T>();
  const Runs runs(x, y, zero.dims[0], args.attrs.as<ops::QuantizeLinearAttrs>().axis);
  over_pieces(team, runs.grid, false, [&](int64_t row, int64_t begin, int64_t end) {
    const T* from = x.as<T>() + offset_of(x, row * runs.grid.width);
    float* to = y.as<float>() + offset_of(y, row * runs.grid.width);
    const int64_t one = row % runs.scales;
    Lanes factor = broadcast(scale[one]), shift = broadcast(static_cast<float>(zeros[one]));
    over_row(end - begin, [&](int64_t i, int n) {
      if (runs.by_element) {
        factor = load_some(scale + begin + i, n);
        shift = load_some(zeros + begin + i, n);
      }
      store_some(to + begin + i, (load_some(from + begin + i, n) - shift) * factor, n);
    });
  });
}

void run_quantize(const StepContext&, const NodeArgs& args, Team& team) {
  with_8_bits(args.outputs[0].tensor.dtype, [&]<class T>(T) { quantize_runs<T>(args, team); });
}

void run_dequantize(const StepContext&, const NodeArgs& args, Team& team) {
  const DType dtype = args.inputs[0].tensor.dtype;
  if (dtype == DType::i32) return dequantize_runs<int32_t>(args, team);
  with_8_bits(dtype, [&]<class T>(T) { dequantize_runs<T>(args, team); });
}

constexpr Kernel kQuantize{.op = &ops::quantize_linear, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_quantize};
constexpr Kernel kDequantize{.op = &ops::dequantize_linear, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_dequantize};

}  // namespace

const KernelList kernels_quantize_linear = {&kQuantize, 1};
const KernelList kernels_dequantize_linear = {&kDequantize, 1};
HR_END_KERNELS

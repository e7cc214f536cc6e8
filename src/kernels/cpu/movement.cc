// transpose, concat, slice, expand (strided_copy.h), pad, gather, where: bound by memory, each element read and written once. They look at
// the size of elements alone.
#include "ops/movement.h"

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/strided_copy.h"

HR_BEGIN_KERNELS
namespace {

size_t element_bytes(const TensorView& view) { return dtype_bytes(view.dtype); }

// ---- boxes --------------------------------------------------------------------------------------

void run_transpose(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& perm = args.attrs.as<ops::TransposeAttrs>().perm;
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor;
  CopyBox box;
  for (int axis = 0; axis < y.rank; ++axis) box.add(y.dims[axis], x.strides[perm[axis]], y.strides[axis]);
  with_element(element_bytes(y), [&]<class T>(T) { copy_box(box, x.as<T>(), y.as<T>(), team); });
}

void run_slice(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::SliceAttrs>();
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor;
  CopyBox box;
  int64_t first = 0;
  for (int axis = 0; axis < y.rank; ++axis) {
    first += attrs.begin[axis] * x.strides[axis];
    box.add(y.dims[axis], attrs.step[axis] * x.strides[axis], y.strides[axis]);
  }
  if (box.empty) return;
  with_element(element_bytes(y), [&]<class T>(T) { copy_box(box, x.as<T>() + first, y.as<T>(), team); });
}

void run_expand(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor;
  CopyBox box;
  for (int axis = 0; axis < y.rank; ++axis) {
    const int from = axis - (y.rank - x.rank);
    box.add(y.dims[axis], from < 0 || x.dims[from] == 1 ? 0 : x.strides[from], y.strides[axis]);
  }
  with_element(element_bytes(y), [&]<class T>(T) { copy_box(box, x.as<T>(), y.as<T>(), team); });
}

void run_concat(const StepContext&, const NodeArgs& args, Team& team) {
  const int32_t along = args.attrs.as<ops::ConcatAttrs>().axis;
  const TensorView& y = args.outputs[0].tensor;
  int64_t begin = 0;
  for (const Arg& input : args.inputs) {
    const TensorView& x = input.tensor;
    CopyBox box;
    for (int axis = 0; axis < y.rank; ++axis) box.add(x.dims[axis], x.strides[axis], y.strides[axis]);
    with_element(element_bytes(y), [&]<class T>(T) { copy_box(box, x.as<T>(), y.as<T>() + begin * y.strides[along], team); });
    begin += x.dims[along];
  }
}

// ---- pad ----------------------------------------------------------------------------------------

// The bits of the constant.
template <class T>
HR_INLINE T constant_of(DType dtype, double value) {
  T bits{};
  const auto put = [&](auto stored) { std::memcpy(&bits, &stored, sizeof stored < sizeof bits ? sizeof stored : sizeof bits); };
  switch (dtype) {
    case DType::f64:
    case DType::c128: put(value); break;
    case DType::f32:
    case DType::c64: put(static_cast<float>(value)); break;
    case DType::f16: put(narrow<f16>(static_cast<float>(value))); break;
    case DType::bf16: put(narrow<bf16>(static_cast<float>(value))); break;
    case DType::boolean: put(static_cast<uint8_t>(value != 0)); break;
    case DType::u64: put(static_cast<uint64_t>(value)); break;
    default: put(static_cast<int64_t>(value)); break;  // the low bytes of an integer
  }
  return bits;
}

// The place of x's axis that stands `at` places from its begin, inside or outside; -1 for the constant.
HR_INLINE int64_t padded_place(ops::PadAttrs::Mode mode, int64_t at, int64_t dim) {
  if (at >= 0 && at < dim) return at;
  switch (mode) {
    case ops::PadAttrs::Mode::constant: return -1;
    case ops::PadAttrs::Mode::edge: return at < 0 ? 0 : dim - 1;
    case ops::PadAttrs::Mode::reflect: return at < 0 ? -at : 2 * (dim - 1) - at;
    case ops::PadAttrs::Mode::wrap: return (at % dim + dim) % dim;
  }
  return -1;
}

// Trailing axes without padding are one run; a line is all places of the last padded axis.
template <class T>
void pad_lines(const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::PadAttrs>();
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor;
  const T value = constant_of<T>(y.dtype, attrs.value);
  int padded = y.rank - 1;
  int64_t run = 1;
  while (padded > 0 && attrs.before[padded] + attrs.after[padded] == 0 && x.strides[padded] == run && y.strides[padded] == run) {
    run *= y.dims[padded--];
  }
  int64_t lines = 1;
  for (int axis = 0; axis < padded; ++axis) lines *= y.dims[axis];
  const int64_t places = y.dims[padded], dim = x.dims[padded], before = attrs.before[padded];
  const Team::Range share = team.share(lines);
  for (int64_t line = share.begin; line < share.end; ++line) {
    int64_t from = 0, to = 0, left = line;
    bool constant = false;
    for (int axis = padded - 1; axis >= 0; --axis) {
      const int64_t at = left % y.dims[axis], place = padded_place(attrs.mode, at - attrs.before[axis], x.dims[axis]);
      left /= y.dims[axis];
      to += at * y.strides[axis];
      from += place * x.strides[axis];
      constant = constant || place < 0;
    }
    for (int64_t at = 0; at < places; ++at) {
      const int64_t place = constant ? -1 : padded_place(attrs.mode, at - before, dim);
      T* target = y.as<T>() + to + at * y.strides[padded];
      if (place < 0) {
        for (int64_t i = 0; i < run; ++i) target[i] = value;
      } else if (at == before && x.strides[padded] == run && y.strides[padded] == run) {
        copy_run(x.as<T>() + from, target, dim * run);  // all that lies inside
        at += dim - 1;
      } else {
        copy_run(x.as<T>() + from + place * x.strides[padded], target, run);
      }
    }
  }
}

void run_pad(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& y = args.outputs[0].tensor;
  if (y.rank == 0) {
    if (team.rank() == 0) std::memcpy(y.data, args.inputs[0].tensor.data, element_bytes(y));
    return;
  }
  with_element(element_bytes(y), [&]<class T>(T) { pad_lines<T>(args, team); });
}

// ---- gather -------------------------------------------------------------------------------------

template <class T>
void gather_runs(const StepContext& step, const NodeArgs& args, Team& team) {
  const int32_t axis = args.attrs.as<ops::GatherAttrs>().axis;
  const TensorView &x = args.inputs[0].tensor, &index = args.inputs[1].tensor, &y = args.outputs[0].tensor;
  int64_t outer = 1, run = 1;
  for (int a = 0; a < axis; ++a) outer *= x.dims[a];
  for (int a = axis + 1; a < x.rank; ++a) run *= x.dims[a];
  const int64_t dim = x.dims[axis], picks = elements_of(index);
  // Outer places step along the axis before; of a matrix that is its rows, which may be windows.
  const int64_t x_outer = axis == 0 ? 0 : x.strides[axis - 1], y_outer = axis == 0 ? 0 : y.strides[axis - 1];
  const int64_t y_pick = index.rank == 0 ? 0 : y.strides[axis + index.rank - 1];
  const Team::Range share = team.share(outer * picks);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t pick = unit % picks, place = unit / picks;
    const int64_t wanted = index.dtype == DType::i64 ? index.as<int64_t>()[pick] : index.as<int32_t>()[pick];
    T* target = y.as<T>() + place * y_outer + pick * y_pick;
    if (wanted >= -dim && wanted < dim) {
      copy_run(x.as<T>() + place * x_outer + (wanted < 0 ? wanted + dim : wanted) * x.strides[axis], target, run);
      continue;
    }
    if (step.errors != nullptr) step.errors->out_of_range(args.node, wanted, -dim, dim);
    if (run > 0) std::memset(target, 0, static_cast<size_t>(run) * sizeof(T));  // an empty output may lie nowhere
  }
}

void run_gather(const StepContext& step, const NodeArgs& args, Team& team) {
  with_element(element_bytes(args.outputs[0].tensor), [&]<class T>(T) { gather_runs<T>(step, args, team); });
}

// ---- where --------------------------------------------------------------------------------------

template <class T>
void choose(const NodeArgs& args, Team& team) {
  const Broadcast<3> walk(args);
  over_pieces(team, walk.rows, false, [&](int64_t row, int64_t begin, int64_t end) {
    int64_t at[4];
    walk.place(row, at);
    const uint8_t* condition = args.inputs[0].tensor.as<uint8_t>() + at[0] + begin * walk.inner[0];
    const T* a = args.inputs[1].tensor.as<T>() + at[1] + begin * walk.inner[1];
    const T* b = args.inputs[2].tensor.as<T>() + at[2] + begin * walk.inner[2];
    T* y = args.outputs[0].tensor.as<T>() + at[3] + begin;
    const int64_t width = end - begin;
    if (walk.inner[0] == 0) {
      const bool first = *condition != 0;
      const T* from = first ? a : b;
      const int64_t step = walk.inner[first ? 1 : 2];
      for (int64_t i = 0; i < width; ++i) y[i] = from[i * step];
    } else if (walk.inner[1] == 1 && walk.inner[2] == 1) {
      for (int64_t i = 0; i < width; ++i) y[i] = condition[i] != 0 ? a[i] : b[i];
    } else if (walk.inner[1] == 1) {
      const T other = *b;
      for (int64_t i = 0; i < width; ++i) y[i] = condition[i] != 0 ? a[i] : other;
    } else if (walk.inner[2] == 1) {
      const T one = *a;
      for (int64_t i = 0; i < width; ++i) y[i] = condition[i] != 0 ? one : b[i];
    } else {
      const T one = *a, other = *b;
      for (int64_t i = 0; i < width; ++i) y[i] = condition[i] != 0 ? one : other;
    }
  });
}

void run_where(const StepContext&, const NodeArgs& args, Team& team) {
  with_element(element_bytes(args.outputs[0].tensor), [&]<class T>(T) { choose<T>(args, team); });
}

constexpr Kernel row_of(const Op& op, void (*run)(const StepContext&, const NodeArgs&, Team&)) {
  return {.op = &op, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run};
}
constexpr Kernel kTranspose = row_of(ops::transpose, run_transpose);
constexpr Kernel kConcat = row_of(ops::concat, run_concat);
constexpr Kernel kSlice = row_of(ops::slice, run_slice);
constexpr Kernel kPad = row_of(ops::pad, run_pad);
constexpr Kernel kExpand = row_of(ops::expand, run_expand);
constexpr Kernel kGather = row_of(ops::gather, run_gather);
constexpr Kernel kWhere = row_of(ops::where, run_where);

}  // namespace

const KernelList kernels_transpose = {&kTranspose, 1};
const KernelList kernels_concat = {&kConcat, 1};
const KernelList kernels_slice = {&kSlice, 1};
const KernelList kernels_pad = {&kPad, 1};
const KernelList kernels_expand = {&kExpand, 1};
const KernelList kernels_gather = {&kGather, 1};
const KernelList kernels_where = {&kWhere, 1};
HR_END_KERNELS

// cast: one loop for each pair of types, which the compiler makes into vectors; half floats go through float32 in blocks of 256. Bound by
// memory.
#include "kernels/cpu/elements.h"
#include "ops/movement.h"

HR_BEGIN_KERNELS
namespace {

struct Boolean {
  uint8_t value;
};
template <class T>
constexpr bool kIsHalf = false;
template <>
constexpr bool kIsHalf<f16> = true;
template <>
constexpr bool kIsHalf<bf16> = true;

// Plain numbers and booleans.
template <class From, class To>
HR_INLINE void convert_plain(const From* x, int64_t count, To* y) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<From, Boolean> && std::is_same_v<To, Boolean>) {
      y[i].value = x[i].value != 0;
    } else if constexpr (std::is_same_v<From, Boolean>) {
      y[i] = static_cast<To>(x[i].value != 0);
    } else if constexpr (std::is_same_v<To, Boolean>) {
      y[i].value = x[i] != 0;
    } else if constexpr (std::is_floating_point_v<From> && sizeof(To) == 1) {
      y[i] = static_cast<To>(static_cast<int32_t>(x[i]));
    } else {
      y[i] = static_cast<To>(x[i]);
    }
  }
}

template <class Half>
HR_INLINE void widen(const Half* x, int64_t count, float* y) {
  over_row(count, [&](int64_t i, int n) { store_some(y + i, n == kLanes ? load(x + i) : load_part(x + i, n), n); });
}
template <class Half>
HR_INLINE void narrow_all(const float* x, int64_t count, Half* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load(x + i));
  for (; i < count; ++i) y[i] = narrow<Half>(x[i]);
}

// At most kPiece elements.
template <class From, class To>
HR_INLINE void convert(const From* x, int64_t count, To* y) {
  if constexpr (!kIsHalf<From> && !kIsHalf<To>) {
    convert_plain(x, count, y);
  } else {
    float block[kPiece];
    const float* floats = block;
    if constexpr (kIsHalf<From>) {
      widen(x, count, block);
    } else if constexpr (std::is_same_v<From, float>) {
      floats = x;
    } else {
      convert_plain(x, count, block);
    }
    if constexpr (kIsHalf<To>) {
      narrow_all(floats, count, y);
    } else {
      convert_plain(floats, count, y);
    }
  }
}

template <class From, class To>
void run_pair(const TensorView& x, const TensorView& y, Team& team) {
  over_pieces(team, one_row_if(is_packed(x) && is_packed(y), y), false, [&](int64_t row, int64_t begin, int64_t end) {
    const From* from = x.as<From>() + (row == 0 ? 0 : row * x.strides[0]);
    To* to = y.as<To>() + (row == 0 ? 0 : row * y.strides[0]);
    for (int64_t at = begin; at < end; at += kPiece) convert(from + at, end - at < kPiece ? end - at : kPiece, to + at);
  });
}

// Calls use(T()) for the dtype; infer() lets no other come.
template <class Use>
HR_INLINE void with_number(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32: return use(float{});
    case DType::f16: return use(f16{});
    case DType::bf16: return use(bf16{});
    case DType::f64: return use(double{});
    case DType::i8: return use(int8_t{});
    case DType::u8: return use(uint8_t{});
    case DType::i32: return use(int32_t{});
    case DType::i64: return use(int64_t{});
    case DType::boolean: return use(Boolean{});
    default: return;
  }
}

void run_cast(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView &x = args.inputs[0].tensor, &y = args.outputs[0].tensor;
  with_number(x.dtype, [&]<class From>(From) {
    with_number(y.dtype, [&]<class To>(To) { run_pair<From, To>(x, y, team); });
  });
}

constexpr Kernel kCast{.op = &ops::cast, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_cast};

}  // namespace

const KernelList kernels_cast = {&kCast, 1};
HR_END_KERNELS

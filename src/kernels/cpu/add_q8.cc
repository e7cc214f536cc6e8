// add_q8: pieces of the elements, in lanes of floats. Bound by memory: three bytes an element.
#include "ops/add_q8.h"

#include "kernels/cpu/elements.h"
#include "kernels/cpu/lanes8.h"
#include "kernels/cpu/unary_lanes.h"

HR_BEGIN_KERNELS
namespace {

struct Number {
  Lanes scale, zero;
  HR_INLINE explicit Number(const ops::Quantization& q) : scale(broadcast(q.scale)), zero(broadcast(static_cast<float>(q.zero))) {}
  HR_INLINE Lanes operator()(Lanes q) const { return (q - zero) * scale; }
};

template <class A, class B, class Y>
HR_INLINE void run_types(const ops::AddQ8Attrs& attrs, const NodeArgs& args, Team& team) {
  const TensorView &a = args.inputs[0].tensor, &b = args.inputs[1].tensor, &y = args.outputs[0].tensor;
  const Number of_a(attrs.a), of_b(attrs.b);
  const Quantizer quantizer(attrs.y);
  const Bounds bounds(attrs.activation);  // relu or clip
  const Lanes low = broadcast(bounds.low), high = broadcast(bounds.high);
  const RowGrid rows = one_row_if(is_packed(a) && is_packed(b) && is_packed(y), y);
  over_pieces(team, rows, false, [&](int64_t row, int64_t begin, int64_t end) {
    const auto start = [&](const TensorView& view) { return begin + (row == 0 ? 0 : row * view.strides[0]); };
    const A* from_a = a.as<A>() + start(a);
    const B* from_b = b.as<B>() + start(b);
    Y* to = y.as<Y>() + start(y);
    over_row(end - begin, [&](int64_t i, int n) {
      const Lanes sum = of_a(load_some(from_a + i, n)) + of_b(load_some(from_b + i, n));
      store_some(to + i, quantizer(min(high, max(low, sum))), n);
    });
  });
}

void run(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::AddQ8Attrs>();
  with_8_bits(attrs.a.dtype, [&]<class A>(A) {
    with_8_bits(attrs.b.dtype, [&]<class B>(B) { with_8_bits(attrs.y.dtype, [&]<class Y>(Y) { run_types<A, B, Y>(attrs, args, team); }); });
  });
}

constexpr Kernel kAdd{.op = &ops::add_q8, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run};

}  // namespace

const KernelList kernels_add_q8 = {&kAdd, 1};
HR_END_KERNELS

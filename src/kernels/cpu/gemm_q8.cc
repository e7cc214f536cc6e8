// gemm_q8: the products of q8_tile.h. Rows of whole words are read where they lie, others are copied.
#include "ops/gemm_q8.h"

#include "kernels/cpu/q8_tile.h"

HR_BEGIN_KERNELS
namespace {

constexpr std::string_view kForm = kPanelWidth == 32 ? "gemm_q8 panels of 32, transposed" : "gemm_q8 panels of 16, transposed";

// A weight [K, N] or [N, K].
struct Matrix8 {
  const int8_t* data;
  int64_t term_step, column_step;
  Matrix8(const std::byte* bytes, const Q8Shape& s, bool transposed)
      : data(reinterpret_cast<const int8_t*>(bytes)), term_step(transposed ? 1 : s.columns), column_step(transposed ? s.terms : 1) {}
  HR_INLINE int8_t operator()(int64_t, int64_t column, int64_t term) const { return data[term * term_step + column * column_step]; }
};

Q8Shape shape_of(const NodeSizes& sizes) {
  const bool transposed = sizes.attrs.as<ops::GemmQ8Attrs>().trans_b;
  const int64_t rows = sizes.inputs[1].shape[0].constant(), columns = sizes.inputs[1].shape[1].constant();
  return transposed ? Q8Shape{1, columns, rows} : Q8Shape{1, rows, columns};
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  return static_cast<size_t>(team_size * shape_of(sizes).scratch_bytes());
}

void pack(const NodeSizes& sizes, const std::byte* constant, std::byte* out) {
  const Q8Shape s = shape_of(sizes);
  pack_all8(s, out, Matrix8(constant, s, sizes.attrs.as<ops::GemmQ8Attrs>().trans_b));
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Q8Shape s = shape_of(setup.sizes);
  return ops::pack_constant(setup, 1, kForm, setup.sizes.attrs.as<ops::GemmQ8Attrs>().trans_b ? 1 : 0,
                            static_cast<uint64_t>(s.packed_bytes()), pack);
}

void run(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::GemmQ8Attrs>();
  const TensorView &x = args.inputs[0].tensor, &weight = args.inputs[1].tensor;
  const Q8Shape s{1, weight.dims[attrs.trans_b ? 1 : 0], weight.dims[attrs.trans_b ? 0 : 1]};
  const bool in_place = s.terms % 4 == 0 && rows_follow(x);
  const auto windows_of = [&](int64_t first, int64_t count, int64_t, uint8_t* buffer) -> Rows8 {
    if (in_place) return {x.as<uint8_t>() + row_offset(x, first), x.strides[x.rank - 2]};
    for (int64_t row = 0; row < count; ++row) {
      __builtin_memcpy(buffer + row * s.window_stride(), x.as<uint8_t>() + row_offset(x, first + row), static_cast<size_t>(s.terms));
    }
    return {buffer, s.window_stride()};
  };
  run_q8(s, attrs.q8, args, team, windows_of, Matrix8(weight.as<std::byte>(), s, attrs.trans_b));
}

constexpr Kernel kGemm = packing_kernel(ops::gemm_q8, scratch_bytes, prepare, run);

}  // namespace

const KernelList kernels_gemm_q8 = {&kGemm, 1};
HR_END_KERNELS

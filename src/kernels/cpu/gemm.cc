// gemm: a claim is a panel of columns of one matrix x a block of rows. The panel is packed where it is used, a chunk of terms at a
// time: 1 / rows of the arithmetic. A column block's row blocks are claimed one after another, few where columns and matrices already
// feed the team. For few rows a whole panel is read where it lies: packing would cost as much as the product.
#include "ops/gemm.h"

#include "kernels/cpu/product_tile.h"

HR_BEGIN_KERNELS
namespace {

constexpr int64_t kFewRows = 4;
constexpr int64_t kRowBlock = 20 * kMaxTileRows;  // least rows of a claim where a panel is packed more than once

size_t scratch_bytes(const NodeSizes&, int team_size) {
  return static_cast<size_t>(team_size) * kChunkTerms * kPanelWidth * sizeof(float);
}

// Columns [first, first + columns) of terms [0, terms) of b as [terms][kPanelWidth], zeros behind the last column.
void pack(const float* b, int64_t stride, bool transposed, int64_t terms, int columns, float* panel) {
  if (!transposed) {
    for (int64_t k = 0; k < terms; ++k, b += stride, panel += kPanelWidth) {
      for (int c = 0; c < kPanelWidth; c += kLanes) {
        const int count = columns - c;
        store(panel + c, count >= kLanes ? load(b + c) : count <= 0 ? zero() : load_part(b + c, count));
      }
    }
    return;
  }
  for (int c = 0; c < kPanelWidth; ++c) {
    for (int64_t k = 0; k < terms; ++k) panel[k * kPanelWidth + c] = c < columns ? b[c * stride + k] : 0.0f;
  }
}

// Where matrix number `batch` of the output's batch starts in `view`, whose axes broadcast.
int64_t matrix_offset(const TensorView& view, const TensorView& out, int64_t batch) {
  const int shift = out.rank - view.rank;
  int64_t offset = 0;
  for (int axis = out.rank - 3; axis >= 0; --axis) {
    const int64_t at = batch % out.dims[axis];
    batch /= out.dims[axis];
    if (axis >= shift && view.dims[axis - shift] != 1) offset += at * view.strides[axis - shift];
  }
  return offset;
}

void run_gemm(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::GemmAttrs>();
  const TensorView& a = args.inputs[0].tensor;
  const TensorView& b = args.inputs[1].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const EpilogueArgs epilogue(attrs.epilogue, args, 2);
  const int64_t rows = out.dims[out.rank - 2], columns = out.dims[out.rank - 1], terms = a.dims[a.rank - 1];
  if (out.elements() == 0) return;
  const int64_t matrices = out.elements() / (rows * columns), panels = panels_of(columns);
  // Row blocks only as far as the team needs them.
  const int64_t wanted = ceil_of(4 * team.size(), matrices * panels);
  const int64_t blocks = larger(1, smaller(wanted, rows / kRowBlock));
  float* panel = reinterpret_cast<float*>(args.scratch) + team.rank() * kChunkTerms * kPanelWidth;

  for (int64_t claim; (claim = team.claim(matrices * panels * blocks)) >= 0;) {
    const int64_t block = claim % blocks, column = claim / blocks % panels * kPanelWidth, matrix = claim / blocks / panels;
    const int64_t first_row = rows * block / blocks, end_row = rows * (block + 1) / blocks;
    const float* from_a = a.as<float>() + matrix_offset(a, out, matrix) + first_row * a.strides[a.rank - 2];
    const int64_t b_stride = b.strides[b.rank - 2];
    const float* from_b = b.as<float>() + matrix_offset(b, out, matrix) + (attrs.trans_b ? column * b_stride : column);
    Finish finish = epilogue.finish_at(column, attrs.scale);
    if (epilogue.residual != nullptr) {
      const TensorView& residual = *epilogue.residual;
      finish.residual_stride = residual.strides[out.rank - 2];
      finish.residual =
          residual.as<float>() + matrix_offset(residual, out, matrix) + first_row * finish.residual_stride + column;
    }
    const int count = static_cast<int>(smaller(kPanelWidth, columns - column));
    const bool in_place = !attrs.trans_b && count == kPanelWidth && end_row - first_row <= kFewRows;
    const Product product{.a = from_a,
                          .a_stride = a.strides[a.rank - 2],
                          .terms = terms,
                          .out = out.as<float>() + matrix_offset(out, out, matrix) + first_row * out.strides[out.rank - 2] + column,
                          .out_stride = out.strides[out.rank - 2],
                          .columns = count,
                          .panel_stride = in_place ? b_stride : kPanelWidth};
    multiply_chunks(product, finish, end_row - first_row, [&](int64_t first, int64_t chunk) -> const float* {
      if (in_place) return from_b + first * b_stride;
      pack(from_b + (attrs.trans_b ? first : first * b_stride), b_stride, attrs.trans_b, chunk, count, panel);
      return panel;
    });
  }
}

constexpr Kernel kGemm{.op = &ops::gemm,
                       .name = kIsaName,
                       .isa = kIsa,
                       .priority = kIsaPriority,
                       .scratch_bytes = scratch_bytes,
                       .run = run_gemm};

}  // namespace

const KernelList kernels_gemm = {&kGemm, 1};
HR_END_KERNELS

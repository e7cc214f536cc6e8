#pragma once
// Products of float rows with a packed panel of kPanelWidth columns: what gemm and conv are made of.
//
// A register tile is up to kTileRows rows x kPanelWidth columns; a result is one chain acc = fma(a, b, acc) over rising terms. Per
// term a tile loads a line or two of the panel (from L2) and broadcasts one number a row (from L1): AVX-512 has 24 accumulators and
// 14 loads for 24 multiply-adds, so that arithmetic is the bound. Terms go in chunks of kChunkTerms, whose panel of 32-64 KB stays
// in L2 while all rows of a block pass; between chunks the sums wait in the output.

#include <utility>

#include "kernels/cpu/row.h"
#include "kernels/cpu/unary_lanes.h"
#include "ops/conv.h"
#include "ops/epilogue.h"
#include "ops/packed_constant.h"

HR_BEGIN_KERNELS
namespace {

constexpr int kPanelLanes = kIsa == Isa::avx512 ? 2 : 1;
constexpr int kPanelWidth = kPanelLanes * kLanes;
constexpr int kMaxTileRows = kIsa == Isa::avx512 ? 12 : kIsa == Isa::avx2 ? 6 : 2;
constexpr int64_t kChunkTerms = 512;

HR_INLINE int64_t panels_of(int64_t columns) { return ceil_of(columns, kPanelWidth); }

// What happens to the sums of a panel's columns after the last term.
struct Finish {
  float scale = 1.0f;
  const float* bias = nullptr;                     // of the panel's first column; null: none
  const float* residual = nullptr;                 // of the first row and column; null: none
  int64_t residual_stride = 0;
  float low = kMinusInfinity, high = -kMinusInfinity;  // y = min(max(x, low), high)
  const ops::UnaryAttrs* activation = nullptr;         // what is more than that
};

struct Product {
  const float* a;  // [rows][terms], rows a_stride apart
  int64_t a_stride;
  int64_t terms;
  float* out;  // [rows][columns], rows out_stride apart
  int64_t out_stride;
  int columns;                   // of the panel that count
  const float* panel = nullptr;  // [terms][kPanelWidth], terms panel_stride apart
  int64_t panel_stride = kPanelWidth;
  bool first = true, last = true;  // chunk of the terms
};

template <int R>
void multiply_rows(const Product& p, const Finish& finish) {
  Lanes acc[R][kPanelLanes];
  int count[kPanelLanes];
  for (int c = 0; c < kPanelLanes; ++c) {
    const int left = p.columns - c * kLanes;
    count[c] = left < 0 ? 0 : left > kLanes ? kLanes : left;
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < kPanelLanes; ++c) {
      acc[r][c] = p.first ? zero() : load_some(p.out + r * p.out_stride + c * kLanes, count[c]);
    }
  }
  const float* b = p.panel;
  for (int64_t k = 0; k < p.terms; ++k, b += p.panel_stride) {
    Lanes columns[kPanelLanes];
    for (int c = 0; c < kPanelLanes; ++c) columns[c] = load(b + c * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Lanes row = broadcast(p.a[r * p.a_stride + k]);
      for (int c = 0; c < kPanelLanes; ++c) acc[r][c] = mul_add(row, columns[c], acc[r][c]);
    }
  }
  for (int c = 0; c < kPanelLanes; ++c) {
    if (count[c] == 0) continue;
    const Lanes scale = broadcast(finish.scale);
    const Lanes bias = finish.bias == nullptr ? zero() : load_some(finish.bias + c * kLanes, count[c]);
    for (int r = 0; r < R; ++r) {
      Lanes sum = acc[r][c];
      if (p.last) {
        sum = mul_add(sum, scale, bias);
        if (finish.residual != nullptr) {
          sum = sum + load_some(finish.residual + r * finish.residual_stride + c * kLanes, count[c]);
        }
        sum = min(broadcast(finish.high), max(broadcast(finish.low), sum));
      }
      store_some(p.out + r * p.out_stride + c * kLanes, sum, count[c]);
    }
  }
}

using MultiplyRows = void (*)(const Product&, const Finish&);
// By the number of rows.
template <class>
struct MultiplyTable;
template <int... R>
struct MultiplyTable<std::integer_sequence<int, R...>> {
  static constexpr MultiplyRows kByRows[] = {nullptr, multiply_rows<R + 1>...};
};

// The function of each element of `rows` rows that have just been stored.
void activate_rows(const ops::UnaryAttrs& attrs, float* out, int64_t stride, int64_t rows, int columns) {
  with_unary(attrs, [&](auto function) {
    for (int64_t r = 0; r < rows; ++r, out += stride) {
      over_row(columns, [&](int64_t i, int n) { store_some(out + i, function(load_some(out + i, n)), n); });
    }
  });
}

// `rows` rows of a product, in register tiles of nearly equal height.
void multiply_block(Product p, Finish finish, int64_t rows) {
  constexpr const auto& kTable = MultiplyTable<std::make_integer_sequence<int, kMaxTileRows>>::kByRows;
  const int64_t parts = ceil_of(rows, kMaxTileRows);
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t end = rows * (part + 1) / parts, count = end - first;
    kTable[count](p, finish);
    if (p.last && finish.activation != nullptr) activate_rows(*finish.activation, p.out, p.out_stride, count, p.columns);
    p.a += count * p.a_stride;
    p.out += count * p.out_stride;
    if (finish.residual != nullptr) finish.residual += count * finish.residual_stride;
    first = end;
  }
}

// The same over all chunks of `p.terms` terms; panel_of(first term, terms) gives the panel of a chunk.
template <class PanelOf>
HR_INLINE void multiply_chunks(const Product& p, const Finish& finish, int64_t rows, PanelOf panel_of) {
  for (int64_t first = 0; first == 0 || first < p.terms; first += kChunkTerms) {
    Product chunk = p;
    chunk.a += first;
    chunk.terms = smaller(kChunkTerms, p.terms - first);
    chunk.panel = panel_of(first, chunk.terms);
    chunk.first = first == 0;
    chunk.last = first + kChunkTerms >= p.terms;
    multiply_block(chunk, finish, rows);
  }
}

// An epilogue at run time. Functions that only bound their argument are done in registers, the others where a row has been stored.
struct EpilogueArgs : Bounds {
  const float* bias = nullptr;
  const TensorView* residual = nullptr;

  // The inputs stand after `first` others.
  EpilogueArgs(const ops::Epilogue& epilogue, const NodeArgs& args, int first) : Bounds(epilogue.activation) {
    if (epilogue.bias) bias = args.inputs[first++].tensor.as<float>();
    if (epilogue.residual) residual = &args.inputs[first].tensor;
  }
  // For columns from `column` on; the residual is the caller's to point at.
  Finish finish_at(int64_t column, float scale = 1.0f) const {
    return {.scale = scale, .bias = bias == nullptr ? nullptr : bias + column, .low = low, .high = high, .activation = activation};
  }
};

// What ops::pack_constant() made of the weight; null where that is no constant.
HR_INLINE const std::byte* packed_of(const NodeArgs& args) {
  return args.state == nullptr ? nullptr : static_cast<const ops::PackedConstant*>(args.state)->data;
}

// The kernel of an op whose prepare() packs the weight.
constexpr Kernel packing_kernel(const Op& op, size_t (*scratch_bytes)(const NodeSizes&, int),
                                Result<std::shared_ptr<const KernelState>> (*prepare)(const NodeSetup&), Run run) {
  return {.op = &op,
          .name = kIsaName,
          .isa = kIsa,
          .priority = kIsaPriority,
          .scratch_bytes = scratch_bytes,
          .prepare = prepare,
          .run = run};
}

// Channels-last images: whether the image's own rows are the windows of a convolution by [kh, kw].
HR_INLINE bool is_pointwise(const ops::ConvAttrs& a, int64_t kh, int64_t kw, const TensorView& x) {
  return kh == 1 && kw == 1 && a.stride[0] == 1 && a.stride[1] == 1 && a.pads[0] == 0 && a.pads[1] == 0 && a.pads[2] == 0 &&
         a.pads[3] == 0 && a.output_pad[0] == 0 && a.output_pad[1] == 0 && rows_follow(x);
}

}  // namespace
HR_END_KERNELS

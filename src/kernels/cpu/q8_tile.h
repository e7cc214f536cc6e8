#pragma once
// Products of 8-bit rows with packed panels of kPanelWidth columns of i8 weights: what gemm_q8 and conv_q8 are made of.
//
// A panel is [words][kPanelWidth][4] weights, four terms of a column side by side, zeros behind the last term and column, and then the sum
// of each column. i8 rows are read as u8, 128 higher; what the zero point adds to a sum is zero * (the column's sum), taken off at the
// start. A tile is up to kRows8 rows x kPanelWidth columns of int32 sums, exact. AVX-512 does four terms of sixteen columns in one
// instruction, 24 of them for 14 loads. AVX2 widens even and odd terms to 16 bits first: products of u8 and i8 pairs do not fit there.

#include "kernels/cpu/lanes8.h"
#include "kernels/cpu/product_tile.h"

HR_BEGIN_KERNELS
namespace {

constexpr int kRows8 = kIsa == Isa::avx512 ? 12 : kIsa == Isa::avx2 ? 4 : 2;

HR_INLINE int32_t word_at(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}

// Sums: sixteen of int32. Words: four weights for each. dot(): sums += words * the four numbers of `x`, which `flip` makes u8.
#if defined(HEADRACE_ISA_AVX512)
struct Sums {
  __m512i v;
};
struct Words {
  __m512i v;
};
HR_INLINE Sums load_sums(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
HR_INLINE Words load_words(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
HR_INLINE void dot(Sums* sums, const Words* words, const uint8_t* x, int32_t flip) {
  const __m512i numbers = _mm512_set1_epi32(word_at(x) ^ flip);
  for (int c = 0; c < kPanelLanes; ++c) sums[c].v = _mm512_dpbusd_epi32(sums[c].v, numbers, words[c].v);
}
HR_INLINE Lanes to_floats(Sums sums) { return {_mm512_cvtepi32_ps(sums.v)}; }
#elif defined(HEADRACE_ISA_AVX2)
struct Sums {
  __m256i lo, hi;
};
struct Words {
  __m256i even_lo, even_hi, odd_lo, odd_hi;
};
HR_INLINE Sums load_sums(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
HR_INLINE Words load_words(const int8_t* p) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  return {_mm256_srai_epi16(_mm256_slli_epi16(lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(hi, 8), 8), _mm256_srai_epi16(lo, 8),
          _mm256_srai_epi16(hi, 8)};
}
HR_INLINE void dot(Sums* sums, const Words* words, const uint8_t* x, int32_t flip) {
  const __m256i numbers = _mm256_set1_epi32(word_at(x) ^ flip);
  const __m256i even = _mm256_and_si256(numbers, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(numbers, 8);
  sums->lo = _mm256_add_epi32(sums->lo, _mm256_add_epi32(_mm256_madd_epi16(words->even_lo, even), _mm256_madd_epi16(words->odd_lo, odd)));
  sums->hi = _mm256_add_epi32(sums->hi, _mm256_add_epi32(_mm256_madd_epi16(words->even_hi, even), _mm256_madd_epi16(words->odd_hi, odd)));
}
HR_INLINE Lanes to_floats(Sums sums) { return {_mm256_cvtepi32_ps(sums.lo), _mm256_cvtepi32_ps(sums.hi)}; }
#else
struct Sums {
  uint32_t v[kLanes];
};
struct Words {
  const int8_t* p;
};
HR_INLINE Sums load_sums(const int32_t* p) {
  Sums sums;
  std::memcpy(&sums, p, sizeof sums);
  return sums;
}
HR_INLINE Words load_words(const int8_t* p) { return {p}; }
HR_INLINE void dot(Sums* sums, const Words* words, const uint8_t* x, int32_t flip) {
  const int32_t word = word_at(x) ^ flip;
  uint8_t numbers[4];
  std::memcpy(numbers, &word, sizeof word);
  for (int i = 0; i < kLanes; ++i) {
    int32_t sum = 0;
    for (int t = 0; t < 4; ++t) sum += words->p[4 * i + t] * numbers[t];
    sums->v[i] += static_cast<uint32_t>(sum);
  }
}
HR_INLINE Lanes to_floats(const Sums& sums) {
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(static_cast<int32_t>(sums.v[i]));
  return load(values);
}
#endif

// Sizes of a node: `groups` products of rows of `terms` with as many columns each.
struct Q8Shape {
  int64_t groups, terms, columns;

  int64_t words() const { return ceil_of(terms, 4); }
  int64_t panel_bytes() const { return (words() + 1) * kPanelWidth * 4; }
  int64_t packed_bytes() const { return groups * panels_of(columns) * panel_bytes(); }
  // Rows of a claim: a megabyte of windows at most.
  int64_t block_rows() const { return larger(kRows8, smaller(4 * kRows8, (1 << 20) / larger(1, terms))); }
  int64_t window_stride() const { return 4 * words(); }
  // One member's: a panel and the windows of a claim.
  int64_t scratch_bytes() const { return panel_bytes() + ceil_of(block_rows() * window_stride(), 64) * 64; }
};

// weight_at(column, term) of one panel.
template <class WeightAt>
HR_INLINE void pack_panel8(const Q8Shape& s, int columns, std::byte* panel, WeightAt weight_at) {
  int32_t sums[kPanelWidth] = {};
  int8_t* to = reinterpret_cast<int8_t*>(panel);
  for (int64_t word = 0; word < s.words(); ++word) {
    for (int column = 0; column < kPanelWidth; ++column) {
      for (int64_t term = 4 * word; term < 4 * word + 4; ++term, ++to) {
        *to = column < columns && term < s.terms ? weight_at(column, term) : int8_t{0};
        sums[column] += *to;
      }
    }
  }
  __builtin_memcpy(to, sums, sizeof sums);
}

// The whole weight: weight_at(group, column, term).
template <class WeightAt>
HR_INLINE void pack_all8(const Q8Shape& s, std::byte* packed, WeightAt weight_at) {
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t column = 0; column < s.columns; column += kPanelWidth, packed += s.panel_bytes()) {
      pack_panel8(s, static_cast<int>(smaller(kPanelWidth, s.columns - column)), packed,
                  [&](int64_t c, int64_t term) { return weight_at(group, column + c, term); });
    }
  }
}

// What happens to the sums of a panel's columns.
struct Finish8 {
  const float* scale;
  Finish finish;                        // bias, residual, function
  const ops::Quantization* y = nullptr;  // null: f32
  std::byte* out;                       // of the first row and column
  int64_t out_stride;                   // elements
};

// `rows` rows of sums [kPanelWidth], of which `columns` count, into the output. Changes them.
void finish_rows8(const Finish8& f, float* sums, int rows, int columns) {
  for (int r = 0; r < rows; ++r) {
    float* row = sums + r * kPanelWidth;
    over_row(columns, [&](int64_t c, int n) {
      Lanes y = load(row + c) * load_some(f.scale + c, n);
      if (f.finish.bias != nullptr) y = y + load_some(f.finish.bias + c, n);
      if (f.finish.residual != nullptr) y = y + load_some(f.finish.residual + r * f.finish.residual_stride + c, n);
      store(row + c, min(broadcast(f.finish.high), max(broadcast(f.finish.low), y)));
    });
  }
  if (f.finish.activation != nullptr) activate_rows(*f.finish.activation, sums, kPanelWidth, rows, columns);
  const auto store_rows = [&](auto* out, const auto& store_lanes) {
    for (int r = 0; r < rows; ++r, out += f.out_stride) {
      over_row(columns, [&](int64_t c, int n) { store_lanes(out + c, load(sums + r * kPanelWidth + c), n); });
    }
  };
  if (f.y == nullptr) return store_rows(reinterpret_cast<float*>(f.out), [](float* to, Lanes y, int n) { store_some(to, y, n); });
  const Quantizer quantizer(*f.y);
  const auto quantized = [&](auto* to, Lanes y, int n) { store_some(to, quantizer(y), n); };
  with_8_bits(f.y->dtype, [&]<class T>(T) { store_rows(reinterpret_cast<T*>(f.out), quantized); });
}

struct Product8 {
  const uint8_t* x;  // rows x_stride apart
  int64_t x_stride, words;
  int32_t flip;
  const int8_t* panel;
  const int32_t* start;  // sums before the first term, by column
};

template <int R>
void multiply_rows8(const Product8& p, float* out) {
  Sums sums[R][kPanelLanes];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < kPanelLanes; ++c) sums[r][c] = load_sums(p.start + c * kLanes);
  }
  const int8_t* panel = p.panel;
  for (int64_t word = 0; word < p.words; ++word, panel += 4 * kPanelWidth) {
    Words words[kPanelLanes];
    for (int c = 0; c < kPanelLanes; ++c) words[c] = load_words(panel + 4 * c * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) dot(sums[r], words, p.x + r * p.x_stride + 4 * word, p.flip);
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < kPanelLanes; ++c) store(out + r * kPanelWidth + c * kLanes, to_floats(sums[r][c]));
  }
}

using MultiplyRows8 = void (*)(const Product8&, float*);
// By the number of rows.
template <class>
struct MultiplyTable8;
template <int... R>
struct MultiplyTable8<std::integer_sequence<int, R...>> {
  static constexpr MultiplyRows8 kByRows[] = {nullptr, multiply_rows8<R + 1>...};
};

// `rows` rows of one panel.
void multiply_block8(Product8 p, Finish8 f, int64_t rows, int columns) {
  constexpr const auto& kTable = MultiplyTable8<std::make_integer_sequence<int, kRows8>>::kByRows;
  alignas(64) float sums[kRows8 * kPanelWidth];
  const int64_t out_bytes = f.y == nullptr ? 4 : 1, parts = ceil_of(rows, kRows8);
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t end = rows * (part + 1) / parts, count = end - first;
    kTable[count](p, sums);
    finish_rows8(f, sums, static_cast<int>(count), columns);
    p.x += count * p.x_stride;
    f.out += count * f.out_stride * out_bytes;
    if (f.finish.residual != nullptr) f.finish.residual += count * f.finish.residual_stride;
    first = end;
  }
}

// Rows of x that a claim multiplies.
struct Rows8 {
  const uint8_t* data;
  int64_t stride;
};

// A node. A claim is a block of output rows x some panels of a group: windows_of(first, count, group, buffer) gives its rows of x, in the
// buffer (window_stride() apart) or where they lie. weight_at(group, column, term) packs a weight that is no constant, where it is used.
template <class WindowsOf, class WeightAt>
HR_INLINE void run_q8(const Q8Shape& s, const ops::Q8ProductAttrs& q8, const NodeArgs& args, Team& team, WindowsOf windows_of,
                      WeightAt weight_at) {
  const TensorView& out = args.outputs[0].tensor;
  const EpilogueArgs epilogue(q8.epilogue, args, 3);
  const std::byte* packed = packed_of(args);
  int64_t rows = 1;
  for (int axis = 0; axis < out.rank - 1; ++axis) rows *= out.dims[axis];
  if (rows * out.dims[out.rank - 1] == 0) return;
  // A block lies in rows that follow each other.
  const bool follow = rows_follow(out) && (epilogue.residual == nullptr || rows_follow(*epilogue.residual));
  const int64_t run_rows = follow ? rows : out.dims[out.rank - 2], runs = rows / run_rows;
  const int64_t blocks = ceil_of(run_rows, s.block_rows()), panels = panels_of(s.columns);
  const int64_t parts = smaller(panels, ceil_of(4 * team.size(), runs * blocks * s.groups));
  std::byte* panel_buffer = args.scratch + team.rank() * s.scratch_bytes();
  uint8_t* window_buffer = reinterpret_cast<uint8_t*>(panel_buffer + s.panel_bytes());
  const bool is_signed = args.inputs[0].tensor.dtype == DType::i8;
  const int32_t zero = q8.x_zero + (is_signed ? 128 : 0);
  Rows8 windows{};
  int64_t gathered = -1;

  for (int64_t claim; (claim = team.claim(runs * blocks * s.groups * parts)) >= 0;) {
    const int64_t part = claim % parts, group = claim / parts % s.groups, block = claim / parts / s.groups;
    const int64_t run = block / blocks, first = run * run_rows + block % blocks * s.block_rows();
    const int64_t count = smaller(s.block_rows(), (run + 1) * run_rows - first);
    if (gathered != claim / parts) windows = windows_of(first, count, group, window_buffer);
    gathered = claim / parts;
    for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
      const int64_t column = group * s.columns + p * kPanelWidth;
      const int columns = static_cast<int>(smaller(kPanelWidth, s.columns - p * kPanelWidth));
      const std::byte* panel = packed + (group * panels + p) * s.panel_bytes();
      if (packed == nullptr) {
        pack_panel8(s, columns, panel_buffer, [&](int64_t c, int64_t term) { return weight_at(group, p * kPanelWidth + c, term); });
        panel = panel_buffer;
      }
      int32_t start[kPanelWidth];
      __builtin_memcpy(start, panel + s.words() * kPanelWidth * 4, sizeof start);
      for (int32_t& sum : start) sum = static_cast<int32_t>(0u - static_cast<uint32_t>(zero) * static_cast<uint32_t>(sum));
      const int64_t element = row_offset(out, first) + column;
      Finish8 f{.scale = args.inputs[2].tensor.as<float>() + column,
                .finish = epilogue.finish_at(column),
                .y = q8.y ? &*q8.y : nullptr,
                .out = out.as<std::byte>() + element * (q8.y ? 1 : 4),
                .out_stride = out.strides[out.rank - 2]};
      if (epilogue.residual != nullptr) {
        f.finish.residual = epilogue.residual->as<float>() + row_offset(*epilogue.residual, first) + column;
        f.finish.residual_stride = epilogue.residual->strides[out.rank - 2];
      }
      multiply_block8({windows.data, windows.stride, s.words(), is_signed ? static_cast<int32_t>(0x80808080u) : 0,
                       reinterpret_cast<const int8_t*>(panel), start},
                      f, count, columns);
    }
  }
}

}  // namespace
HR_END_KERNELS

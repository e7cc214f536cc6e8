#pragma once
// A tile16 tile with wide fields: what the integer dot product reads of formats whose codes or scales do not lie as it wants
// them. A thread widens one tile into its scratch, once for all tokens of a chunk, and the multiply never learns the format.
//
// For each 32 columns: f32 scale [groups][16 rows], f32 minimum [groups][16 rows], then eight words [16 rows] of four unsigned
// codes, at most 63: value = scale * code + minimum. One group a block, or two of 16 columns (kGroups).

#include "kernels/cpu/simd.h"
#include "quant/layout.h"

HR_BEGIN_KERNELS

template <int kGroupCount>
struct TileWide {
  static constexpr int kGroups = kGroupCount;
  static constexpr int kCodes = 128 * kGroups, kBytes = kCodes + 512;
  static constexpr bool kNibbles = false, kHasMin = true;
  static constexpr int kZero = 0;
  HR_INLINE static F32x16 scale(const std::byte* at, int group = 0) { return load(reinterpret_cast<const float*>(at) + 16 * group); }
  HR_INLINE static F32x16 min(const std::byte* at, int group = 0) {
    return load(reinterpret_cast<const float*>(at) + 16 * (kGroups + group));
  }
};

// Writes one block of TileWide<kGroups> and steps to the next.
template <int kGroups>
struct WideWriter {
  std::byte* at;
  HR_INLINE void group(int index, const F32x16& scale, const F32x16& min) {
    store(reinterpret_cast<float*>(at) + 16 * index, scale);
    store(reinterpret_cast<float*>(at) + 16 * (kGroups + index), min);
  }
  HR_INLINE void word(int index, const I32x16& codes) {
    store(reinterpret_cast<float*>(at + TileWide<kGroups>::kCodes) + 16 * index, bits_as_f32(codes));
  }
  HR_INLINE void next() { at += TileWide<kGroups>::kBytes; }
};

// Calls f.operator()<0>() to <kCount - 1>: shifts take their counts from the template.
template <int kCount, class F>
HR_INLINE void unrolled(F&& f) {
  if constexpr (kCount > 0) {
    unrolled<kCount - 1>(f);
    f.template operator()<kCount - 1>();
  }
}

HR_INLINE I32x16 low_halves(const I32x16& word) { return word & broadcast(0x0F0F0F0F); }
HR_INLINE I32x16 high_halves(const I32x16& word) { return shift_right<4>(word) & broadcast(0x0F0F0F0F); }
// Bit k of a lane's lowest four becomes bit 4 of its byte k.
HR_INLINE I32x16 fifth_bits(const I32x16& bits) {
  const I32x16 four = bits & broadcast(15);
  const I32x16 spread = four + shift_left<7>(four) + shift_left<14>(four) + shift_left<21>(four);
  return shift_left<4>(spread & broadcast(0x01010101));
}

// Q5_0 and Q5_1: [f16 scale, f16 minimum?], a word of fifth bits, four words of halves.
template <bool kHasMin>
void widen_q5(const std::byte* tile, int64_t blocks, std::byte* out) {
  constexpr int kHeads = kHasMin ? 64 : 32;
  WideWriter<1> to{out};
  for (int64_t block = 0; block < blocks; ++block, tile += kHeads + 5 * 64, to.next()) {
    const F32x16 scale = load_f16(tile);
    to.group(0, scale, kHasMin ? load_f16(tile + 32) : scale * broadcast(-16.0f));
    const I32x16 fifth = load_i32(tile + kHeads);
    unrolled<4>([&]<int i>() HR_INLINE_LAMBDA {
      const I32x16 word = load_i32(tile + kHeads + 64 * (1 + i));
      to.word(i, low_halves(word) + fifth_bits(shift_right<4 * i>(fifth)));
      to.word(4 + i, high_halves(word) + fifth_bits(shift_right<16 + 4 * i>(fifth)));
    });
  }
}

// Q4_K and Q5_K: f16 scale, f16 min_scale, three words of eight 6-bit scales and minimums, (Q5_K) eight words of fifth bits, 32
// words of halves.
template <bool kFifth>
void widen_k(const std::byte* tile, int64_t blocks, std::byte* out) {
  constexpr int kScales = 64, kHigh = kScales + 3 * 64, kHalves = kHigh + (kFifth ? 8 * 64 : 0);
  const I32x16 six = broadcast(63), four = broadcast(15), two = broadcast(3);
  WideWriter<1> to{out};
  for (int64_t block = 0; block < blocks; block += 8, tile += kHalves + 32 * 64) {
    const F32x16 scale = load_f16(tile), min_scale = load_f16(tile + 32);
    const I32x16 a = load_i32(tile + kScales), b = load_i32(tile + kScales + 64), c = load_i32(tile + kScales + 128);
    unrolled<8>([&]<int group>() HR_INLINE_LAMBDA {
      constexpr int shift = 8 * (group % 4);
      I32x16 s, m;
      if constexpr (group < 4) {
        s = shift_right<shift>(a) & six;
        m = shift_right<shift>(b) & six;
      } else {
        s = (shift_right<shift>(c) & four) + shift_left<4>(shift_right<shift + 6>(a) & two);
        m = (shift_right<shift + 4>(c) & four) + shift_left<4>(shift_right<shift + 6>(b) & two);
      }
      to.group(0, scale * to_f32(s), zero_f32() - min_scale * to_f32(m));
      unrolled<8>([&]<int i>() HR_INLINE_LAMBDA {
        const I32x16 word = load_i32(tile + kHalves + 64 * (group / 2 * 8 + i));
        I32x16 codes = group % 2 == 0 ? low_halves(word) : high_halves(word);
        if constexpr (kFifth) {
          codes = codes + shift_left<4>(shift_right<group>(load_i32(tile + kHigh + 64 * i)) & broadcast(0x01010101));
        }
        to.word(i, codes);
      });
      to.next();
    });
  }
}

// Q6_K: f16 scale, 32 words of low halves, 16 words of upper two bits, four words of signed scales, one for 16 columns.
inline void widen_q6_k(const std::byte* tile, int64_t blocks, std::byte* out) {
  constexpr int kLow = 32, kHigh = kLow + 32 * 64, kScales = kHigh + 16 * 64;
  WideWriter<2> to{out};
  for (int64_t block = 0; block < blocks; block += 8, tile += kScales + 4 * 64) {
    const F32x16 scale = load_f16(tile);
    unrolled<8>([&]<int part>() HR_INLINE_LAMBDA {  // 32 columns
      constexpr int half = part / 4, quarter = part % 4;
      const I32x16 word = load_i32(tile + kScales + 64 * (part / 2));
      const auto step = [&]<int shift>() HR_INLINE_LAMBDA {  // a signed byte, by way of its unsigned value plus 128
        const I32x16 biased = (shift_right<shift>(word) + broadcast(128)) & broadcast(255);
        return scale * (to_f32(biased) - broadcast(128.0f));
      };
      const F32x16 first = step.template operator()<16 * (part % 2)>();
      const F32x16 second = step.template operator()<16 * (part % 2) + 8>();
      to.group(0, first, first * broadcast(-32.0f));
      to.group(1, second, second * broadcast(-32.0f));
      unrolled<8>([&]<int i>() HR_INLINE_LAMBDA {
        const I32x16 low = load_i32(tile + kLow + 64 * (16 * half + 8 * (quarter % 2) + i));
        const I32x16 high = load_i32(tile + kHigh + 64 * (8 * half + i));
        const I32x16 upper = shift_left<4>(shift_right<2 * quarter>(high) & broadcast(0x03030303));
        to.word(i, (quarter < 2 ? low_halves(low) : high_halves(low)) + upper);
      });
      to.next();
    });
  }
}

HR_END_KERNELS

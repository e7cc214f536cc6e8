#pragma once
// What a layer asks of the KV cache, and the part of the pool that it sees. Layers with equal specs form a group with
// one block table; a block holds kKvBlockTokens tokens; block 0 is never handed out: padding writes there.

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace headrace {

inline constexpr int kKvBlockTokens = 16;
constexpr int32_t kv_blocks_for(int64_t tokens) { return static_cast<int32_t>((tokens + kKvBlockTokens - 1) / kKvBlockTokens); }
// The most blocks that a sequence holds in a group with a window when up to `tokens` of it are under way: both ends may be cut.
constexpr int32_t kv_window_blocks(int32_t window, int64_t tokens) { return kv_blocks_for(window + tokens) + 1; }

enum class KvKind : uint8_t { self, cross, latent, state };

// What a pool may hold. i8: codes, and one float32 scale for each token, head and side (keys, values).
constexpr bool is_kv_dtype(DType dtype) { return is_float(dtype) || dtype == DType::i8; }

struct KvSpec {
  KvKind kind = KvKind::self;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t window = 0;  // tokens a query sees, itself included; 0: all
  DType dtype = DType::f16;
  bool operator==(const KvSpec&) const = default;

  // Bytes that one block of one layer takes: keys and values, scales included.
  int64_t block_bytes() const { return int64_t{2} * heads * side_bytes(head_dim, dtype_bytes(dtype)); }
  int64_t token_bytes() const { return block_bytes() / kKvBlockTokens; }

  // Keys of one head and block, or its values: numbers in whole cache lines, then the scales that numbers of one byte have.
  static constexpr int64_t side_bytes(int64_t head_dim, size_t element_bytes) {
    const auto numbers = head_dim * kKvBlockTokens * static_cast<int64_t>(element_bytes);
    return (numbers + 63) / 64 * 64 + (element_bytes == 1 ? kScaleBytes : 0);
  }
  static constexpr int64_t kScaleBytes = kKvBlockTokens * sizeof(float);  // one cache line
};

// A layer's blocks lie together in runs of so many: a sequence's neighbouring blocks are near each other in memory.
inline constexpr int kKvRunBlocks = 16;

// One layer of one group. Within a block, for each head, so that a head is one piece (on an accelerator keys are [kKvBlockTokens][head_dim]):
//   keys   [head_dim][kKvBlockTokens]   so that 16 keys are scored as the lanes of one register
//   i8: float32 scales of the 16 keys, one cache line
//   values [kKvBlockTokens][head_dim]
//   i8: float32 scales of the 16 values
// Each of the four begins at a multiple of 64 bytes; keys with their scales are one stretch of memory, and so are values.
struct KvView {
  KvSpec spec;
  std::byte* data = nullptr;  // block 0
  int64_t block_stride = 0;   // bytes from one block to the next of its run
  int64_t run_stride = 0;     // bytes from one run of kKvRunBlocks blocks to the next
  int64_t num_blocks = 0;

  template <class T>
  T* key_block(int64_t block, int head) const {
    return reinterpret_cast<T*>(side<T>(block, 2 * int64_t{head}));
  }
  template <class T>
  T* value_block(int64_t block, int head) const {
    return reinterpret_cast<T*>(side<T>(block, 2 * int64_t{head} + 1));
  }
  // Of an i8 pool: [kKvBlockTokens].
  float* key_scales(int64_t block, int head) const { return scales(2 * int64_t{head} + 1, block); }
  float* value_scales(int64_t block, int head) const { return scales(2 * int64_t{head} + 2, block); }

 private:
  // Sides are numbered key and value in turn, head by head.
  template <class T>
  std::byte* side(int64_t block, int64_t index) const {
    return data + block / kKvRunBlocks * run_stride + block % kKvRunBlocks * block_stride +
           index * KvSpec::side_bytes(spec.head_dim, sizeof(T));
  }
  // The scales stand last in a side.
  float* scales(int64_t next_side, int64_t block) const {
    return reinterpret_cast<float*>(side<int8_t>(block, next_side) - KvSpec::kScaleBytes);
  }
};

}  // namespace headrace

#pragma once
// What a layer asks of the KV cache, and the part of the pool that it sees. Layers with equal specs form a group with
// one block table; a block holds kKvBlockTokens tokens; block 0 is never handed out: padding writes there.

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace headrace {

inline constexpr int kKvBlockTokens = 16;

enum class KvKind : uint8_t { self, cross, latent, state };

struct KvSpec {
  KvKind kind = KvKind::self;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t window = 0;  // tokens a query sees, itself included; 0: all
  DType dtype = DType::f16;
  bool operator==(const KvSpec&) const = default;

  // Bytes that one block of one layer takes: keys and values.
  int64_t block_bytes() const {
    return int64_t{2} * heads * head_dim * kKvBlockTokens * static_cast<int64_t>(dtype_bytes(dtype));
  }
};

// A layer's blocks lie together in runs of so many: a sequence's neighbouring blocks are near each other in memory.
inline constexpr int kKvRunBlocks = 16;

// One layer of one group. Within a block (CPU layout), for each head, so that a head is one piece:
//   keys   [head_dim][kKvBlockTokens]   so that 16 keys are scored as the lanes of one register
//   values [kKvBlockTokens][head_dim]
struct KvView {
  KvSpec spec;
  std::byte* data = nullptr;  // block 0
  int64_t block_stride = 0;   // bytes from one block to the next of its run
  int64_t run_stride = 0;     // bytes from one run of kKvRunBlocks blocks to the next
  int64_t num_blocks = 0;

  template <class T>
  T* key_block(int64_t block, int head) const {
    return reinterpret_cast<T*>(data + block / kKvRunBlocks * run_stride + block % kKvRunBlocks * block_stride) +
           int64_t{2} * head * spec.head_dim * kKvBlockTokens;
  }
  template <class T>
  T* value_block(int64_t block, int head) const {
    return key_block<T>(block, head) + int64_t{spec.head_dim} * kKvBlockTokens;
  }
};

}  // namespace headrace

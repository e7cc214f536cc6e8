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

// One layer of one group. Within a block (CPU layout):
//   keys   [heads][head_dim][kKvBlockTokens]   so that 16 keys are scored as the lanes of one register
//   values [heads][kKvBlockTokens][head_dim]
struct KvView {
  KvSpec spec;
  std::byte* keys = nullptr;    // block 0
  std::byte* values = nullptr;  // block 0
  int64_t block_stride = 0;     // bytes from one block to the next, the same for keys and values
  int64_t num_blocks = 0;

  template <class T>
  T* key_block(int64_t block, int head) const {
    return reinterpret_cast<T*>(keys + block * block_stride) + int64_t{head} * spec.head_dim * kKvBlockTokens;
  }
  template <class T>
  T* value_block(int64_t block, int head) const {
    return reinterpret_cast<T*>(values + block * block_stride) + int64_t{head} * spec.head_dim * kKvBlockTokens;
  }
};

}  // namespace headrace

#pragma once
// rope_kv_write(q [T, heads * head_dim], k, v [T, kv_heads * head_dim], positions i32 [T], inv_freq constant f32 [rotary_dim / 2],
//               kv_slot i32 [T], kv state) -> q rotated, in its type
// rope (rope.h) of q and k, then kv_write (attention.h) of the rotated k and of v: one pass where a device pays for every launch. The
// rotated k is rounded once, to the pool's dtype. q, k and v are f32 or bf16, all three alike, and may be windows of a merged projection.

#include "ops/rope.h"

namespace headrace::ops {
struct RopeKvWriteAttrs {
  RopeAttrs rope;  // of q: heads are the query heads
  int32_t kv_heads = 0;
  bool operator==(const RopeKvWriteAttrs&) const = default;
  std::string describe() const;
};
extern const Op rope_kv_write;
}  // namespace headrace::ops

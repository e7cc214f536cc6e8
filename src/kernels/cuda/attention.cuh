#pragma once
// What the attention kernels share: their arguments on the device, which sequence a row or a piece of work belongs to, and the
// arithmetic of partial softmaxes. Scores are kept in units of log2, so that exponentials are exp2.

#include "kernels/cuda/kv_pool.cuh"
#include "kernels/cuda/vectors.cuh"
#include "ops/attention.h"

namespace headrace::cuda {

constexpr int kMaxSinks = 128;
constexpr float kLog2E = 1.4426950408889634f;

// The attributes in the form that kernels take: by value, so that a captured launch owns them.
struct AttentionShape {
  int heads, kv_heads, group, head_dim;  // group: query heads that share a kv head
  float scale, softcap;
  int window;  // 0: all
  bool causal, has_sinks;
  float sinks[kMaxSinks];
};
AttentionShape shape_of(const ops::AttentionAttrs& attrs);

// The sequences of a paged step: views of the step's inputs.
struct Sequences {
  const int32_t *query_start, *context_len, *block_table;
  int count;
  int64_t table_stride;
};
Sequences sequences_of(const NodeArgs& args);

// The last sequence that begins at or before `row`: the row's owner, unless it ends before.
__device__ inline int sequence_at(const int32_t* query_start, int count, int64_t row) {
  int low = 0, high = count;  // query_start[low] <= row < query_start[high], taking query_start[count] as above all
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (query_start[middle] <= row ? low : high) = middle;
  }
  return low;
}

struct Sequence {
  int first_row, queries, context;
};
__device__ inline Sequence sequence_of(const Sequences& all, int s) {
  const int first = all.query_start[s];
  return {first, all.query_start[s + 1] - first, all.context_len[s]};
}

// ---- who does what ------------------------------------------------------------------------------

// Rows of a sequence and kv head are numbered query * group + head of the group, and taken in tiles. Up to so many are few: keys and
// values bound them, and the split kernel takes them; else the flash kernel does.
constexpr int kFewRows = 64;
__device__ inline bool has_few_rows(int queries, int group) { return queries == 1 || queries * group <= kFewRows; }

// Which sequence a unit of work belongs to, where sequence s has units(s) of them: sums over the sequences, made by a block of
// kThreads threads from the step's inputs. Below 2^31 units.
template <int kThreads>
struct WorkIndex {
  int ends[kThreads];  // of each thread's share of the sequences: the units up to its end

  struct Place {
    int sequence, before;  // units before the sequence
  };

  // Returns the number of units. The block's threads all call it.
  template <class Units>
  __device__ int fill(int count, Units units) {
    const int thread = int(threadIdx.x), each = share(count), last = min(count, (thread + 1) * each);
    int sum = 0;
    for (int s = thread * each; s < last; ++s) sum += units(s);
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(0xFFFFFFFFu, sum, step);
      if (thread % 32 >= step) sum += below;
    }
    ends[thread] = sum;
    __syncthreads();
    int total = 0, before = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      if (warp == thread / 32) before = total;
      total += ends[warp * 32 + 31];
    }
    __syncthreads();
    ends[thread] = before + sum;
    __syncthreads();
    return total;
  }

  // Of a unit that there is.
  template <class Units>
  __device__ Place find(int count, Units units, int unit) const {
    int low = 0, high = kThreads - 1;  // ends[high] > unit
    while (low < high) {
      const int middle = (low + high) / 2;
      if (ends[middle] > unit) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    Place place{low * share(count), low == 0 ? 0 : ends[low - 1]};
    for (int here = units(place.sequence); place.before + here <= unit; here = units(place.sequence)) {
      place.before += here;
      ++place.sequence;
    }
    return place;
  }

 private:
  static __device__ int share(int count) { return (count + kThreads - 1) / kThreads; }
};

// ---- scores and partial softmaxes ---------------------------------------------------------------

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The reference point of exponentials: a maximum, or 0 where nothing was seen, so that nothing is minus infinity from itself.
__device__ inline float anchor_of(float maximum) { return maximum == -INFINITY ? 0.0f : maximum; }

// cap * tanh(score / cap), from the exponential: within 1e-6 of the cap.
__device__ inline float capped(float score, float cap) {
  const float e = exp2_of(score / cap * (2.0f * kLog2E));
  return cap * (1.0f - __fdividef(2.0f, 1.0f + fminf(e, 1e30f)));
}

// How two partial softmaxes join: factors for the sums and weighted values of either. Joining with nothing changes no bit.
struct Join {
  float maximum, left, right;
  __device__ Join(float left_maximum, float right_maximum) : maximum(fmaxf(left_maximum, right_maximum)) {
    const float anchor = anchor_of(maximum);
    left = exp2_of(left_maximum - anchor);
    right = exp2_of(right_maximum - anchor);
  }
  // One order of rounding wherever partials are joined.
  __device__ float of(float left_value, float right_value) const { return __fmaf_rn(right_value, right, __fmul_rn(left_value, left)); }
};

// Query `position` of a paged sequence sees keys first_seen .. position.
__device__ inline int first_seen(int position, int window) { return window > 0 ? max(0, position - window + 1) : 0; }

}  // namespace headrace::cuda

#pragma once
// Rows of logits over clusters of blocks: a cluster takes a row, each of its blocks keeps one part of the ids in shared memory, so that
// memory is read once and everything after that is a scan of shared memory. On top of it: reductions over the row, the search for a place
// in an order of preference, and for one in rising ids. Neither sorts.
//
// What is summed here are integers (counts, or weights in units of 2^-45), so that no sum depends on its order, on the number of parts or
// on the batch. Every function is called by all threads of all blocks of the cluster, in step, and gives all of them the same result.

#include <cooperative_groups.h>

#include <bit>

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

constexpr int kRowThreads = 512;
constexpr int kRowWarps = kRowThreads / 32;
constexpr int kMaxParts = 8;        // what any device takes as a cluster
constexpr int kMaxPart = 48 * 1024;  // ids of a part: 192 of the 227 KB of shared memory
constexpr int64_t kMaxVocabulary = int64_t{kMaxParts} * kMaxPart;
constexpr int kBinBits = 11;
constexpr int kBins = 1 << kBinBits;
constexpr int kBinsOfGroup = 32;
constexpr int kIdsOfGroup = 256;
constexpr int kMaxGroups = kMaxPart / kIdsOfGroup;
static_assert(kMaxGroups >= kBins / kBinsOfGroup);

// Parts of a row, by its width alone: at most 4096 ids each, until there are kMaxParts.
inline int parts_of(int64_t vocabulary) {
  int parts = 1;
  while (parts < kMaxParts && vocabulary > int64_t{parts} * 4096) parts *= 2;
  return parts;
}
// Ids of each part but the last, which may have fewer; a multiple of 4, so that parts of an aligned row are aligned.
inline int part_size_of(int64_t vocabulary) {
  const int64_t parts = parts_of(vocabulary);
  return static_cast<int>(((vocabulary + parts - 1) / parts + 3) / 4 * 4);
}

// A block's shared memory, before its logits. Structs that hold it are aligned to 16 bytes as well, so that the logits behind them are.
struct alignas(16) PartMemory {
  uint32_t counts[2 * kBins];  // bins of 64 bits: the low halves, then the high ones
  uint64_t group_sums[kMaxGroups];
  uint64_t slots[2][kMaxParts];
  uint64_t warp_values[kRowWarps];
};

__device__ inline std::byte* block_memory() {
  extern __shared__ __align__(16) std::byte memory[];
  return memory;
}

// Floats as integers of the same order (no NaN; both zeros are one).
__device__ inline uint32_t ordered(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float of_ordered(uint32_t key) {
  return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

__device__ inline uint64_t warp_sum(uint64_t value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
__device__ inline uint64_t warp_max(uint64_t value) {
  for (int step = 16; step > 0; step /= 2) {
    const uint64_t other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// A place in a sequence of summands: the first at which the sum of all up to it passes a goal.
struct Place {
  uint64_t at;
  uint64_t before;  // the sum of what comes before it
  uint64_t value;   // its own summand
};

// The place in [0, count), looked for by one warp; `before` is the sum of what comes before 0. The last one where none passes.
template <class Value>
__device__ Place first_passing(int count, Value value, uint64_t before, uint64_t goal) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int base = 0;; base += 32) {
    const uint64_t own = base + lane < count ? value(base + lane) : 0;
    uint64_t sum = own;
    for (int step = 1; step < 32; step *= 2) {
      const uint64_t lower = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += lower;
    }
    const uint32_t passing = __ballot_sync(kAllLanes, before + sum > goal);
    if (passing == 0 && base + 32 < count) {
      before += __shfl_sync(kAllLanes, sum, 31);
      continue;
    }
    const int chosen = passing != 0 ? __ffs(static_cast<int>(passing)) - 1 : count - 1 - base;
    return {static_cast<uint64_t>(base + chosen), before + __shfl_sync(kAllLanes, sum - own, chosen),
            __shfl_sync(kAllLanes, own, chosen)};
  }
}

class RowPart {
 public:
  float* logits;  // [count]: the block's own copy
  int first;      // the id of logits[0]
  int count;
  int vocabulary, part_size;
  int rank, parts;

  // Copies the part of the row at `row` into `own_logits`, and waits until all blocks have: then they may reach into each other's memory.
  __device__ RowPart(PartMemory& memory, float* own_logits, const float* row, int ids, int ids_of_part)
      : logits(own_logits), vocabulary(ids), part_size(ids_of_part), memory_(memory) {
    const auto cluster = cooperative_groups::this_cluster();
    rank = static_cast<int>(cluster.block_rank());
    parts = static_cast<int>(cluster.num_blocks());
    first = rank * part_size;
    count = min(part_size, vocabulary - first);
    copy(row + first);
    cluster_sync();
  }

  // The largest of a value that every thread has.
  __device__ uint64_t max_of_row(uint64_t value) {
    const uint64_t* all = gather(block_value(value, warp_max));
    uint64_t largest = 0;
    for (int part = 0; part < parts; ++part) largest = all[part] > largest ? all[part] : largest;
    return largest;
  }
  __device__ uint64_t sum_of_row(uint64_t value) {
    const uint64_t* all = gather(block_value(value, warp_sum));
    uint64_t sum = 0;
    for (int part = 0; part < parts; ++part) sum += all[part];
    return sum;
  }

  // One value of each block, in the order of ids; warp 0's lanes hand it in. Valid until the call after the next.
  __device__ const uint64_t* gather(uint64_t value) {
    uint64_t* slots = next_slots();
    if (threadIdx.x < static_cast<unsigned>(parts)) of_block(slots, static_cast<int>(threadIdx.x))[rank] = value;
    cluster_sync();
    return slots;
  }

  // The first place in an order of preference at which the sum of weights passes the goal. order(i) is a number that rises from the best
  // id to the worst, for i in [0, count); what lies outside [low, high] is left out. weight(i) says what i counts. goal(total) is the
  // goal, below `total`, the sum of all weights. Digits of kBinBits, the highest first: a histogram of weights for each digit, of
  // what shares the digits before it.
  template <class Order, class Weight, class Goal>
  __device__ Place search(uint64_t low, uint64_t high, Order order, Weight weight, Goal goal) {
    uint64_t before = 0;
    uint64_t wanted = 0;
    for (bool is_first = true;; is_first = false) {
      const int bits = 64 - __clzll(static_cast<int64_t>(high - low));
      const int shift = bits > kBinBits ? bits - kBinBits : 0;
      clear_bins();
#pragma unroll 2
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
        const uint64_t at = order(i);
        if (at >= low && at <= high) add_to_bin(static_cast<int>((at - low) >> shift), weight(i));
      }
      const int share = kBins / parts;
      sum_bins(share);
      const auto bin = [&](int i) { return bin_value(rank * share + i); };
      const Place found = pick(share / kBinsOfGroup, kBinsOfGroup, share, share, bin, before, [&](uint64_t total) {
        if (is_first) wanted = goal(total);
        return wanted;
      });
      before = found.before;
      low += found.at << shift;
      if (shift == 0) return {low, before, found.value};
      const uint64_t last = low + (uint64_t{1} << shift) - 1;
      high = last < high ? last : high;
    }
  }

  // The first id, in rising order, at which the sum of weight(i), i in [0, count), passes goal(total).
  template <class Weight, class Goal>
  __device__ Place locate(Weight weight, Goal goal) {
    const int groups = (count + kIdsOfGroup - 1) / kIdsOfGroup;
    for (int group = warp(); group < groups; group += kRowWarps) {
      uint64_t sum = 0;
      for (int j = lane(); j < kIdsOfGroup; j += 32) {
        const int i = group * kIdsOfGroup + j;
        sum += i < count ? weight(i) : 0;
      }
      sum = warp_sum(sum);
      if (lane() == 0) memory_.group_sums[group] = sum;
    }
    __syncthreads();
    return pick(groups, kIdsOfGroup, count, part_size, weight, 0, goal);
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static void cluster_sync() { cooperative_groups::this_cluster().sync(); }
  // Where `pointer`, into this block's shared memory, points in that of another block.
  template <class T>
  __device__ static T* of_block(T* pointer, int rank) {
    return cooperative_groups::this_cluster().map_shared_rank(pointer, rank);
  }

 private:
  // Four loads at a time, so that a multiprocessor has 64 KB under way.
  __device__ void copy(const float* from) {
    constexpr int kBatch = 4;
    const int whole = reinterpret_cast<uintptr_t>(from) % 16 == 0 ? count / 4 : 0;
    const auto* from4 = reinterpret_cast<const float4*>(from);
    auto* to4 = reinterpret_cast<float4*>(logits);
    for (int base = static_cast<int>(threadIdx.x); base < whole; base += kBatch * kRowThreads) {
      float4 batch[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (base + j * kRowThreads < whole) batch[j] = from4[base + j * kRowThreads];
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (base + j * kRowThreads < whole) to4[base + j * kRowThreads] = batch[j];
      }
    }
    for (int i = 4 * whole + static_cast<int>(threadIdx.x); i < count; i += kRowThreads) logits[i] = from[i];
  }

  // The two rows of slots take turns: a block that is written to has read what it holds, since the call between had a barrier.
  __device__ uint64_t* next_slots() {
    turn_ ^= 1;
    return memory_.slots[turn_];
  }

  // `reduce` over the block, for the lanes of warp 0; a barrier of the cluster must follow.
  template <class Reduce>
  __device__ uint64_t block_value(uint64_t value, Reduce reduce) {
    value = reduce(value);
    if (lane() == 0) memory_.warp_values[warp()] = value;
    __syncthreads();
    if (warp() != 0) return 0;
    return reduce(lane() < kRowWarps ? memory_.warp_values[lane()] : 0);
  }

  __device__ uint32_t* low() const { return memory_.counts; }
  __device__ uint32_t* high() const { return memory_.counts + kBins; }

  __device__ void clear_bins() {
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kRowThreads) low()[bin] = high()[bin] = 0;
    __syncthreads();
  }

  // Adding 64 bits to shared memory in one piece would be a loop of compare and swap.
  __device__ void add_to_bin(int bin, uint64_t weight) {
    const auto lower = static_cast<uint32_t>(weight);
    const uint32_t carry = lower != 0 && atomicAdd(&low()[bin], lower) > ~lower ? 1 : 0;
    const uint32_t upper = static_cast<uint32_t>(weight >> 32) + carry;
    if (upper != 0) atomicAdd(&high()[bin], upper);
  }
  __device__ uint64_t bin_value(int bin) const { return uint64_t{high()[bin]} << 32 | low()[bin]; }

  // Each block sums its share of the bins over all blocks, into its own bins of that share, which no other block reads.
  __device__ void sum_bins(int share) {
    cluster_sync();
    for (int group = warp(); group < share / kBinsOfGroup; group += kRowWarps) {
      const int bin = rank * share + group * kBinsOfGroup + lane();
      uint64_t sum = 0;
#pragma unroll 2
      for (int part = 0; part < parts; ++part) {
        sum += uint64_t{of_block(high(), part)[bin]} << 32;
        sum += of_block(low(), part)[bin];
      }
      low()[bin] = static_cast<uint32_t>(sum);
      high()[bin] = static_cast<uint32_t>(sum >> 32);
      sum = warp_sum(sum);
      if (lane() == 0) memory_.group_sums[group] = sum;
    }
    __syncthreads();
  }

  // The place in a sequence that the blocks hold one after the other: each `groups` groups, of `group_size` summands but for the last,
  // whose sums stand in group_sums, of `places` values; block r's begin at place r * `stride`. What precedes the sequence sums to `before`.
  template <class Value, class Goal>
  __device__ Place pick(int groups, int group_size, int places, int stride, Value value, uint64_t before, Goal goal) {
    uint64_t sum = 0;
    if (warp() == 0) {
      for (int group = lane(); group < groups; group += 32) sum += memory_.group_sums[group];
      sum = warp_sum(sum);
    }
    const uint64_t* sums = gather(sum);
    uint64_t total = 0;
#pragma unroll 1
    for (int part = 0; part < parts; ++part) total += sums[part];
    const uint64_t wanted = goal(total);
    int owner = 0;
    while (owner < parts - 1 && before + sums[owner] <= wanted) before += sums[owner++];

    uint64_t* found = next_slots();
    if (rank == owner && warp() == 0) {
      const Place group = first_passing(groups, [&](int i) { return memory_.group_sums[i]; }, before, wanted);
      const int begin = static_cast<int>(group.at) * group_size;
      const Place place = first_passing(min(group_size, places - begin), [&](int i) { return value(begin + i); }, group.before, wanted);
      if (lane() < parts) {
        uint64_t* there = of_block(found, lane());
        there[0] = static_cast<uint64_t>(owner * stride + begin) + place.at;
        there[1] = place.before;
        there[2] = place.value;
      }
    }
    cluster_sync();
    return {found[0], found[1], found[2]};
  }

  PartMemory& memory_;
  int turn_ = 0;
};

// The largest logit and the lowest id that has it.
struct RowPeak {
  float value;
  int id;
  bool usable;  // no NaN, no +infinity, something finite
};

// NaN and +infinity rank above all numbers, and so show.
__device__ inline RowPeak find_peak(RowPart& part) {
  constexpr float kInfinity = std::bit_cast<float>(0x7F800000u);
  uint64_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += kRowThreads) {
    const float x = part.logits[i];
    const uint64_t key = x < kInfinity ? ordered(x) : 0xFFFFFFFFu;
    const uint64_t rank = key << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(part.first + i));
    best = rank > best ? rank : best;
  }
  best = part.max_of_row(best);
  const auto key = static_cast<uint32_t>(best >> 32);
  const float value = of_ordered(key);
  return {value, static_cast<int>(0xFFFFFFFFu - static_cast<uint32_t>(best)), key != 0xFFFFFFFFu && value > -kInfinity};
}

// A logit's place in falling order of logits, equal for equal logits.
__device__ inline uint32_t falling_order(float x) { return ~ordered(x); }
__device__ inline float of_falling_order(uint64_t order) { return of_ordered(~static_cast<uint32_t>(order)); }

// kernel(argument) over `rows` clusters of as many blocks as a row of `vocabulary` has parts. `fixed_bytes` of shared memory come before
// the logits.
template <class Argument>
void launch_row_parts(void (*kernel)(Argument), int64_t rows, int64_t vocabulary, size_t fixed_bytes, cudaStream_t stream,
                      const Argument& argument) {
  const auto parts = static_cast<unsigned>(parts_of(vocabulary));
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {parts, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(parts * static_cast<unsigned>(rows));
  config.blockDim = dim3(kRowThreads);
  config.dynamicSmemBytes = fixed_bytes + static_cast<size_t>(part_size_of(vocabulary)) * sizeof(float);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.dynamicSmemBytes));
  cudaLaunchKernelEx(&config, kernel, argument);
}

}  // namespace headrace::cuda

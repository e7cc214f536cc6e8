// The second half of decode attention: tiles of the line of units that a cut between two blocks goes through. Their partials are joined in
// the order and with the roundings that a block which sees a whole tile uses. Bound by latency: slots are loaded kSlotsAhead at a time.
#include <algorithm>

#include "kernels/cuda/attention_split.cuh"

namespace headrace::cuda::split {
namespace {

// The slots of a cut tile in rising order of their chunks.
struct SlotWalk {
  const Pieces& pieces;
  int tile_begin, tile_end, first_chunk;  // in units; the chunk of the first
  int unit, block, end, slot;             // what comes next, and where its block's part of the tile ends

  __device__ SlotWalk(const Pieces& of_line, int begin_unit, int end_unit, int chunk)
      : pieces(of_line), tile_begin(begin_unit), tile_end(end_unit), first_chunk(chunk), unit(begin_unit) {
    block = pieces.block_of(begin_unit);
    enter();
  }
  __device__ bool done() const { return unit >= tile_end; }
  __device__ int block_of_next() const { return block; }
  // The slot of `block`, and whether a group begins with it.
  __device__ int next(bool& begins_group) {
    const int here = slot++;
    const int chunk = first_chunk + unit - tile_begin;
    if (unit == tile_begin && here == 0) {  // the finished groups: what is under way follows
      begins_group = true;
      return here;
    }
    if (here == 1) {
      begins_group = true;
      unit = end;
    } else {
      const int block_begin = first_chunk + max(tile_begin, pieces.begin(block)) - tile_begin;
      const bool loose = Stretch{block_begin, false}.is_loose(chunk);
      begins_group = !loose;
      unit = loose ? unit + 1 : min(end, unit + kGroupChunks - chunk % kGroupChunks);
    }
    if (unit == end && unit < tile_end) {
      ++block;
      enter();
    }
    return here;
  }

 private:
  __device__ void enter() {
    end = min(tile_end, pieces.begin(block + 1));
    slot = unit == tile_begin ? 0 : kFirstLaterSlot;
  }
};

constexpr int kSlotsAhead = 8;  // loads under way

template <int kDim>
__device__ Partial<kDim> join_slots(const Arguments& in, SlotWalk walk, int row) {
  Partial<kDim> groups, group;
  while (!walk.done()) {
    Partial<kDim> ahead[kSlotsAhead];
    bool begins_group[kSlotsAhead];
#pragma unroll
    for (int i = 0; i < kSlotsAhead; ++i) {
      begins_group[i] = false;
      if (walk.done()) continue;  // joining with nothing changes no bit
      const int block = walk.block_of_next();
      ahead[i].load(slot_at<kDim>(in, block, walk.next(begins_group[i])), row);
    }
#pragma unroll
    for (int i = 0; i < kSlotsAhead; ++i) {
      if (begins_group[i]) {
        groups.join(group);
        group = ahead[i];
      } else {
        group.join(ahead[i]);
      }
    }
  }
  groups.join(group);
  return groups;
}

// Block b joins the tile that began before block b's piece of the line and ends in it. blockIdx.y: rows of the tile.
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const __grid_constant__ AttentionShape shape, const __grid_constant__ Arguments in) {
  __shared__ Index index;
  const Units units{shape, in};
  const Pieces pieces(index.fill(in.sequences.count, units), int(gridDim.x));
  const int block = int(blockIdx.x);
  Cursor at{};
  if (block < pieces.blocks) at.seek(shape, in, index.find(in.sequences.count, units, pieces.begin(block)), pieces.begin(block));
  begin_step_kernel();
  if (block >= pieces.blocks || at.begins_tile()) return;
  const int begin = pieces.begin(block) - (at.chunk - at.extent.first_chunk), end = begin + at.extent.chunks;
  if (end > pieces.begin(block + 1)) return;
  const SlotWalk walk(pieces, begin, end, at.extent.first_chunk);
  const int rows = at.rows(shape);
  for (int row = int(blockIdx.y) * kRowsAtOnce + int(threadIdx.x) / 32; row < rows; row += int(gridDim.y) * kRowsAtOnce) {
    join_slots<kDim>(in, walk, row).write(shape, in, at, row);
  }
}

template <int kDim>
void launch_join_of(const AttentionShape& shape, const Arguments& in, unsigned grid, cudaStream_t stream) {
  const unsigned passes = unsigned(std::min(kPasses, (shape.group + kRowsAtOnce - 1) / kRowsAtOnce));
  launch(join_kernel<kDim>, dim3(grid, passes), kThreads, 0, stream, shape, in);
}

}  // namespace

void launch_join(const AttentionShape& shape, const Arguments& in, unsigned grid, cudaStream_t stream) {
  switch (shape.head_dim) {
    case 64: return launch_join_of<64>(shape, in, grid, stream);
    case 128: return launch_join_of<128>(shape, in, grid, stream);
    default: return launch_join_of<256>(shape, in, grid, stream);
  }
}

}  // namespace headrace::cuda::split

// logprobs: a cluster of blocks takes a row and keeps it in shared memory (row_parts.cuh): bound by that one read. Exponentials are added
// in float32 by threads, about 32 each, and in float64 beyond, in an order that the row's width alone fixes. The best ids are what
// a search by count finds, put in order by one warp. A row that asks for nothing reads no logit.
#include "kernels/cuda/logprobs.h"

#include "kernels/cuda/row_parts.cuh"
#include "ops/logprobs.h"

namespace headrace::cuda {
namespace {

using ops::kMaxLogprobs;
static_assert(kMaxLogprobs <= 32);  // a warp holds them

struct LogprobsArgs {
  RowsOf<const float> logits;
  int vocabulary, part_size;
  const int32_t *tokens, *target, *num_logprobs;
  float* logprob;
  RowsOf<int32_t> top_id;
  RowsOf<float> top_logprob;
};

struct alignas(16) LogprobsMemory {
  PartMemory part;
  double warp_sums[kRowWarps];
  uint64_t listed[kMaxLogprobs];  // block 0's: falling order << 32 | id, in any order
  uint32_t num_listed;
};

struct Softmax {
  double peak, log_sum;
  __device__ float logprob_of(float logit) const { return static_cast<float>(static_cast<double>(logit) - peak - log_sum); }
};

// The places from `from` on, which list nothing.
__device__ void write_unlisted(const LogprobsArgs& args, int64_t row, int from) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < from || i >= kMaxLogprobs) return;
  args.top_id[row][i] = -1;
  args.top_logprob[row][i] = 0.0f;
}

__device__ double sum_of_powers(RowPart& part, double* warp_sums, float peak) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += kRowThreads) sum += expf(part.logits[i] - peak);
  double total = sum;
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(kAllLanes, total, step);
  if (RowPart::lane() == 0) warp_sums[RowPart::warp()] = total;
  __syncthreads();
  total = 0;
  for (int warp = 0; warp < kRowWarps; ++warp) total += warp_sums[warp];
  const uint64_t* sums = part.gather(std::bit_cast<uint64_t>(total));
  total = 0;
  for (int rank = 0; rank < part.parts; ++rank) total += std::bit_cast<double>(sums[rank]);
  return total;
}

// Hands the `wanted` best ids to block 0. Of those that tie with the last, the lowest are taken.
__device__ void list_best(RowPart& part, LogprobsMemory& memory, float peak, int wanted) {
  const Place last = part.search(
      falling_order(peak), 0xFFFFFFFFu, [&](int i) { return falling_order(part.logits[i]); }, [](int) { return uint64_t{1}; },
      [&](uint64_t) { return static_cast<uint64_t>(wanted - 1); });
  const uint64_t ties = static_cast<uint64_t>(wanted) - last.before;
  int last_tie = 0x7FFFFFFF;
  if (ties < last.value) {
    const Place tie = part.locate([&](int i) { return uint64_t{falling_order(part.logits[i]) == last.at}; },
                                  [&](uint64_t) { return ties - 1; });
    last_tie = static_cast<int>(tie.at);
  }
  uint32_t* num_listed = RowPart::of_block(&memory.num_listed, 0);
  uint64_t* listed = RowPart::of_block(memory.listed, 0);
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += kRowThreads) {
    const uint64_t order = falling_order(part.logits[i]);
    const int id = part.first + i;
    const bool is_listed = order < last.at || (order == last.at && id <= last_tie);
    if (is_listed) listed[atomicAdd(num_listed, 1u)] = order << 32 | static_cast<uint32_t>(id);
  }
  RowPart::cluster_sync();
}

// By block 0: each lane finds the place of one.
__device__ void write_best(const LogprobsArgs& args, int64_t row, const LogprobsMemory& memory, int count, const Softmax& softmax) {
  const int lane = static_cast<int>(threadIdx.x);
  write_unlisted(args, row, count);
  if (lane >= count) return;
  const uint64_t own = memory.listed[lane];
  int place = 0;
  for (int other = 0; other < count; ++other) place += memory.listed[other] < own ? 1 : 0;
  args.top_id[row][place] = static_cast<int32_t>(own);
  args.top_logprob[row][place] = softmax.logprob_of(of_falling_order(own >> 32));
}

__global__ void __launch_bounds__(kRowThreads, 2) logprobs_kernel(LogprobsArgs args) {
  begin_step_kernel();
  const int64_t row = blockIdx.x / cooperative_groups::this_cluster().num_blocks();
  const int wanted = args.num_logprobs[row];
  if (wanted < 0) {
    if (blockIdx.x % cooperative_groups::this_cluster().num_blocks() != 0) return;
    if (threadIdx.x == 0) args.logprob[row] = 0.0f;
    return write_unlisted(args, row, 0);
  }
  auto& memory = *reinterpret_cast<LogprobsMemory*>(block_memory());
  if (threadIdx.x == 0) memory.num_listed = 0;
  auto* logits = reinterpret_cast<float*>(block_memory() + sizeof(LogprobsMemory));
  RowPart part(memory.part, logits, args.logits[row], args.vocabulary, args.part_size);
  const RowPeak peak = find_peak(part);
  if (!peak.usable) {
    if (part.rank != 0) return;
    if (threadIdx.x == 0) args.logprob[row] = std::bit_cast<float>(0x7FC00000u);
    return write_unlisted(args, row, 0);
  }
  const Softmax softmax{peak.value, log(sum_of_powers(part, memory.warp_sums, peak.value))};

  const int id = args.target[row] >= 0 ? args.target[row] : args.tokens[row];
  const bool is_inside = id >= 0 && id < args.vocabulary;
  const int i = id - part.first;
  if (threadIdx.x == 0 && is_inside && i >= 0 && i < part.count) {
    args.logprob[row] = softmax.logprob_of(part.logits[i]);
  }
  if (threadIdx.x == 0 && !is_inside && part.rank == 0) args.logprob[row] = 0.0f;

  const int count = min(min(wanted, kMaxLogprobs), args.vocabulary);
  if (count > 0) list_best(part, memory, peak.value, count);
  if (part.rank == 0) write_best(args, row, memory, count, softmax);
}

void run_logprobs(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& logits = args.inputs[0].tensor;
  const auto ints = [&](int index) { return args.inputs[index].tensor.as<const int32_t>(); };
  if (logits.dims[0] == 0) return;
  const LogprobsArgs values{.logits = rows_of<const float>(logits),
                            .vocabulary = static_cast<int>(logits.dims[1]),
                            .part_size = part_size_of(logits.dims[1]),
                            .tokens = ints(1),
                            .target = ints(2),
                            .num_logprobs = ints(3),
                            .logprob = args.outputs[0].tensor.as<float>(),
                            .top_id = rows_of<int32_t>(args.outputs[1].tensor),
                            .top_logprob = rows_of<float>(args.outputs[2].tensor)};
  launch_row_parts(logprobs_kernel, logits.dims[0], logits.dims[1], sizeof(LogprobsMemory), stream_of(step), values);
}

bool fits_shared_memory(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs&) {
  return inputs[0].shape[1].constant() <= kMaxVocabulary;
}

const PluginKernel kRows[] = {
    {"logprobs", {.name = "cuda_cluster", .device = DeviceKind::cuda, .supports = fits_shared_memory, .run = run_logprobs}},
};

}  // namespace

KernelRows logprobs_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda

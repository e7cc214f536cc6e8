// sample: a cluster of blocks takes a row and keeps it in shared memory (row_parts.cuh), where biases and penalties change it; the logits
// in memory stay. Bound by that one read for greedy rows; drawing adds a float64 exponential a logit, 12 operations of which an SM
// does 64 a cycle: about as long again. Filters move a limit in falling order of logits, found by histograms, not by sorting.
//
// Weights e^((logit - best) / temperature) are integers in units of 2^-45, rounded to nearest, so that a token of less than 2^-46 of the
// best one's probability is never drawn. Sums of them are exact: a row's token hangs on nothing but the row.
#include "kernels/cuda/sample.h"

#include "kernels/cuda/row_parts.cuh"
#include "ops/sample.h"

namespace headrace::cuda {
namespace {

using namespace ops::sample_input;

constexpr double kSumSlack = 1e-12;  // as the reference: rounding does not push a set past top_p
constexpr int kWeightBits = 45;      // kMaxVocabulary weights of 2^45 fit 64 bits
constexpr double kLowest = -32;      // e^-32 rounds to no weight
constexpr uint64_t kNowhere = ~uint64_t{0};  // in no order of preference
constexpr int kPowers = 256;

struct List {
  const int32_t* start;  // [rows + 1]
  const int32_t* id;
  int64_t count;
};

struct SampleArgs {
  RowsOf<const float> logits;
  int vocabulary, part_size;
  const float *temperature, *top_p, *min_p, *typical_p, *repetition_penalty, *frequency_penalty, *presence_penalty;
  const int32_t *top_k, *seed_lo, *seed_hi, *stream, *sample_pos, *sample_slot;
  List biases;
  const float* bias_value;
  List history;
  const int32_t* output_start;
  int32_t* last_token;
  int slots;
  int32_t* tokens;
};

struct alignas(16) SampleMemory {
  PartMemory part;
  double powers[kPowers];  // 2^(i / kPowers)
};

struct Parameters {
  float temperature, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty;
  int top_k;

  __device__ Parameters(const SampleArgs& args, int64_t row)
      : temperature(args.temperature[row]),
        top_p(args.top_p[row]),
        min_p(args.min_p[row]),
        typical_p(args.typical_p[row]),
        repetition_penalty(args.repetition_penalty[row]),
        frequency_penalty(args.frequency_penalty[row]),
        presence_penalty(args.presence_penalty[row]),
        top_k(args.top_k[row]) {}

  __device__ bool in_range() const {
    return temperature >= 0 && temperature <= 1e6f && top_p >= 0 && top_p <= 1 && min_p >= 0 && min_p <= 1 && typical_p >= 0 &&
           typical_p <= 1 && repetition_penalty > 0 && repetition_penalty < HUGE_VALF && frequency_penalty >= -2 &&
           frequency_penalty <= 2 && presence_penalty >= -2 && presence_penalty <= 2 && top_k >= -1;
  }
  __device__ bool penalizes() const { return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0; }
};

// ---- biases and penalties -----------------------------------------------------------------------

struct Range {
  int64_t begin, end;
  __device__ bool is_empty() const { return begin >= end; }
};

// ops::ListPart, on the device.
__device__ Range range_of(const List& list, int64_t row) {
  const int64_t begin = min(max(int64_t{list.start[row]}, int64_t{0}), list.count);
  return {begin, min(max(int64_t{list.start[row + 1]}, begin), list.count)};
}

// Every warp reads the whole list, and its lanes add what falls to the warp's ids, in the list's order. False: a bias lies outside the
// vocabulary, which every block finds by itself.
__device__ bool add_biases(const RowPart& part, const SampleArgs& args, Range range) {
  const int ids_of_warp = (part.count + kRowWarps - 1) / kRowWarps;
  bool inside = true;
  for (int64_t base = range.begin; base < range.end; base += 32) {
    const int64_t place = base + RowPart::lane();
    const int id = place < range.end ? args.biases.id[place] : 0;
    inside = inside && id >= 0 && id < args.vocabulary;
    const int i = id - part.first;
    const bool is_mine = place < range.end && i >= 0 && i < part.count && i / ids_of_warp == RowPart::warp();
    for (uint32_t left = __ballot_sync(kAllLanes, is_mine); left != 0; left &= left - 1) {
      if (RowPart::lane() == __ffs(static_cast<int>(left)) - 1) part.logits[i] += args.bias_value[place];
      __syncwarp();
    }
  }
  return __syncthreads_and(inside) != 0;
}

// Ids of the part are counted in windows that fit the memory of the histograms: bit 0 of a count says that the history has the id, the
// others how often the output does.
__device__ void add_penalties(const RowPart& part, const SampleArgs& args, const Parameters& wanted, Range range, int64_t output_start,
                              PartMemory& memory) {
  constexpr int kWindow = 2 * kBins;
  uint32_t* counts = memory.counts;
  const int thread = static_cast<int>(threadIdx.x);
  for (int window = 0; window < part.count; window += kWindow) {
    for (int i = thread; i < kWindow; i += kRowThreads) counts[i] = 0;
    __syncthreads();
    const int size = min(kWindow, part.count - window);
    for (int64_t place = range.begin + thread; place < range.end; place += kRowThreads) {
      int id = args.history.id[place];
      if (id < 0) id = ~id < args.slots ? args.last_token[~id] : -1;
      const int64_t i = int64_t{id} - part.first - window;
      if (id < 0 || i < 0 || i >= size) continue;
      if (place >= output_start) {
        atomicAdd(&counts[i], 2u);
      } else {
        atomicOr(&counts[i], 1u);
      }
    }
    __syncthreads();
    for (int i = thread; i < size; i += kRowThreads) {
      if (counts[i] == 0) continue;
      float x = part.logits[window + i];
      x = x > 0.0f ? x / wanted.repetition_penalty : x * wanted.repetition_penalty;
      const uint32_t in_output = counts[i] / 2;
      if (in_output > 0) {
        const double taken = double{wanted.frequency_penalty} * in_output + double{wanted.presence_penalty};
        x = static_cast<float>(static_cast<double>(x) - taken);
      }
      part.logits[window + i] = x;
    }
    __syncthreads();
  }
}

// ---- drawing ------------------------------------------------------------------------------------

// (the first output of Philox4x32-10 + 0.5) / 2^32; ops::Philox on the device.
__device__ double uniform_of(const SampleArgs& args, int64_t row) {
  uint32_t counter[4] = {static_cast<uint32_t>(args.sample_pos[row]), static_cast<uint32_t>(args.stream[row]), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(args.seed_lo[row]), static_cast<uint32_t>(args.seed_hi[row])};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return (counter[0] + 0.5) / 4294967296.0;
}

// e^z in units of 2^-kWeightBits, for z <= 0: z = n ln 2 / 256 + r with |r| <= ln 2 / 512, and 2^(n / 256) from the table. Four terms of
// e^r leave 4e-17.
__device__ uint64_t weight_of(double z, const double* powers) {
  if (!(z > kLowest)) return 0;
  const double shifted = fma(z, 1.4426950408889634074 * kPowers, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double r = fma(n, -0x1.a39ef35793c76p-41, fma(n, -0x1.62e42feep-9, z));  // ln 2 / 256 in two parts
  double p = fma(r, 1.0 / 24.0, 1.0 / 6.0);
  p = fma(p, r, 0.5);
  p = fma(p, r, 1.0);
  p = fma(p, r, 1.0);
  const auto whole = static_cast<int>(std::bit_cast<int64_t>(shifted));  // n, from the low bits
  const double scaled = p * powers[whole & (kPowers - 1)];
  const int64_t exponent = kWeightBits + (whole >> 8);
  const double weight = std::bit_cast<double>(std::bit_cast<int64_t>(scaled) + (exponent << 52));
  return std::bit_cast<uint64_t>(weight + 0x1p52) - 0x4330000000000000u;  // the integer in the mantissa
}

// What is left of a row that draws, and its weights. Calls take i, a place in the part.
struct Drawing {
  const RowPart& part;
  const double* powers;
  double inverse_temperature;
  double best;  // the logit of weight 1

  // Kept: falling orders below `limit`, and at `limit` the ids up to last_tie.
  uint32_t limit = 0xFFFFFFFFu;
  int last_tie = 0x7FFFFFFF;
  // And those no farther than `farthest` from the mean of z; see distance().
  double mean = 0;
  uint64_t farthest = kNowhere;

  __device__ double z(int i) const { return (static_cast<double>(part.logits[i]) - best) * inverse_temperature; }
  __device__ uint64_t weight(int i) const { return weight_of(z(i), powers); }
  __device__ uint64_t distance(int i) const {
    return static_cast<uint64_t>(fabs(z(i) - mean) * (int64_t{1} << kWeightBits) + 0.5);
  }
  __device__ bool is_within_limit(int i) const {
    const uint32_t order = falling_order(part.logits[i]);
    return order < limit || (order == limit && part.first + i <= last_tie);
  }
  __device__ bool is_kept(int i) const { return is_within_limit(i) && (farthest == kNowhere || distance(i) <= farthest); }
};

// The goal of a set whose sum reaches `share` of the total, with one member at least.
__device__ uint64_t goal_of_share(double share, uint64_t total) {
  const double sum = ceil((share - kSumSlack) * static_cast<double>(total));
  return sum > 1 ? static_cast<uint64_t>(sum) - 1 : 0;
}

__device__ void keep_top_k(RowPart& part, Drawing& drawing, int64_t k) {
  const Place found = part.search(
      falling_order(static_cast<float>(drawing.best)), drawing.limit, [&](int i) { return falling_order(part.logits[i]); },
      [](int) { return uint64_t{1}; }, [&](uint64_t) { return static_cast<uint64_t>(k - 1); });
  drawing.limit = static_cast<uint32_t>(found.at);
}

// Of logits that tie at the limit, each as heavy as the others, the lowest ids stay until the sum is reached.
__device__ void keep_top_p(RowPart& part, Drawing& drawing, double top_p, double temperature) {
  const uint32_t first = falling_order(static_cast<float>(drawing.best));
  const uint32_t weightless = falling_order(static_cast<float>(drawing.best + (kLowest - 1) * temperature));
  uint64_t goal = 0;
  const Place found = part.search(
      first, min(drawing.limit, weightless), [&](int i) { return falling_order(part.logits[i]); },
      [&](int i) { return drawing.weight(i); }, [&](uint64_t total) { return goal = goal_of_share(top_p, total); });
  drawing.limit = static_cast<uint32_t>(found.at);
  const double z = (static_cast<double>(of_falling_order(found.at)) - drawing.best) * drawing.inverse_temperature;
  const uint64_t each = weight_of(z, drawing.powers);
  const uint64_t wanted = (goal - found.before) / each;  // ties before the last that stays
  if (wanted + 1 >= found.value / each) return;
  const Place last = part.locate([&](int i) { return uint64_t{falling_order(part.logits[i]) == drawing.limit}; },
                                 [&](uint64_t) { return wanted; });
  drawing.last_tie = static_cast<int>(last.at);
}

__device__ void keep_min_p(Drawing& drawing, double min_p, double temperature) {
  const double lowest = drawing.best + temperature * log(min_p);
  auto rounded = static_cast<float>(lowest);
  if (static_cast<double>(rounded) < lowest) rounded = nextafterf(rounded, HUGE_VALF);
  const uint32_t limit = falling_order(rounded);
  if (limit >= drawing.limit) return;
  drawing.limit = limit;
  drawing.last_tie = 0x7FFFFFFF;
}

// With z = (logit - best) / temperature, -log p = log(total) - z, so the distance from the entropy is that of z from its mean.
__device__ void keep_typical(RowPart& part, Drawing& drawing, double typical_p) {
  uint64_t weights = 0;
  uint64_t products = 0;  // of weight and -z, which sum to less than kMaxVocabulary * 2^kWeightBits as well
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += kRowThreads) {
    const uint64_t weight = drawing.is_within_limit(i) ? drawing.weight(i) : 0;
    if (weight == 0) continue;
    weights += weight;
    products += static_cast<uint64_t>(static_cast<double>(weight) * -drawing.z(i) + 0.5);
  }
  weights = part.sum_of_row(weights);
  products = part.sum_of_row(products);
  drawing.mean = -static_cast<double>(products) / static_cast<double>(weights);

  const auto distance = [&](int i) { return drawing.is_within_limit(i) && drawing.z(i) > kLowest ? drawing.distance(i) : kNowhere; };
  constexpr uint64_t kFarthest = (uint64_t{32} << kWeightBits) + 1;  // z and its mean lie in [kLowest, 0]
  const Place found = part.search(0, kFarthest, distance, [&](int i) { return drawing.weight(i); },
                                  [&](uint64_t total) { return goal_of_share(typical_p, total); });
  drawing.farthest = found.at;
}

// The weight of the best that is kept becomes 1, where typical_p has dropped the best of the row: else all of them might round to none.
__device__ double best_kept(RowPart& part, const Drawing& drawing) {
  uint32_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += kRowThreads) {
    if (drawing.is_kept(i)) best = max(best, ordered(part.logits[i]));
  }
  return of_ordered(static_cast<uint32_t>(part.max_of_row(best)));
}

__device__ int draw(RowPart& part, const Parameters& wanted, float peak, double* powers, double u) {
  if (threadIdx.x < kPowers) powers[threadIdx.x] = exp2(static_cast<double>(threadIdx.x) / kPowers);
  __syncthreads();
  Drawing drawing{part, powers, 1.0 / double{wanted.temperature}, peak};
  if (wanted.top_k > 0 && wanted.top_k < part.vocabulary) keep_top_k(part, drawing, wanted.top_k);
  if (wanted.top_p < 1) keep_top_p(part, drawing, wanted.top_p, wanted.temperature);
  if (wanted.min_p > 0) keep_min_p(drawing, wanted.min_p, wanted.temperature);
  double reference = peak;
  if (wanted.typical_p < 1) {
    keep_typical(part, drawing, wanted.typical_p);
    reference = best_kept(part, drawing);
  }
  const auto weight = [&](int i) {
    if (!drawing.is_kept(i)) return uint64_t{0};
    return weight_of((static_cast<double>(part.logits[i]) - reference) * drawing.inverse_temperature, powers);
  };
  return static_cast<int>(
      part.locate(weight, [&](uint64_t total) { return static_cast<uint64_t>(u * static_cast<double>(total)); }).at);
}

// ---- the op -------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kRowThreads, 2) sample_kernel(SampleArgs args) {
  begin_step_kernel();
  auto& memory = *reinterpret_cast<SampleMemory*>(block_memory());
  auto* logits = reinterpret_cast<float*>(block_memory() + sizeof(SampleMemory));
  const int64_t row = blockIdx.x / cooperative_groups::this_cluster().num_blocks();
  RowPart part(memory.part, logits, args.logits[row], args.vocabulary, args.part_size);

  const Parameters wanted(args, row);
  bool valid = wanted.in_range();
  if (const Range biases = range_of(args.biases, row); !biases.is_empty()) valid = add_biases(part, args, biases) && valid;
  const Range history = range_of(args.history, row);
  if (valid && wanted.penalizes() && !history.is_empty()) {
    add_penalties(part, args, wanted, history, args.output_start[row], memory.part);
  }
  const RowPeak peak = find_peak(part);
  int token = -1;
  if (valid && peak.usable) {
    token = wanted.temperature == 0 ? peak.id : draw(part, wanted, peak.value, memory.powers, uniform_of(args, row));
  }
  if (part.rank != 0 || threadIdx.x != 0) return;
  args.tokens[row] = token;
  const int slot = args.sample_slot[row];
  if (slot >= 0 && slot < args.slots) args.last_token[slot] = token;
}

void run_sample(const StepContext& step, const NodeArgs& args, Team&) {
  const auto floats = [&](int index) { return args.inputs[index].tensor.as<const float>(); };
  const auto ints = [&](int index) { return args.inputs[index].tensor.as<const int32_t>(); };
  const auto list = [&](int start, int ids) { return List{ints(start), ints(ids), args.inputs[ids].tensor.dims[0]}; };
  const TensorView& logits = args.inputs[kLogits].tensor;
  const TensorView& last = args.inputs[kLastToken].tensor;
  if (logits.dims[0] == 0) return;
  const SampleArgs values{.logits = rows_of<const float>(logits),
                          .vocabulary = static_cast<int>(logits.dims[1]),
                          .part_size = part_size_of(logits.dims[1]),
                          .temperature = floats(kTemperature),
                          .top_p = floats(kTopP),
                          .min_p = floats(kMinP),
                          .typical_p = floats(kTypicalP),
                          .repetition_penalty = floats(kRepetitionPenalty),
                          .frequency_penalty = floats(kFrequencyPenalty),
                          .presence_penalty = floats(kPresencePenalty),
                          .top_k = ints(kTopK),
                          .seed_lo = ints(kSeedLo),
                          .seed_hi = ints(kSeedHi),
                          .stream = ints(kStream),
                          .sample_pos = ints(kSamplePos),
                          .sample_slot = ints(kSampleSlot),
                          .biases = list(kBiasStart, kBiasToken),
                          .bias_value = floats(kBiasValue),
                          .history = list(kHistoryStart, kHistory),
                          .output_start = ints(kOutputStart),
                          .last_token = last.as<int32_t>(),
                          .slots = static_cast<int>(last.dims[0]),
                          .tokens = args.outputs[0].tensor.as<int32_t>()};
  launch_row_parts(sample_kernel, logits.dims[0], logits.dims[1], sizeof(SampleMemory), stream_of(step), values);
}

bool fits_shared_memory(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs&) {
  return inputs[kLogits].shape[1].constant() <= kMaxVocabulary;
}

const PluginKernel kRows[] = {
    {"sample", {.name = "cuda_cluster", .device = DeviceKind::cuda, .supports = fits_shared_memory, .run = run_sample}},
};

}  // namespace

KernelRows sample_rows() { return {kRows, 1}; }

}  // namespace headrace::cuda

// sample: one member takes a row. Greedy reads the logits twice (196 KB for 49152); drawing adds one float64
// exponential a logit, vectorized, and, for top_p and typical_p, a sort of the few logits that can hold that mass. A row with
// biases or penalties is copied first and changed where they say so, in time that grows with their number. All sums run in an
// order that the row's length alone fixes.
#include "ops/sample.h"

#include <algorithm>

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

using namespace ops::sample_input;

constexpr int64_t kSumBlock = 256;
constexpr double kSumSlack = 1e-12;  // as the reference: rounding does not push a set past top_p

// One row's parameters and its member's memory.
struct Row {
  const float* logits;
  int64_t count;
  double temperature, top_p, min_p, typical_p;
  double repetition_penalty, frequency_penalty, presence_penalty;
  int64_t top_k;
  double u;

  double* weights;      // [count]: e^((logit - peak) / temperature), 0 for what is not kept
  double* block_sums;   // [count / kSumBlock + 1]
  int32_t* candidates;  // [count]
  float* adjusted;      // [count]: the logits after biases and penalties
};

bool is_penalized(const Row& row) {
  return row.repetition_penalty != 1.0 || row.frequency_penalty != 0.0 || row.presence_penalty != 0.0;
}

bool add_biases(const Row& row, const NodeArgs& args, ops::ListPart part) {
  const auto* token = args.inputs[kBiasToken].tensor.as<int32_t>();
  const auto* value = args.inputs[kBiasValue].tensor.as<float>();
  for (int64_t i = part.begin; i < part.end; ++i) {
    if (token[i] < 0 || token[i] >= row.count) return false;
    row.adjusted[token[i]] += value[i];
  }
  return true;
}

// Counts are kept for the ids of the history alone, so that nothing as long as the vocabulary has to be cleared.
void add_penalties(const Row& row, const NodeArgs& args, ops::ListPart part, int64_t output_start) {
  const TensorView& last = args.inputs[kLastToken].tensor;
  const auto* history = args.inputs[kHistory].tensor.as<int32_t>();
  auto* counts = reinterpret_cast<int32_t*>(row.weights);  // by id; weights come later
  // Calls use(id, its place) for what lies in the vocabulary.
  const auto each = [&](int64_t begin, auto use) __attribute__((always_inline)) {
    for (int64_t i = begin; i < part.end; ++i) {
      const int64_t slot = -1 - static_cast<int64_t>(history[i]);
      const int64_t id = slot < 0 ? history[i] : slot < last.dims[0] ? last.as<int32_t>()[slot] : -1;
      if (id >= 0 && id < row.count) use(id, i);
    }
  };
  const auto repetition = static_cast<float>(row.repetition_penalty);
  constexpr int32_t kUnseen = -1;
  each(part.begin, [&](int64_t id, int64_t) { counts[id] = kUnseen; });
  each(part.begin, [&](int64_t id, int64_t place) {
    if (counts[id] == kUnseen) {
      counts[id] = 0;
      float& x = row.adjusted[id];
      x = x > 0.0f ? x / repetition : x * repetition;
    }
    counts[id] += place >= output_start ? 1 : 0;
  });
  each(output_start < part.begin ? part.begin : output_start, [&](int64_t id, int64_t) {
    if (counts[id] == 0) return;  // done at its first place
    const double taken = row.frequency_penalty * counts[id] + row.presence_penalty;
    row.adjusted[id] = static_cast<float>(static_cast<double>(row.adjusted[id]) - taken);
    counts[id] = 0;
  });
}

// Points `row.logits` to the row as its biases and penalties leave it. False: a bias lies outside the vocabulary.
bool adjust(Row& row, const NodeArgs& args, int64_t r) {
  const auto part_of = [&](int starts, int list) {
    const auto* start = args.inputs[starts].tensor.as<int32_t>();
    return ops::ListPart::of(start[r], start[r + 1], args.inputs[list].tensor.dims[0]);
  };
  const ops::ListPart biases = part_of(kBiasStart, kBiasToken);
  const ops::ListPart history = part_of(kHistoryStart, kHistory);
  const bool penalized = is_penalized(row) && history.begin < history.end;
  if (biases.begin == biases.end && !penalized) return true;
  std::memcpy(row.adjusted, row.logits, static_cast<size_t>(row.count) * sizeof(float));
  row.logits = row.adjusted;
  if (!add_biases(row, args, biases)) return false;
  if (penalized) add_penalties(row, args, history, args.inputs[kOutputStart].tensor.as<int32_t>()[r]);
  return true;
}

int64_t first_equal(const float* x, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] == value) return i;
  }
  return -1;
}

// Floats as integers of the same order (no NaN).
HR_INLINE uint32_t ordered(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The k-th largest, k in [1, count]: three histograms, of the top 11 bits, the next 11, the last 10.
float kth_largest(const float* x, int64_t count, int64_t k) {
  uint32_t prefix = 0;
  uint32_t mask = 0;
  for (const int shift : {21, 10, 0}) {
    uint32_t histogram[2048] = {};
    const uint32_t digit = shift == 0 ? 1023u : 2047u;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t key = ordered(x[i]);
      if ((key & mask) == prefix) ++histogram[(key >> shift) & digit];
    }
    uint32_t bucket = digit;
    for (; bucket > 0 && histogram[bucket] < k; --bucket) k -= histogram[bucket];
    prefix |= bucket << shift;
    mask |= digit << shift;
  }
  const uint32_t bits = (prefix & 0x80000000u) != 0 ? prefix & 0x7FFFFFFFu : ~prefix;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr int kDoubles = kIsa == Isa::avx512 ? 8 : kIsa == Isa::avx2 ? 4 : 2;  // one register of the set
using Doubles = double __attribute__((vector_size(kDoubles * 8)));
using DoubleBits = uint64_t __attribute__((vector_size(kDoubles * 8)));

HR_INLINE Doubles all(double x) {
  return Doubles{} + x;
}
HR_INLINE Doubles pick(DoubleBits where, Doubles x, Doubles y) {
  return reinterpret_cast<Doubles>((where & reinterpret_cast<DoubleBits>(x)) |
                                   (~where & reinterpret_cast<DoubleBits>(y)));
}

// e^z for z <= 0, within 2e-16 of itself; 0 below -700. Taylor to the 13th power on |r| <= ln 2 / 2: the rest
// is 4e-18.
HR_INLINE Doubles exp_of_negative(Doubles z) {
  const auto tiny = reinterpret_cast<DoubleBits>(z < all(-700.0));
  const Doubles clamped = pick(tiny, all(-700.0), z);
  const Doubles shifted = clamped * 1.4426950408889634074 + 0x1.8p52;
  const Doubles n = shifted - 0x1.8p52;
  // ln 2 in two parts, the first with 32 significant bits.
  const Doubles r = (clamped - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  Doubles p = all(1.0 / 6227020800.0);
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const DoubleBits scaled = reinterpret_cast<DoubleBits>(p) + (reinterpret_cast<DoubleBits>(shifted) << 52);
  return pick(tiny, all(0.0), reinterpret_cast<Doubles>(scaled));
}

// Element i of a block adds to chain i % 8, so that the chains fill registers and the order stays.
HR_INLINE double fold(const double* chains) {
  return ((chains[0] + chains[4]) + (chains[2] + chains[6])) +
         ((chains[1] + chains[5]) + (chains[3] + chains[7]));
}

double sum_block(const double* values, int64_t count) {
  double chains[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) chains[j] += values[i + j];
  }
  for (int j = 0; i < count; ++i, ++j) chains[j] += values[i];
  return fold(chains);
}

double sum_blocks(const Row& row) {
  double total = 0;
  for (int64_t begin = 0; begin < row.count; begin += kSumBlock) {
    const int64_t left = row.count - begin;
    const double sum = sum_block(row.weights + begin, left < kSumBlock ? left : kSumBlock);
    row.block_sums[begin / kSumBlock] = sum;
    total += sum;
  }
  return total;
}

void fill_weights(const Row& row, float peak) {
  const bool limited = row.top_k > 0 && row.top_k < row.count;
  const double lowest =
      static_cast<double>(limited ? kth_largest(row.logits, row.count, row.top_k) : kMinusInfinity);
  const double inverse = 1.0 / row.temperature;
  const double top = static_cast<double>(peak);
  const auto fill = [&](int64_t i, int n) __attribute__((always_inline)) {
    Doubles logits = all(top);
    for (int j = 0; j < n; ++j) logits[j] = static_cast<double>(row.logits[i + j]);
    const Doubles weights = pick(reinterpret_cast<DoubleBits>(logits < all(lowest)), all(0.0),
                                 exp_of_negative((logits - top) * inverse));
    std::memcpy(row.weights + i, &weights, static_cast<size_t>(n) * sizeof(double));
  };
  int64_t i = 0;
  for (; i + kDoubles <= row.count; i += kDoubles) fill(i, kDoubles);
  if (i < row.count) fill(i, static_cast<int>(row.count - i));
}

// Zeroes the weights outside the smallest set, largest first and lower ids first, whose share of `total`
// reaches top_p. Looks at the largest weights only, in widening circles of e^-4, e^-8, ... of the peak.
void keep_top_p(const Row& row, double total) {
  const double target = (row.top_p - kSumSlack) * total;
  const double* weights = row.weights;
  for (const double limit : {1.8e-2, 3.3e-4, 1.1e-7, 1.2e-14, 0.0}) {
    int64_t count = 0;
    double mass = 0;
    for (int64_t i = 0; i < row.count; ++i) {
      if (weights[i] < limit || weights[i] == 0.0) continue;
      row.candidates[count++] = static_cast<int32_t>(i);
      mass += weights[i];
    }
    if (mass < target && limit > 0) continue;
    const float* logits = row.logits;
    std::sort(row.candidates, row.candidates + count, [logits](int32_t a, int32_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    double sum = 0;
    int64_t kept = 0;
    while (kept < count && (kept == 0 || sum < target)) sum += weights[row.candidates[kept++]];
    if (sum < target && limit > 0) continue;
    const int32_t last = row.candidates[kept - 1];
    const float cut = logits[last];
    for (int64_t i = 0; i < row.count; ++i) {
      const bool keep = logits[i] > cut || (logits[i] == cut && i <= last);
      row.weights[i] = keep ? row.weights[i] : 0.0;
    }
    return;
  }
}

// Zeroes the weights outside the set, nearest the expected information first, whose share of `total` reaches typical_p. With
// z = (logit - peak) / temperature, -log p = log(total) - z, so the distance from the entropy is that of z from its mean. Only
// the ids of one bin of distances are sorted.
void keep_typical(const Row& row, float peak, double total) {
  constexpr int kBins = 128;
  constexpr double kBinsPerNat = 4;
  const double inverse = 1.0 / row.temperature;
  const double target = (row.typical_p - kSumSlack) * total;
  const auto z = [&](int64_t i) { return (static_cast<double>(row.logits[i]) - static_cast<double>(peak)) * inverse; };
  const auto each = [&](auto use) __attribute__((always_inline)) {
    for (int64_t i = 0; i < row.count; ++i) {
      if (row.weights[i] != 0.0) use(i);
    }
  };
  double mean = 0;
  each([&](int64_t i) { mean += row.weights[i] * z(i); });
  mean /= total;
  const auto distance = [&](int64_t i) { return __builtin_fabs(z(i) - mean); };
  const auto bin_of = [&](int64_t i) {
    const double bin = distance(i) * kBinsPerNat;
    return bin < kBins - 1 ? static_cast<int>(bin) : kBins - 1;
  };
  double mass[kBins] = {};
  each([&](int64_t i) { mass[bin_of(i)] += row.weights[i]; });
  int cut = 0;
  double sum = 0;
  while (cut < kBins - 1 && (mass[cut] == 0.0 || sum + mass[cut] < target)) sum += mass[cut++];

  float lowest = __builtin_inff();
  float highest = kMinusInfinity;
  const auto keep = [&](int64_t i) {
    lowest = row.logits[i] < lowest ? row.logits[i] : lowest;
    highest = row.logits[i] > highest ? row.logits[i] : highest;
  };
  int64_t count = 0;
  each([&](int64_t i) {
    const int bin = bin_of(i);
    if (bin < cut) keep(i);
    if (bin == cut) row.candidates[count++] = static_cast<int32_t>(i);
  });
  std::sort(row.candidates, row.candidates + count, [&](int32_t a, int32_t b) {
    const double near = distance(a);
    const double far = distance(b);
    return near != far ? near < far : a < b;
  });
  for (int64_t i = 0; i < count && (i == 0 || sum < target); ++i) {
    keep(row.candidates[i]);
    sum += row.weights[row.candidates[i]];
  }
  for (int64_t i = 0; i < row.count; ++i) {
    const bool kept = row.logits[i] >= lowest && row.logits[i] <= highest;
    row.weights[i] = kept ? row.weights[i] : 0.0;
  }
}

// The first id at which the sum of weights passes u of their total. u stays 1e-10 below 1, far more than sums
// are off, so some block passes; within it rounding can leave only the last weight.
int32_t draw(const Row& row) {
  const double target = row.u * sum_blocks(row);
  int64_t block = 0;
  double before = 0;
  while (before + row.block_sums[block] <= target) before += row.block_sums[block++];
  const int64_t begin = block * kSumBlock;
  const int64_t end = begin + kSumBlock < row.count ? begin + kSumBlock : row.count;
  int64_t chosen = begin;
  for (int64_t i = begin; i < end && before <= target; ++i) {
    if (row.weights[i] == 0.0) continue;
    before += row.weights[i];
    chosen = i;
  }
  return static_cast<int32_t>(chosen);
}

bool in_range(const Row& row) {
  return row.temperature >= 0 && row.temperature <= 1e6 && row.top_p >= 0 && row.top_p <= 1 &&
         row.min_p >= 0 && row.min_p <= 1 && row.typical_p >= 0 && row.typical_p <= 1 &&
         row.repetition_penalty > 0 && row.repetition_penalty < __builtin_inf() && row.frequency_penalty >= -2 &&
         row.frequency_penalty <= 2 && row.presence_penalty >= -2 && row.presence_penalty <= 2 && row.top_k >= -1;
}

int32_t sample_row(Row& row, const NodeArgs& args, int64_t r) {
  if (!in_range(row) || !adjust(row, args, r)) return -1;
  const Peak peak = find_peak(row.logits, row.count);
  if (!peak.usable) return -1;
  if (row.temperature == 0.0) return static_cast<int32_t>(first_equal(row.logits, row.count, peak.value));
  fill_weights(row, peak.value);
  if (row.top_p < 1.0) keep_top_p(row, sum_blocks(row));
  if (row.min_p > 0.0) {
    for (int64_t i = 0; i < row.count; ++i)
      row.weights[i] = row.weights[i] < row.min_p ? 0.0 : row.weights[i];
  }
  if (row.typical_p < 1.0) keep_typical(row, peak.value, sum_blocks(row));
  return draw(row);
}

int64_t member_bytes(int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(double) + sizeof(int32_t) + sizeof(float)) +
                        (count / kSumBlock + 1) * static_cast<int64_t>(sizeof(double));
  return (bytes + 63) / 64 * 64;
}

void run_sample(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& logits = args.inputs[kLogits].tensor;
  const TensorView& last = args.inputs[kLastToken].tensor;
  const auto float_at = [&](int index, int64_t row) {
    return static_cast<double>(args.inputs[index].tensor.as<float>()[row]);
  };
  const auto int_at = [&](int index, int64_t row) { return args.inputs[index].tensor.as<int32_t>()[row]; };
  const int64_t count = logits.dims[1];
  auto* memory = reinterpret_cast<double*>(args.scratch + team.rank() * member_bytes(count));
  auto* candidates = reinterpret_cast<int32_t*>(memory + count + count / kSumBlock + 1);
  for (int64_t r = team.claim(logits.dims[0]); r >= 0; r = team.claim(logits.dims[0])) {
    const auto random = ops::Philox::block(
        {static_cast<uint32_t>(int_at(kSamplePos, r)), static_cast<uint32_t>(int_at(kStream, r)), 0, 0},
        {static_cast<uint32_t>(int_at(kSeedLo, r)), static_cast<uint32_t>(int_at(kSeedHi, r))});
    Row row{.logits = logits.row<float>(r),
            .count = count,
            .temperature = float_at(kTemperature, r),
            .top_p = float_at(kTopP, r),
            .min_p = float_at(kMinP, r),
            .typical_p = float_at(kTypicalP, r),
            .repetition_penalty = float_at(kRepetitionPenalty, r),
            .frequency_penalty = float_at(kFrequencyPenalty, r),
            .presence_penalty = float_at(kPresencePenalty, r),
            .top_k = int_at(kTopK, r),
            .u = (static_cast<double>(random[0]) + 0.5) / 4294967296.0,
            .weights = memory,
            .block_sums = memory + count,
            .candidates = candidates,
            .adjusted = reinterpret_cast<float*>(candidates + count)};
    const int32_t token = sample_row(row, args, r);
    args.outputs[0].tensor.as<int32_t>()[r] = token;
    const int32_t slot = int_at(kSampleSlot, r);
    if (slot >= 0 && slot < last.dims[0]) last.as<int32_t>()[slot] = token;
  }
}

size_t sample_scratch(const NodeSizes& sizes, int team_size) {
  return static_cast<size_t>(team_size * member_bytes(sizes.inputs[kLogits].shape[1].eval(sizes.bindings)));
}

constexpr Kernel kSample{.op = &ops::sample,
                         .name = kIsaName,
                         .isa = kIsa,
                         .priority = kIsaPriority,
                         .scratch_bytes = sample_scratch,
                         .run = run_sample};

}  // namespace

const KernelList kernels_sample = {&kSample, 1};
HR_END_KERNELS

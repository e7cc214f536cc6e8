// sdpa: a claim is (sequence, head, kQueries queries). Lanes are queries: scores of a chunk of keys stand as [key][query], so that
// neither keys nor values are transposed, the softmax needs no sums across lanes, and the weights are broadcast where values are
// summed. A claim's queries, transposed once, stay in L1; so does a chunk of scores (16 KB), and the keys and values of a head pass
// from L2. For each score 4 * head_dim operations, bound by the multiply-adds, and some 20 for its exponential.
#include "ops/sdpa.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

constexpr int kQueryLanes = 2;
constexpr int kQueries = kQueryLanes * kLanes;
constexpr int64_t kChunkKeys = 128;
// Register tiles: keys x lanes of queries, and queries x lanes of values.
constexpr int kTileKeys = kIsa == Isa::avx512 ? 8 : kIsa == Isa::avx2 ? 6 : 2;
constexpr int kTileLanes = kIsa == Isa::avx512 ? 2 : 1;
constexpr int kValueRows = kIsa == Isa::avx512 ? 8 : kIsa == Isa::avx2 ? 4 : 2;
constexpr int kValueLanes = kIsa == Isa::avx512 ? 2 : 1;

HR_INLINE int64_t whole_lanes(int64_t n) { return ceil_of(n, kLanes) * kLanes; }

// One member's memory, in floats.
struct Workspace {
  float* query;    // [head_dim][kQueries], times scale
  float* weight;   // [kChunkKeys][kQueries]: scores, then their exponentials
  float* values;   // [kQueries][value_dim in whole lanes]: sums so far
  float* peak;     // [kQueries]: the largest score so far
  float* total;    // [kQueries]: the sum of exponentials so far
  float* keep;     // [kQueries]: what earlier sums are multiplied with, and at last 1 / total

  static int64_t floats(int64_t dim, int64_t value_dim) {
    return kQueries * (dim + kChunkKeys + whole_lanes(value_dim) + 3);
  }
  static Workspace at(float* memory, int64_t dim, int64_t value_dim) {
    Workspace w;
    w.query = memory;
    w.weight = w.query + kQueries * dim;
    w.values = w.weight + kQueries * kChunkKeys;
    w.peak = w.values + kQueries * whole_lanes(value_dim);
    w.total = w.peak + kQueries;
    w.keep = w.total + kQueries;
    return w;
  }
};

// weight[key][query] = query . key for `count` keys, rows `stride` apart.
void score_keys(const float* keys, int64_t stride, int64_t count, int64_t dim, const float* query, float* weight) {
  for (int64_t first = 0; first < count; first += kTileKeys) {
    const float* row[kTileKeys];
    for (int k = 0; k < kTileKeys; ++k) row[k] = keys + smaller(first + k, count - 1) * stride;
    for (int lane = 0; lane < kQueryLanes; lane += kTileLanes) {
      Lanes acc[kTileKeys][kTileLanes];
      for (int k = 0; k < kTileKeys; ++k) {
        for (int c = 0; c < kTileLanes; ++c) acc[k][c] = zero();
      }
      const float* q = query + lane * kLanes;
      for (int64_t d = 0; d < dim; ++d, q += kQueries) {
        Lanes columns[kTileLanes];
        for (int c = 0; c < kTileLanes; ++c) columns[c] = load(q + c * kLanes);
#pragma GCC unroll 8
        for (int k = 0; k < kTileKeys; ++k) {
          const Lanes key = broadcast(row[k][d]);
          for (int c = 0; c < kTileLanes; ++c) acc[k][c] = mul_add(key, columns[c], acc[k][c]);
        }
      }
      for (int k = 0; k < kTileKeys && first + k < count; ++k) {
        for (int c = 0; c < kTileLanes; ++c) store(weight + (first + k) * kQueries + (lane + c) * kLanes, acc[k][c]);
      }
    }
  }
}

// values[query][..] = keep[query] * values[query][..] + sum of weight[key][query] * value[key][..].
template <int kVectors>
HR_INLINE void weigh(const float* from, int64_t stride, int64_t count, int tail, const float* weight, const float* keep, bool first,
                     float* values, int64_t values_stride) {
  Lanes acc[kValueRows][kVectors];
  for (int r = 0; r < kValueRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      acc[r][c] = first ? zero() : load(values + r * values_stride + c * kLanes) * broadcast(keep[r]);
    }
  }
  for (int64_t key = 0; key < count; ++key, from += stride, weight += kQueries) {
    Lanes v[kVectors];
    for (int c = 0; c < kVectors; ++c) v[c] = load_some(from + c * kLanes, kVectors == 1 ? tail : kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kValueRows; ++r) {
      const Lanes w = broadcast(weight[r]);
      for (int c = 0; c < kVectors; ++c) acc[r][c] = mul_add(w, v[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kValueRows; ++r) {
    for (int c = 0; c < kVectors; ++c) store(values + r * values_stride + c * kLanes, acc[r][c]);
  }
}

void weigh_values(const float* from, int64_t stride, int64_t count, int64_t dim, const Workspace& w, int queries, bool first) {
  const int64_t values_stride = whole_lanes(dim);
  for (int row = 0; row < queries; row += kValueRows) {
    float* values = w.values + row * values_stride;
    int64_t d = 0;
    for (; d + kValueLanes * kLanes <= dim; d += kValueLanes * kLanes) {
      weigh<kValueLanes>(from + d, stride, count, kLanes, w.weight + row, w.keep + row, first, values + d, values_stride);
    }
    for (; d < dim; d += kLanes) {
      weigh<1>(from + d, stride, count, static_cast<int>(smaller(kLanes, dim - d)), w.weight + row, w.keep + row, first, values + d,
               values_stride);
    }
  }
}

// The mask of one claim: element (query, key); an axis of one has step 0.
struct Mask {
  const float* data = nullptr;  // null: none
  int64_t query_step = 0, key_step = 0;

  HR_INLINE Lanes lanes(int64_t key, int lane, int queries) const {
    const float* at = data + key * key_step;
    if (query_step == 0) return broadcast(*at);
    float values[kLanes];
    for (int i = 0; i < kLanes; ++i) values[i] = at[smaller(lane * kLanes + i, queries - 1) * query_step];
    return load(values);
  }
};

// Scores of keys [first, first + count) to exponentials; peak, total and keep go on. Query r sees keys up to r + reach.
void soften(const Workspace& w, int64_t first_key, int64_t count, const Mask& mask, int queries, int64_t reach) {
  for (int lane = 0; lane < kQueryLanes; ++lane) {
    float* weight = w.weight + lane * kLanes;
    const Lanes before = load(w.peak + lane * kLanes);
    Lanes peak = before;
    for (int64_t k = 0; k < count; ++k) {
      Lanes score = load(weight + k * kQueries);
      const int64_t key = first_key + k;
      if (mask.data != nullptr) score = score + mask.lanes(key, lane, queries);
      const int64_t hidden = key - reach - lane * kLanes;  // queries of this lane group that do not see the key
      if (hidden > 0) score = keep_range(score, static_cast<int>(smaller(hidden, kLanes)), kLanes, kMinusInfinity);
      if (mask.data != nullptr || hidden > 0) store(weight + k * kQueries, score);
      peak = max(peak, score);
    }
    // Where nothing is seen yet, minus infinity is taken from nothing: those weights are 0.
    const Lanes shift = if_less(broadcast(kMinusInfinity), peak, peak, zero());
    const Lanes keep = exp(before - shift);
    Lanes total[2] = {load(w.total + lane * kLanes) * keep, zero()};
    for (int64_t k = 0; k < count; ++k) {
      const Lanes e = exp(load(weight + k * kQueries) - shift);
      store(weight + k * kQueries, e);
      total[k % 2] = total[k % 2] + e;
    }
    store(w.peak + lane * kLanes, peak);
    store(w.total + lane * kLanes, total[0] + total[1]);
    store(w.keep + lane * kLanes, keep);
  }
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  const auto& a = sizes.attrs.as<ops::SdpaAttrs>();
  const int64_t dim = sizes.inputs[0].shape[2].eval(sizes.bindings) / a.heads;
  const int64_t value_dim = sizes.outputs[0].shape[2].eval(sizes.bindings) / a.heads;
  return static_cast<size_t>(team_size * Workspace::floats(dim, value_dim)) * sizeof(float);
}

void run_sdpa(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& a = args.attrs.as<ops::SdpaAttrs>();
  const TensorView& q = args.inputs[0].tensor;
  const TensorView& k = args.inputs[1].tensor;
  const TensorView& v = args.inputs[2].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const int64_t queries = q.dims[1], keys = k.dims[1], dim = q.dims[2] / a.heads, value_dim = out.dims[2] / a.heads;
  const int64_t blocks = ceil_of(queries, kQueries);
  float* mine = reinterpret_cast<float*>(args.scratch) + team.rank() * Workspace::floats(dim, value_dim);
  const Workspace w = Workspace::at(mine, dim, value_dim);

  for (int64_t claim; (claim = team.claim(q.dims[0] * a.heads * blocks)) >= 0;) {
    const int64_t block = claim % blocks, head = claim / blocks % a.heads, batch = claim / blocks / a.heads;
    const int64_t kv_head = head * a.kv_heads / a.heads, first_query = block * kQueries;
    const int count = static_cast<int>(smaller(kQueries, queries - first_query));
    const float* query = q.as<float>() + batch * q.strides[0] + first_query * q.strides[1] + head * dim;
    const float* key = k.as<float>() + batch * k.strides[0] + kv_head * dim;
    const float* value = v.as<float>() + batch * v.strides[0] + kv_head * value_dim;
    float* to = out.as<float>() + batch * out.strides[0] + first_query * out.strides[1] + head * value_dim;

    for (int r = 0; r < kQueries; ++r) {
      const float* row = query + smaller(r, count - 1) * q.strides[1];
      for (int64_t d = 0; d < dim; ++d) w.query[d * kQueries + r] = row[d] * a.scale;
    }
    for (int i = 0; i < kQueries; i += kLanes) {
      store(w.peak + i, broadcast(kMinusInfinity));
      store(w.total + i, zero());
    }
    Mask mask;
    if (a.mask) {
      const TensorView& m = args.inputs[3].tensor;
      const auto step = [&](int axis) { return m.dims[axis] == 1 ? 0 : m.strides[axis]; };
      mask = {m.as<float>() + batch * step(0) + head * step(1) + first_query * step(2), step(2), step(3)};
    }
    const int64_t reach = a.causal ? first_query + keys - queries : keys;  // the last key that query 0 of the block sees
    const int64_t seen = a.causal ? smaller(keys, reach + count) : keys;
    for (int64_t first = 0; first < seen; first += kChunkKeys) {
      const int64_t chunk = smaller(kChunkKeys, seen - first);
      score_keys(key + first * k.strides[1], k.strides[1], chunk, dim, w.query, w.weight);
      soften(w, first, chunk, mask, count, reach);
      weigh_values(value + first * v.strides[1], v.strides[1], chunk, value_dim, w, count, first == 0);
    }
    for (int r = 0; r < count; ++r, to += out.strides[1]) {
      // A row that saw nothing has a total of 0; without keys at all there is nothing to divide.
      const float share = keys == 0 ? 0.0f : 1.0f / w.total[r];
      const float* values = w.values + r * whole_lanes(value_dim);
      const Lanes scale = broadcast(seen > 0 || keys == 0 ? share : __builtin_nanf(""));
      over_row(value_dim, [&](int64_t i, int n) { store_some(to + i, seen > 0 ? load(values + i) * scale : scale, n); });
    }
  }
}

constexpr Kernel kSdpa{.op = &ops::sdpa,
                       .name = kIsaName,
                       .isa = kIsa,
                       .priority = kIsaPriority,
                       .scratch_bytes = scratch_bytes,
                       .run = run_sdpa};

}  // namespace

const KernelList kernels_sdpa = {&kSdpa, 1};
HR_END_KERNELS

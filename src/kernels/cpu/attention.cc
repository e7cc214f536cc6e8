// kv_write, attention, attention_ragged. Work is dealt in tiles of (sequence, kv head, up to 24 rows); when
// there are few tiles and long contexts (decode), in (tile, chunk) with the chunks merged after a barrier.
// Decode must read the keys and values of its context once: KvSpec::token_bytes() a key; prefill
// is bound by 4 * head_dim operations a (row, key). The bits of a row are those of attention_tile.h whatever
// the split.
#include "ops/attention.h"

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/f32_only.h"

HR_BEGIN_KERNELS
namespace {

// ---- kv_write -----------------------------------------------------------------------------------

template <class T>
HR_INLINE void write_head(const KvView& kv, int64_t block, int head, int place, const float* k, const float* v) {
  const int dim = kv.spec.head_dim;
  T* keys = kv.key_block<T>(block, head) + place;
  T* values = kv.value_block<T>(block, head) + int64_t{place} * dim;
  for (int i = 0; i < dim; ++i) keys[i * kBlock] = narrow<T>(k[i]);
  int d = 0;
  for (; d + kLanes <= dim; d += kLanes) store(values + d, load(v + d));
  for (; d < dim; ++d) values[d] = narrow<T>(v[d]);
}

// Writes the codes of a vector `stride` apart and returns its scale.
HR_INLINE float write_codes(const float* x, int dim, int8_t* out, int stride) {
  // Magnitudes compare as integers, where what is not finite comes last.
  int32_t peak_bits = 0;
  for (int i = 0; i < dim; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7FFFFFFF;
    peak_bits = bits > peak_bits ? bits : peak_bits;
  }
  float peak;
  std::memcpy(&peak, &peak_bits, sizeof peak);
  const bool finite = peak_bits < 0x7F800000;
  const bool coded = finite && peak >= ops::kKvFloor;
  const Lanes inverse = broadcast(coded ? 127.0f / peak : 0.0f);
  for (int i = 0; i < dim; i += kLanes) {
    const int count = static_cast<int>(at_most(kLanes, dim - i));
    int8_t codes[kLanes] = {};
    if (coded) store(codes, (count == kLanes ? load(x + i) : load_part(x + i, count)) * inverse);
    for (int j = 0; j < count; ++j) out[(i + j) * stride] = codes[j];
  }
  return !finite ? __builtin_nanf("") : coded ? peak / 127.0f : 0.0f;
}

template <>
HR_INLINE void write_head<int8_t>(const KvView& kv, int64_t block, int head, int place, const float* k, const float* v) {
  const int dim = kv.spec.head_dim;
  kv.key_scales(block, head)[place] = write_codes(k, dim, kv.key_block<int8_t>(block, head) + place, kBlock);
  kv.value_scales(block, head)[place] =
      write_codes(v, dim, kv.value_block<int8_t>(block, head) + int64_t{place} * dim, 1);
}

template <class T>
void write_rows(const NodeArgs& args, Team& team) {
  const TensorView& k = args.inputs[0].tensor;
  const TensorView& v = args.inputs[1].tensor;
  const int32_t* slots = args.inputs[2].tensor.as<int32_t>();
  const KvView& kv = args.inputs[3].kv;
  // Sixteen tokens to a member: two that write one block's keys would share every cache line of it.
  const Team::Range rows = team.share(k.dims[0], kBlock);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const int64_t block = slots[t] / kBlock;
    const int place = slots[t] % kBlock;
    if (slots[t] < 0 || block >= kv.num_blocks) continue;
    for (int head = 0; head < kv.spec.heads; ++head) {
      const int64_t column = int64_t{head} * kv.spec.head_dim;
      write_head<T>(kv, block, head, place, k.row<float>(t) + column, v.row<float>(t) + column);
    }
  }
}

void run_kv_write(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.inputs[3].kv.spec.dtype) {
    case DType::f16:
      return write_rows<f16>(args, team);
    case DType::bf16:
      return write_rows<bf16>(args, team);
    case DType::i8:
      return write_rows<int8_t>(args, team);
    default:
      return write_rows<float>(args, team);
  }
}

// ---- where keys and values lie ------------------------------------------------------------------

template <class T>
struct PagedSource {
  using Element = T;
  const KvView& kv;
  const int32_t* table;
  int kv_head;
  KeyBlock<T> keys(int64_t block) const {
    const float* scales = nullptr;
    if constexpr (KeyBlock<T>::kScaled) scales = kv.key_scales(table[block], kv_head);
    return {kv.key_block<T>(table[block], kv_head), scales};
  }
  const T* values(int64_t block) const { return kv.value_block<T>(table[block], kv_head); }
  const float* value_scales(int64_t block) const { return kv.value_scales(table[block], kv_head); }
  int64_t value_stride() const { return kv.spec.head_dim; }
  // Blocks lie far apart, 2 KB of keys and of values in each: left alone, a core waits for every one.
  void fetch_keys(int64_t block) const { fetch(kv.key_block<T>(table[block], kv_head)); }
  void fetch_values(int64_t block) const { fetch(values(block)); }
  void fetch(const T* at) const {
    const auto* line = reinterpret_cast<const char*>(at);
    const char* end = line + KvSpec::side_bytes(kv.spec.head_dim, sizeof(T));
    for (; line < end; line += 64) __builtin_prefetch(line);
  }
};

// Keys and values in rows of a tensor: a block of keys is transposed when it is asked for.
struct RowSource {
  using Element = float;
  const float* k;
  const float* v;
  int64_t k_stride;
  int64_t v_stride;
  int64_t num_keys;
  int head_dim;
  float* memory;  // [kBlocksAtOnce][head_dim][kBlock]
  KeyBlock<float> keys(int64_t block) const {
    const int64_t first = block * kBlock;
    float* transposed = memory + block % kBlocksAtOnce * head_dim * kBlock;
    const int count = static_cast<int>(at_most(kBlock, num_keys - first));
    for (int j = 0; j < count; ++j) {
      const float* key = k + (first + j) * k_stride;
      for (int d = 0; d < head_dim; ++d) transposed[d * kBlock + j] = key[d];
    }
    for (int j = count; j < kBlock; ++j) {
      for (int d = 0; d < head_dim; ++d) transposed[d * kBlock + j] = 0.0f;
    }
    return {transposed, nullptr};
  }
  const float* values(int64_t block) const { return v + block * kBlock * v_stride; }
  int64_t value_stride() const { return v_stride; }
  void fetch_keys(int64_t) const {}
  void fetch_values(int64_t) const {}
};

// ---- tiles --------------------------------------------------------------------------------------

// The rows of a sequence and kv head are numbered query * group + head of the group; a tile is kMaxRows of
// them in a row.
struct Batch {
  const ops::AttentionAttrs& attrs;
  const TensorView& q;
  const TensorView& out;
  const int32_t* query_start;
  const int32_t* context_len;  // null: as many keys as queries
  int64_t seqs;

  int group() const { return attrs.heads / attrs.kv_heads; }
  int64_t queries(int64_t seq) const { return query_start[seq + 1] - query_start[seq]; }
  int64_t keys(int64_t seq) const { return context_len == nullptr ? queries(seq) : context_len[seq]; }
  int64_t tiles_per_head(int64_t seq) const { return ceil_div(queries(seq) * group(), kMaxRows); }
  int64_t tiles(int64_t seq) const { return tiles_per_head(seq) * attrs.kv_heads; }
};

struct Place {
  int64_t seq;
  int kv_head;
  int64_t first_row;
};

// Finds tiles by number; numbers may only rise.
class TileCursor {
 public:
  explicit TileCursor(const Batch& batch) : batch_(batch) {}
  Place find(int64_t tile) {
    while (tile - before_ >= batch_.tiles(seq_)) before_ += batch_.tiles(seq_++);
    const int64_t per_head = batch_.tiles_per_head(seq_);
    const int64_t index = tile - before_;
    return {seq_, static_cast<int>(index / per_head), index % per_head * kMaxRows};
  }

 private:
  const Batch& batch_;
  int64_t seq_ = 0;
  int64_t before_ = 0;  // tiles of the sequences before seq_
};

HR_INLINE Tile tile_at(const Batch& batch, const Place& place) {
  Tile tile;
  const int64_t queries = batch.queries(place.seq);
  const int64_t keys = batch.keys(place.seq);
  tile.rows = static_cast<int>(at_most(kMaxRows, queries * batch.group() - place.first_row));
  tile.span = {keys, 0};
  for (int row = 0; row < tile.rows; ++row) {
    const int64_t position = keys - queries + (place.first_row + row) / batch.group();
    tile.range[row] = visible_keys(batch.attrs, position, keys);
    tile.span.begin = at_most(tile.span.begin, tile.range[row].begin);
    tile.span.end = at_least(tile.span.end, tile.range[row].end);
  }
  return tile;
}

HR_INLINE KeyRange chunks_of(const Tile& tile) {
  if (tile.span.begin >= tile.span.end) return {0, 0};
  return {tile.span.begin / kChunk, ceil_div(tile.span.end, kChunk)};
}

// Row `row` of a tile: its token and its head.
struct RowPlace {
  int64_t token;
  int head;
};
HR_INLINE RowPlace row_place(const Batch& batch, const Place& place, int row) {
  const int64_t index = place.first_row + row;
  return {batch.query_start[place.seq] + index / batch.group(),
          place.kv_head * batch.group() + static_cast<int>(index % batch.group())};
}

HR_INLINE void load_queries(const Batch& batch, const Place& place, int rows, const Workspace& w) {
  const Lanes scale = broadcast(batch.attrs.scale);
  const int dim = batch.attrs.head_dim;
  for (int row = 0; row < rows; ++row) {
    const RowPlace at = row_place(batch, place, row);
    const float* from = batch.q.row<float>(at.token) + int64_t{at.head} * dim;
    float* to = w.query + row * w.stride;
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes) store(to + i, load(from + i) * scale);
    if (i < dim) store(to + i, load_part(from + i, dim - i) * scale);
  }
}

HR_INLINE void finish_tile(const Batch& batch, const Place& place, const Tile& tile, const Softmax* softmax,
                           const float* values, int64_t stride) {
  for (int row = 0; row < tile.rows; ++row) {
    const RowPlace at = row_place(batch, place, row);
    const bool any = tile.range[row].begin < tile.range[row].end;
    finish_row(batch.attrs, at.head, softmax[row], any, values + row * stride,
               batch.out.row<float>(at.token) + int64_t{at.head} * batch.attrs.head_dim);
  }
}

// A whole tile by one member.
template <class Source>
void attend_tile(const Batch& batch, const Source& source, const Place& place, const Workspace& w) {
  const Tile tile = tile_at(batch, place);
  load_queries(batch, place, tile.rows, w);
  Softmax merged[kMaxRows] = {};
  Softmax next[kMaxRows] = {};
  bool started[kMaxRows] = {};
  const KeyRange chunks = chunks_of(tile);
  for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    compute_chunk(batch.attrs, source, tile, chunk, w, next, w.part);
    for (int row = 0; row < tile.rows; ++row) {
      if (!sees(tile, row, chunk)) continue;
      if (started[row]) {
        merge(merged[row], w.merged + row * w.stride, next[row], w.part + row * w.stride, w.stride);
        continue;
      }
      started[row] = true;
      merged[row] = next[row];
      std::memcpy(w.merged + row * w.stride, w.part + row * w.stride,
                  static_cast<size_t>(w.stride) * sizeof(float));
    }
  }
  finish_tile(batch, place, tile, merged, w.merged, w.stride);
}

// ---- few tiles, long contexts: chunks apart, merged after a barrier -----------------------------

// Partial results of a tile: for each chunk, kMaxRows-free rows of [stride] values, then their softmax.
struct Partials {
  float* memory;
  int64_t stride;  // floats of one row: its values and one line for the softmax

  float* values(int64_t slot) const { return memory + slot * stride; }
  Softmax* softmax(int64_t slot) const {
    return reinterpret_cast<Softmax*>(memory + slot * stride + stride - kLanes);
  }
  static int64_t stride_of(int head_dim) { return Workspace::stride_of(head_dim) + kLanes; }
};

// Rows that a split batch may have: what scratch is reserved for.
HR_INLINE int64_t max_split_rows(int64_t rows, int heads, int team_size) {
  return at_most(rows, at_least(heads, 16 * team_size));
}

HR_INLINE int64_t total_tiles(const Batch& batch) {
  int64_t tiles = 0;
  for (int64_t seq = 0; seq < batch.seqs; ++seq) tiles += batch.tiles(seq);
  return tiles;
}

// Below four tiles a member the last ones leave members idle; one chunk cannot be split.
HR_INLINE bool worth_splitting(const Batch& batch, int64_t tiles, int team_size) {
  const int64_t rows = batch.q.dims[0] * batch.attrs.heads;
  if (team_size == 1 || tiles == 0 || tiles >= 4 * team_size ||
      rows > max_split_rows(rows, batch.attrs.heads, team_size))
    return false;
  for (int64_t seq = 0; seq < batch.seqs; ++seq) {
    if (batch.keys(seq) > kChunk) return true;
  }
  return false;
}

struct SplitTile {
  Place place;
  Tile tile;
  KeyRange chunks;
  int64_t first_unit;  // units are (tile, chunk) in order
  int64_t first_slot;  // rows of partial results before this tile's
  int64_t units() const { return chunks.end - chunks.begin; }
  int64_t slot(int64_t chunk, int row) const { return first_slot + (chunk - chunks.begin) * tile.rows + row; }
};

// Walks the tiles of a split batch in order.
class SplitCursor {
 public:
  explicit SplitCursor(const Batch& batch) : batch_(batch), cursor_(batch) {}
  SplitTile next() {
    SplitTile split;
    split.place = cursor_.find(tile_++);
    split.tile = tile_at(batch_, split.place);
    split.chunks = chunks_of(split.tile);
    split.first_unit = units_;
    split.first_slot = slots_;
    units_ += split.units();
    slots_ += split.units() * split.tile.rows;
    return split;
  }

 private:
  const Batch& batch_;
  TileCursor cursor_;
  int64_t tile_ = 0;
  int64_t units_ = 0;
  int64_t slots_ = 0;
};

void merge_tile(const Batch& batch, const SplitTile& split, const Partials& partials, const Workspace& w) {
  Softmax merged[kMaxRows] = {};
  for (int row = 0; row < split.tile.rows; ++row) {
    bool started = false;
    float* values = w.merged + row * w.stride;
    for (int64_t chunk = split.chunks.begin; chunk < split.chunks.end; ++chunk) {
      if (!sees(split.tile, row, chunk)) continue;
      const int64_t slot = split.slot(chunk, row);
      if (started) {
        merge(merged[row], values, *partials.softmax(slot), partials.values(slot), w.stride);
        continue;
      }
      started = true;
      merged[row] = *partials.softmax(slot);
      std::memcpy(values, partials.values(slot), static_cast<size_t>(w.stride) * sizeof(float));
    }
  }
  finish_tile(batch, split.place, split.tile, merged, w.merged, w.stride);
}

template <class MakeSource>
void attend_split(const Batch& batch, MakeSource make_source, int64_t tiles, const Workspace& w,
                  const Partials& partials, Team& team) {
  int64_t units = 0;
  SplitCursor count(batch);
  for (int64_t i = 0; i < tiles; ++i) units += count.next().units();
  SplitCursor cursor(batch);
  SplitTile split = cursor.next();
  bool loaded = false;
  Softmax softmax[kMaxRows] = {};
  for (int64_t unit = team.claim(units); unit >= 0; unit = team.claim(units)) {
    while (unit >= split.first_unit + split.units()) {
      split = cursor.next();
      loaded = false;
    }
    if (!loaded) load_queries(batch, split.place, split.tile.rows, w);
    loaded = true;
    const int64_t chunk = split.chunks.begin + unit - split.first_unit;
    compute_chunk(batch.attrs, make_source(split.place), split.tile, chunk, w, softmax, w.part);
    for (int row = 0; row < split.tile.rows; ++row) {
      const int64_t slot = split.slot(chunk, row);
      *partials.softmax(slot) = softmax[row];
      std::memcpy(partials.values(slot), w.part + row * w.stride,
                  static_cast<size_t>(w.stride) * sizeof(float));
    }
  }
  team.barrier();
  SplitCursor merging(batch);
  int64_t reached = 0;
  for (int64_t tile = team.claim(tiles); tile >= 0; tile = team.claim(tiles)) {
    while (reached <= tile) {
      split = merging.next();
      ++reached;
    }
    merge_tile(batch, split, partials, w);
  }
}

// ---- kernels ------------------------------------------------------------------------------------

template <class MakeSource>
void attend_tiles(const Batch& batch, MakeSource make_source, int64_t tiles, const Workspace& w, Team& team) {
  TileCursor cursor(batch);
  for (int64_t tile = team.claim(tiles); tile >= 0; tile = team.claim(tiles)) {
    const Place place = cursor.find(tile);
    attend_tile(batch, make_source(place), place, w);
  }
}

template <class T>
void run_paged(const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::AttentionAttrs>();
  const KvView& kv = args.inputs[1].kv;
  const TensorView& table = args.inputs[4].tensor;
  const Batch batch{attrs,
                    args.inputs[0].tensor,
                    args.outputs[0].tensor,
                    args.inputs[2].tensor.as<int32_t>(),
                    args.inputs[3].tensor.as<int32_t>(),
                    args.inputs[3].tensor.dims[0]};
  const int64_t own = Workspace::floats(attrs.head_dim);
  auto* scratch = reinterpret_cast<float*>(args.scratch);
  const Workspace w = Workspace::at(scratch + team.rank() * own, attrs.head_dim);
  const auto make_source = [&](const Place& place) {
    return PagedSource<T>{kv, table.row<int32_t>(place.seq), place.kv_head};
  };
  const int64_t tiles = total_tiles(batch);
  if (worth_splitting(batch, tiles, team.size())) {
    attend_split(batch, make_source, tiles, w,
                 {scratch + team.size() * own, Partials::stride_of(attrs.head_dim)}, team);
  } else {
    attend_tiles(batch, make_source, tiles, w, team);
  }
}

void run_attention(const StepContext&, const NodeArgs& args, Team& team) {
  switch (args.inputs[1].kv.spec.dtype) {
    case DType::f16:
      return run_paged<f16>(args, team);
    case DType::bf16:
      return run_paged<bf16>(args, team);
    case DType::i8:
      return run_paged<int8_t>(args, team);
    default:
      return run_paged<float>(args, team);
  }
}

size_t attention_scratch(const NodeSizes& sizes, int team_size) {
  const auto& attrs = sizes.attrs.as<ops::AttentionAttrs>();
  int64_t floats = team_size * Workspace::floats(attrs.head_dim);
  if (team_size > 1) {
    const int64_t rows = sizes.inputs[0].shape[0].eval(sizes.bindings) * attrs.heads;
    const int64_t keys = sizes.inputs[4].shape[1].eval(sizes.bindings) * kBlock;
    floats += max_split_rows(rows, attrs.heads, team_size) * ceil_div(keys, kChunk) *
              Partials::stride_of(attrs.head_dim);
  }
  return static_cast<size_t>(floats) * sizeof(float);
}

void run_attention_ragged(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::AttentionAttrs>();
  const TensorView& k = args.inputs[1].tensor;
  const TensorView& v = args.inputs[2].tensor;
  const TensorView& starts = args.inputs[3].tensor;
  const Batch batch{attrs,   args.inputs[0].tensor, args.outputs[0].tensor, starts.as<int32_t>(),
                    nullptr, starts.dims[0] - 1};
  auto* scratch = reinterpret_cast<float*>(args.scratch);
  const Workspace w =
      Workspace::at(scratch + team.rank() * Workspace::floats(attrs.head_dim), attrs.head_dim);
  const auto make_source = [&](const Place& place) {
    const int64_t first = batch.query_start[place.seq];
    const int64_t column = int64_t{place.kv_head} * attrs.head_dim;
    return RowSource{k.row<float>(first) + column,
                     v.row<float>(first) + column,
                     k.strides[0],
                     v.strides[0],
                     batch.keys(place.seq),
                     attrs.head_dim,
                     w.keys};
  };
  attend_tiles(batch, make_source, total_tiles(batch), w, team);
}

size_t ragged_scratch(const NodeSizes& sizes, int team_size) {
  const auto& attrs = sizes.attrs.as<ops::AttentionAttrs>();
  return static_cast<size_t>(team_size * Workspace::floats(attrs.head_dim)) * sizeof(float);
}

constexpr Kernel kKvWrite{
    .op = &ops::kv_write, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .supports = f32_only, .run = run_kv_write};
constexpr Kernel kAttention{.op = &ops::attention,
                            .name = kIsaName,
                            .isa = kIsa,
                            .priority = kIsaPriority,
                            .supports = f32_only,
                            .scratch_bytes = attention_scratch,
                            .run = run_attention};
constexpr Kernel kAttentionRagged{.op = &ops::attention_ragged,
                                  .name = kIsaName,
                                  .isa = kIsa,
                                  .priority = kIsaPriority,
                                  .scratch_bytes = ragged_scratch,
                                  .run = run_attention_ragged};

}  // namespace

const KernelList kernels_kv_write = {&kKvWrite, 1};
const KernelList kernels_attention = {&kAttention, 1};
const KernelList kernels_attention_ragged = {&kAttentionRagged, 1};
HR_END_KERNELS

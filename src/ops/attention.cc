#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/input_check.h"

namespace headrace::ops {

std::string AttentionAttrs::describe() const {
  std::string text =
      fmt::format("heads={} kv_heads={} head_dim={} scale={:g}", heads, kv_heads, head_dim, scale);
  if (window > 0) text += fmt::format(" window={}", window);
  if (softcap > 0) text += fmt::format(" softcap={:g}", softcap);
  if (!causal) text += " bidirectional";
  if (!sinks.empty()) text += " sinks";
  return text;
}

namespace {

constexpr int32_t kMaxHeadDim = 1024;

void check_attrs(InputCheck& check, const AttentionAttrs& a) {
  check.require(a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0,
                fmt::format("heads must be a multiple of kv_heads, got {} and {}", a.heads, a.kv_heads));
  check.require(a.head_dim > 0 && a.head_dim <= kMaxHeadDim,
                fmt::format("head_dim must lie in 1..{}, got {}", kMaxHeadDim, a.head_dim));
  check.require(std::isfinite(a.scale) && std::isfinite(a.softcap) && a.softcap >= 0 && a.window >= 0,
                "scale, softcap and window must be finite, the last two not negative");
  check.require(a.sinks.empty() || a.sinks.size() == static_cast<size_t>(a.heads),
                fmt::format("want no sinks or one for each of {} heads, got {}", a.heads, a.sinks.size()));
}

Result<std::vector<ValueType>> infer_paged(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<AttentionAttrs>();
  InputCheck check("attention", inputs, {"q", "kv", "query_start", "context_len", "block_table"});
  check_attrs(check, a);
  check.require(a.causal, "attention over a cache is causal");
  check.activations(0, 2).dim(0, 1, int64_t{a.heads} * a.head_dim).kv(1);
  check.tensor(2, DType::i32, 1).tensor(3, DType::i32, 1).tensor(4, DType::i32, 2).same_dim(4, 0, 3, 0);
  if (!check.ok()) return check.outputs({});
  check.dim(2, 0, inputs[3].shape[0] + 1);
  const KvSpec& spec = inputs[1].kv;
  check.require(is_kv_dtype(spec.dtype), "the pool must hold f32, f16, bf16 or i8");
  check.require(spec.heads == a.kv_heads && spec.head_dim == a.head_dim,
                fmt::format("the pool has {} heads of {}, want {} of {}", spec.heads, spec.head_dim,
                            a.kv_heads, a.head_dim));
  return check.outputs({inputs[0]});
}

Result<std::vector<ValueType>> infer_ragged(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& a = attrs.as<AttentionAttrs>();
  InputCheck check("attention_ragged", inputs, {"q", "k", "v", "query_start"});
  check_attrs(check, a);
  const int64_t width = int64_t{a.kv_heads} * a.head_dim;
  check.tensor(0, DType::f32, 2).dim(0, 1, int64_t{a.heads} * a.head_dim);
  check.tensor(1, DType::f32, 2).dim(1, 1, width).same_dim(1, 0, 0, 0);
  check.tensor(2, DType::f32, 2).dim(2, 1, width).same_dim(2, 0, 0, 0);
  check.tensor(3, DType::i32, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::f32, inputs[0].shape)});
}

// Sizes know the widest context, not each sequence's: right when all fill their block-table row.
Cost cost_paged(const NodeSizes& sizes) {
  const auto& a = sizes.attrs.as<AttentionAttrs>();
  const double tokens = static_cast<double>(sizes.inputs[0].shape[0].eval(sizes.bindings));
  const double seqs = static_cast<double>(sizes.inputs[3].shape[0].eval(sizes.bindings));
  const double context = static_cast<double>(sizes.inputs[4].shape[1].eval(sizes.bindings)) * kKvBlockTokens;
  if (tokens == 0 || seqs == 0) return {};
  double keys = std::max(1.0, context - (tokens / seqs - 1) / 2);
  double stored = context;
  if (a.window > 0) {
    keys = std::min<double>(keys, a.window);
    stored = std::min(stored, a.window + tokens / seqs);
  }
  const double cache = seqs * stored * static_cast<double>(sizes.inputs[1].kv.token_bytes());
  return {.flops = tokens * a.heads * keys * 4 * a.head_dim, .bytes = all_bytes(sizes) + cache};
}

// One sequence of all rows: what the bench measures.
Cost cost_ragged(const NodeSizes& sizes) {
  const auto& a = sizes.attrs.as<AttentionAttrs>();
  const double tokens = static_cast<double>(sizes.inputs[0].shape[0].eval(sizes.bindings));
  double keys = a.causal ? (tokens + 1) / 2 : tokens;
  if (a.window > 0) keys = std::min<double>(keys, a.causal ? a.window : 2 * a.window - 1);
  return {.flops = tokens * a.heads * keys * 4 * a.head_dim, .bytes = all_bytes(sizes)};
}

// The keys that a query at `position` sees of `count`: [begin, end).
struct KeyRange {
  int64_t begin, end;
};
KeyRange visible(const AttentionAttrs& a, int64_t position, int64_t count) {
  KeyRange range{0, a.causal ? position + 1 : count};
  if (a.window > 0) {
    range.begin = std::max<int64_t>(0, position - a.window + 1);
    range.end = std::min(range.end, position + a.window);
  }
  range.end = std::min(range.end, count);
  return range;
}

// One query of one head. key(j) and value(j) give head_dim numbers.
template <class Key, class Value>
void attend(const AttentionAttrs& a, int head, const double* query, KeyRange range, Key key, Value value,
            double* out) {
  std::vector<double> weights;
  double peak = a.sinks.empty() ? -HUGE_VAL : static_cast<double>(a.sinks[head]);
  for (int64_t j = range.begin; j < range.end; ++j) {
    double score = 0;
    for (int d = 0; d < a.head_dim; ++d) score += query[d] * key(j)[d];
    score *= static_cast<double>(a.scale);
    if (a.softcap > 0)
      score = static_cast<double>(a.softcap) * std::tanh(score / static_cast<double>(a.softcap));
    weights.push_back(score);
    peak = std::max(peak, score);
  }
  double total = a.sinks.empty() ? 0.0 : std::exp(static_cast<double>(a.sinks[head]) - peak);
  for (double& weight : weights) total += weight = std::exp(weight - peak);
  std::fill(out, out + a.head_dim, 0.0);
  for (int64_t j = range.begin; j < range.end; ++j) {
    for (int d = 0; d < a.head_dim; ++d) out[d] += weights[j - range.begin] / total * value(j)[d];
  }
}

void reference_paged(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<AttentionAttrs>();
  const HostKv& kv = *inputs[1].kv;
  const std::vector<double>& start = inputs[2].tensor.values;
  const int64_t blocks = inputs[4].tensor.dims[1];
  for (int64_t s = 0; s < inputs[3].tensor.dims[0]; ++s) {
    const auto first = static_cast<int64_t>(start[s]);
    const auto last = static_cast<int64_t>(start[s + 1]);
    const auto context = static_cast<int64_t>(inputs[3].tensor.values[s]);
    const double* table = inputs[4].tensor.values.data() + s * blocks;
    for (int64_t row = first; row < last; ++row) {
      const KeyRange range = visible(a, context - (last - row), context);
      for (int h = 0; h < a.heads; ++h) {
        const int64_t kv_head = int64_t{h} * a.kv_heads / a.heads;
        const auto at = [&](int64_t j) {
          const auto block = static_cast<int64_t>(table[j / kKvBlockTokens]);
          return ((block * a.kv_heads + kv_head) * kKvBlockTokens + j % kKvBlockTokens) * a.head_dim;
        };
        const int64_t place = (row * a.heads + h) * a.head_dim;
        attend(
            a, h, inputs[0].tensor.values.data() + place, range,
            [&](int64_t j) { return kv.keys.data() + at(j); },
            [&](int64_t j) { return kv.values.data() + at(j); }, outputs[0].values.data() + place);
      }
    }
  }
}

void reference_ragged(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& a = attrs.as<AttentionAttrs>();
  const std::vector<double>& start = inputs[3].tensor.values;
  for (size_t s = 0; s + 1 < start.size(); ++s) {
    const auto first = static_cast<int64_t>(start[s]);
    const auto last = static_cast<int64_t>(start[s + 1]);
    for (int64_t row = first; row < last; ++row) {
      const KeyRange range = visible(a, row - first, last - first);
      for (int h = 0; h < a.heads; ++h) {
        const int64_t kv_head = int64_t{h} * a.kv_heads / a.heads;
        const auto at = [&](int64_t j) { return ((first + j) * a.kv_heads + kv_head) * a.head_dim; };
        const int64_t place = (row * a.heads + h) * a.head_dim;
        attend(
            a, h, inputs[0].tensor.values.data() + place, range,
            [&](int64_t j) { return inputs[1].tensor.values.data() + at(j); },
            [&](int64_t j) { return inputs[2].tensor.values.data() + at(j); },
            outputs[0].values.data() + place);
      }
    }
  }
}

// Scores of some units are off by their float32 rounding, weights by e to that; values average it out.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 1e-5, .relative = 1e-5};
}
// With bf16 queries a device multiplies in bf16: the weights of the softmax are rounded too, before they meet the values. Each is off by
// half an ulp at most, so that the mean of values of order 1 is off by 2^-9, and the output rounds once more.
Tolerance tolerance_paged(std::span<const ValueType> inputs, const Attrs& attrs) {
  const Tolerance exact = tolerance(inputs, attrs);
  return inputs[0].dtype == DType::bf16 ? rounded_to(DType::bf16, {.absolute = 0x1p-8, .relative = exact.relative}) : exact;
}

// ---- cases --------------------------------------------------------------------------------------

struct Sequence {
  int64_t queries;
  int64_t context;
};

std::vector<double> starts(std::span<const Sequence> sequences) {
  std::vector<double> start = {0};
  for (const Sequence& sequence : sequences)
    start.push_back(start.back() + static_cast<double>(sequence.queries));
  return start;
}

AttentionAttrs shape(int heads, int kv_heads, int head_dim) {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

// Blocks are dealt out in a scattered order: a stride that is coprime to their number. Columns that no query of the sequence
// sees, behind its window or past its context, name block 0, whose content is NaN.
OpCase paged(std::string name, AttentionAttrs attrs, DType dtype, std::vector<Sequence> sequences,
             bool strided = false) {
  int64_t columns = 1;
  int64_t used = 0;
  for (const Sequence& sequence : sequences) {
    const int64_t blocks = (sequence.context + kKvBlockTokens - 1) / kKvBlockTokens;
    columns = std::max(columns, blocks);
    used += blocks;
  }
  int64_t prime = 7919;  // above any case's number of blocks
  std::vector<double> table;
  std::vector<double> contexts;
  int64_t dealt = 0;
  for (const Sequence& sequence : sequences) {
    contexts.push_back(static_cast<double>(sequence.context));
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t first_seen =
          attrs.window == 0 ? 0 : std::max<int64_t>(0, sequence.context - sequence.queries - attrs.window + 1);
      const bool is_used = column * kKvBlockTokens < sequence.context && (column + 1) * kKvBlockTokens > first_seen;
      table.push_back(is_used ? static_cast<double>(1 + dealt++ * prime % used) : 0);
    }
  }
  std::vector<double> start = starts(sequences);
  const auto count = static_cast<int64_t>(sequences.size());
  const auto tokens = static_cast<int64_t>(start.back());
  OpCase made{.name = std::move(name), .attrs = attrs};
  made.inputs = {
      {.dims = {tokens, int64_t{attrs.heads} * attrs.head_dim}, .strided = strided},
      {.kind = ValueType::Kind::kv,
       .dims = {used + 1},
       .kv = {.heads = attrs.kv_heads, .head_dim = attrs.head_dim, .window = attrs.window, .dtype = dtype}},
      {.dtype = DType::i32, .dims = {count + 1}, .values = std::move(start)},
      {.dtype = DType::i32, .dims = {count}, .values = std::move(contexts)},
      {.dtype = DType::i32, .dims = {count, columns}, .values = std::move(table)}};
  return made;
}

OpCase for_bench(OpCase made, std::string phase) {
  made.bench = true;
  made.phase = std::move(phase);
  return made;
}

OpCase with_bf16_queries(OpCase made) {
  made.name = "bf16_queries_" + made.name;
  made.inputs[0].dtype = DType::bf16;
  return made;
}

// Llama-3-8B's attention, `batch` sequences that decode: 4 KiB of keys and values a token. Activations are bf16 there. The phase "h200" is
// for a large card alone: too large for the reference, and not measured on CPUs.
OpCase llama3_decode(int64_t batch, int64_t context) {
  OpCase made = for_bench(paged(fmt::format("llama3_{}x{}", batch, context), shape(32, 8, 128), DType::bf16,
                                std::vector<Sequence>(static_cast<size_t>(batch), {1, context})),
                          "h200");
  made.inputs[0].dtype = DType::bf16;
  return made;
}

std::vector<OpCase> cases_paged() {
  AttentionAttrs windowed = shape(4, 2, 32);
  windowed.window = 40;
  AttentionAttrs wide_window = shape(2, 2, 16);
  wide_window.window = 300;
  AttentionAttrs capped = shape(4, 2, 32);
  capped.softcap = 5.0f;
  AttentionAttrs sinks = shape(4, 2, 32);
  sinks.sinks = {0.5f, -2.0f, 3.0f, 8.0f};
  AttentionAttrs everything = shape(6, 2, 48);
  everything.window = 37;
  everything.softcap = 20.0f;
  everything.sinks = {0, 1, 2, -1, -2, 9};
  const AttentionAttrs smol = shape(9, 3, 64);
  std::vector<OpCase> all;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    const std::string name(dtype_name(dtype));
    all.push_back(paged(name + "_one_key", shape(2, 1, 4), dtype, {{1, 1}}));
    all.push_back(paged(name + "_decode", shape(6, 2, 64), dtype, {{1, 700}}));
    all.push_back(paged(name + "_prefill", shape(6, 2, 64), dtype, {{70, 70}}, true));
    all.push_back(paged(name + "_ragged_batch", shape(4, 4, 24), dtype,
                        {{1, 255}, {5, 260}, {1, 256}, {33, 600}, {1, 257}, {0, 0}, {2, 2}}));
    all.push_back(paged(name + "_window", windowed, dtype, {{1, 700}, {60, 300}, {3, 3}, {30, 560}}));
  }
  all.push_back(paged("odd_head_dim", shape(2, 1, 20), DType::f16, {{9, 50}}));
  all.push_back(paged("i8_odd_head_dim", shape(2, 1, 21), DType::i8, {{9, 50}}));
  all.push_back(paged("head_dim_80", shape(2, 2, 80), DType::f16, {{3, 300}, {1, 20}}));
  all.push_back(paged("head_dim_128", shape(8, 2, 128), DType::f16, {{1, 530}, {4, 10}}));
  all.push_back(paged("i8_head_dim_128", shape(8, 2, 128), DType::i8, {{1, 530}, {4, 10}}));
  all.push_back(paged("head_dim_256", shape(2, 1, 256), DType::bf16, {{5, 40}}));
  all.push_back(paged("one_kv_head_of_71", shape(71, 1, 64), DType::f16, {{1, 300}, {2, 17}}));
  all.push_back(paged("i8_one_kv_head_of_71", shape(71, 1, 64), DType::i8, {{1, 300}, {2, 17}}));
  all.push_back(paged("chunked_prefill", shape(3, 3, 32), DType::f16, {{100, 612}}));
  all.push_back(paged("i8_chunked_prefill", shape(3, 3, 32), DType::i8, {{100, 612}}));
  all.push_back(paged("window_over_chunks", wide_window, DType::f32, {{20, 1000}, {1, 299}, {1, 301}}));
  all.push_back(paged("i8_window_over_chunks", wide_window, DType::i8, {{20, 1000}, {1, 299}, {1, 301}}));
  all.push_back(paged("softcap", capped, DType::f16, {{1, 300}, {20, 20}}));
  all.push_back(paged("sinks", sinks, DType::f16, {{1, 300}, {20, 20}}));
  all.push_back(paged("window_softcap_sinks", everything, DType::bf16, {{1, 513}, {40, 290}}));
  all.push_back(paged("i8_window_softcap_sinks", everything, DType::i8, {{1, 513}, {40, 290}}));
  all.push_back(paged("empty", shape(2, 1, 16), DType::f16, {{0, 0}}));
  const std::vector<Sequence> mixed = {{1, 255}, {5, 260}, {1, 256}, {40, 300}, {1, 257}, {0, 0}, {2, 2}, {33, 33}};
  const std::vector<Sequence> decoding = {{1, 1}, {1, 2900}, {1, 16}, {1, 513}, {1, 1024}};
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
    const std::string name(dtype_name(dtype));
    for (const int head_dim : {64, 128}) {
      all.push_back(with_bf16_queries(paged(fmt::format("{}_{}_mixed", name, head_dim), shape(4, 2, head_dim), dtype, mixed, true)));
    }
    all.push_back(with_bf16_queries(paged(name + "_window", windowed, dtype, {{1, 700}, {60, 300}, {3, 3}, {30, 560}})));
    all.push_back(with_bf16_queries(paged(name + "_everything", everything, dtype, {{1, 513}, {40, 290}})));
  }
  // Query heads that share a kv head, of models that are used.
  for (const auto& [heads, kv_heads] : {std::pair{8, 2}, {8, 1}, {7, 1}, {3, 3}}) {
    const std::string name = fmt::format("group_of_{}", heads / kv_heads);
    all.push_back(with_bf16_queries(paged(name + "_decode", shape(heads, kv_heads, 128), DType::bf16, decoding)));
    all.push_back(with_bf16_queries(paged(name + "_prefill", shape(heads, kv_heads, 128), DType::bf16, {{70, 70}, {20, 300}, {1, 40}})));
  }
  // Contexts past 4096 keys, where groups of chunks are joined, and more sequences than a device has places.
  all.push_back(with_bf16_queries(paged("long_contexts", shape(2, 1, 64), DType::bf16, {{1, 9000}, {1, 4096}, {3, 4098}, {1, 4097}})));
  std::vector<Sequence> thousand;
  for (int64_t i = 0; i < 1000; ++i) thousand.push_back({1, 1 + i % 20});
  all.push_back(with_bf16_queries(paged("a_thousand_sequences", shape(2, 1, 64), DType::bf16, thousand)));
  AttentionAttrs all_at_128 = shape(4, 2, 128);
  all_at_128.window = 70;
  all_at_128.softcap = 20.0f;
  all_at_128.sinks = {0, 1, -1, 3};
  all.push_back(with_bf16_queries(paged("window_softcap_sinks_128", all_at_128, DType::bf16, {{1, 513}, {40, 290}, {100, 100}, {1, 5}})));
  all.push_back(with_bf16_queries(paged("head_dim_256", shape(4, 1, 256), DType::bf16, {{5, 40}, {1, 900}})));
  for (const int64_t context : {512, 2048, 8192}) {
    all.push_back(for_bench(
        paged(fmt::format("smollm2_decode_{}", context), smol, DType::f16, {{1, context}}), "decode"));
  }
  for (const DType dtype : {DType::f16, DType::i8}) {
    all.push_back(for_bench(paged(fmt::format("smollm2_{}_decode_4096", dtype_name(dtype)), smol, dtype, {{1, 4096}}),
                            "decode"));
  }
  all.push_back(for_bench(paged("smollm2_prefill_512", smol, DType::f16, {{512, 512}}), "prefill"));
  all.push_back(for_bench(paged("smollm2_i8_prefill_512", smol, DType::i8, {{512, 512}}), "prefill"));
  all.push_back(
      for_bench(paged("smollm2_batch_of_8", smol, DType::f16, std::vector<Sequence>(8, {1, 512})), "decode"));
  constexpr Sequence kBatchAndContext[] = {{1, 1024}, {4, 256},                    // 4 MiB
                                           {1, 16384}, {16, 1024}, {64, 256},      // 64 MiB
                                           {64, 1024}, {256, 256},                 // 256 MiB
                                           {256, 1024}};                           // 1 GiB
  for (const auto& [batch, context] : kBatchAndContext) all.push_back(llama3_decode(batch, context));
  return all;
}

OpCase ragged(std::string name, AttentionAttrs attrs, std::vector<Sequence> sequences, bool strided = false) {
  std::vector<double> start = starts(sequences);
  const auto tokens = static_cast<int64_t>(start.back());
  const auto rows = [&](int heads) {
    return CaseInput{.dims = {tokens, int64_t{heads} * attrs.head_dim}, .strided = strided};
  };
  OpCase made{.name = std::move(name), .attrs = attrs};
  made.inputs = {rows(attrs.heads),
                 rows(attrs.kv_heads),
                 rows(attrs.kv_heads),
                 {.dtype = DType::i32, .dims = {static_cast<int64_t>(start.size())}, .values = start}};
  return made;
}

std::vector<OpCase> cases_ragged() {
  std::vector<OpCase> all;
  for (const bool causal : {true, false}) {
    const std::string name = causal ? "causal" : "bidirectional";
    const auto with = [&](AttentionAttrs attrs) {
      attrs.causal = causal;
      return attrs;
    };
    AttentionAttrs windowed = with(shape(2, 2, 32));
    windowed.window = 50;
    AttentionAttrs sinks = with(shape(2, 1, 16));
    sinks.sinks = {1.0f, -3.0f};
    sinks.softcap = 4.0f;
    all.push_back(ragged(name + "_one_row", with(shape(2, 1, 4)), {{1, 1}}));
    all.push_back(
        ragged(name + "_batch", with(shape(6, 2, 64)), {{5, 5}, {300, 300}, {1, 1}, {0, 0}, {17, 17}}, true));
    all.push_back(ragged(name + "_odd_head_dim", with(shape(3, 3, 20)), {{33, 33}, {2, 2}}));
    all.push_back(ragged(name + "_window", windowed, {{290, 290}, {20, 20}}));
    all.push_back(ragged(name + "_sinks_softcap", sinks, {{40, 40}}));
    all.push_back(ragged(name + "_empty", with(shape(2, 1, 16)), {{0, 0}}));
  }
  AttentionAttrs encoder = shape(6, 6, 64);
  encoder.causal = false;
  all.push_back(for_bench(ragged("encoder_256", encoder, {{256, 256}}), "prefill"));
  return all;
}

// ---- a row alone --------------------------------------------------------------------------------

// The sequence that owns `row`.
int64_t sequence_of(const HostTensor& query_start, int64_t row) {
  int64_t s = 0;
  while (static_cast<int64_t>(query_start.values[s + 1]) <= row) ++s;
  return s;
}

std::vector<HostValue> paged_row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  const int64_t s = sequence_of(inputs[2].tensor, row);
  const double after = inputs[2].tensor.values[s + 1] - 1 - static_cast<double>(row);
  std::vector<HostValue> alone = slice_rows(inputs, {0}, row);
  alone[2].tensor = {DType::i32, {2}, {0, 1}};
  alone[3].tensor = {DType::i32, {1}, {inputs[3].tensor.values[s] - after}};
  alone[4].tensor = slice_row(inputs[4].tensor, s);
  return alone;
}

// Its sequence up to the row where that is all it sees; else only a sequence's last row can stand alone.
std::vector<HostValue> ragged_row_alone(const Attrs& attrs, std::span<const HostValue> inputs, int64_t row) {
  const int64_t s = sequence_of(inputs[3].tensor, row);
  const auto first = static_cast<int64_t>(inputs[3].tensor.values[s]);
  const auto last = static_cast<int64_t>(inputs[3].tensor.values[s + 1]);
  if (!attrs.as<AttentionAttrs>().causal && row + 1 != last) return {};
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  for (int i = 0; i < 3; ++i) {
    HostTensor& tensor = alone[i].tensor;
    const int64_t width = tensor.dims[1];
    tensor.dims[0] = row + 1 - first;
    tensor.values.assign(inputs[i].tensor.values.begin() + first * width,
                         inputs[i].tensor.values.begin() + (row + 1) * width);
  }
  alone[3].tensor = {DType::i32, {2}, {0, static_cast<double>(row + 1 - first)}};
  return alone;
}

}  // namespace

const Op attention{
    .name = "attention",
    .effects = {.reads_state = true},
    .infer = infer_paged,
    .cost = cost_paged,
    .reference = reference_paged,
    .tolerance = tolerance_paged,
    .cases = cases_paged,
    .row_alone = paged_row_alone,
};

const Op attention_ragged{
    .name = "attention_ragged",
    .infer = infer_ragged,
    .cost = cost_ragged,
    .reference = reference_ragged,
    .tolerance = tolerance,
    .cases = cases_ragged,
    .row_alone = ragged_row_alone,
};

}  // namespace headrace::ops

// softmax(scale * q k^T + mask) v over dense heads becomes sdpa, which never stores the scores. The scale may stand on q, on k or on the
// scores; the mask is added or chosen by a condition; heads are split by reshapes and transposes, repeated by expand, or not there. A
// constant mask that hides the future becomes `causal`.
#include <algorithm>
#include <array>
#include <limits>

#include "graph/match.h"
#include "graph/movements.h"
#include "graph/passes.h"
#include "graph/passes/heads.h"
#include "graph/passes/simplify_shapes.h"
#include "ops/gemm.h"
#include "ops/movement.h"
#include "ops/reduce.h"
#include "ops/sdpa.h"

namespace headrace::passes {
namespace {

using movements::Dims;
using movements::Perm;
using ops::BinaryKind;

// What exp() turns to 0 next to any score.
constexpr double kHidden = -1e8;
constexpr int kMaxSteps = 8;  // nodes between two ends of the pattern

// A gemm that is nothing but a product.
const Node* bare_gemm(Rewriter& graph, ValueId value) {
  const Node* node = match::single(graph, value, ops::gemm);
  return node != nullptr && node->attrs.as<ops::GemmAttrs>().epilogue == ops::Epilogue{} ? node : nullptr;
}

// x and number of `value` = x * number, also spelled as a quotient, read here alone.
std::optional<match::WithNumber> scaled(Rewriter& graph, ValueId value) {
  const Node* node = match::single(graph, value, ops::binary);
  if (const auto times = match::with_number(graph, node, BinaryKind::mul)) return times;
  auto over = match::with_number(graph, node, BinaryKind::div);
  if (!over || over->number == 0) return std::nullopt;
  over->number = 1 / over->number;
  return over;
}

// The value without numbers that multiply it, above movements too; they go into `scale`.
ValueId without_scale(Rewriter& graph, ValueId value, double& scale) {
  std::vector<const Node*> moves;
  ValueId at = value, clean = value;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (const auto found = scaled(graph, at)) {
      scale *= found->number;
      at = found->x;
      clean = at;
      for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
        const Dims dims = graph.dims((*move)->outputs[0]);
        clean = (*move)->op == &ops::reshape
                    ? movements::reshape(graph, clean, dims, (*move)->name)
                    : movements::transpose(graph, clean, (*move)->attrs.as<ops::TransposeAttrs>().perm, (*move)->name);
      }
      continue;
    }
    const Node* node = graph.num_uses(at) == 1 ? graph.producer(at) : nullptr;
    if (node == nullptr || (node->op != &ops::reshape && node->op != &ops::transpose)) break;
    moves.push_back(node);
    at = node->inputs[0];
  }
  return clean;
}

struct Scores {
  ValueId q, k;  // [..., S, D], [..., T, D]
  ValueId mask = kNone;
  double scale = 1;
};

// The mask that adds what where(condition, scores, low) chooses; kNone where `node` is no such choice. `scores` is set.
ValueId mask_of_choice(Rewriter& graph, const Node& node, ValueId& scores) {
  for (const int side : {1, 2}) {
    const auto low = match::scalar(graph, node.inputs[3 - side]);
    if (!low || *low > kHidden || !(graph.type(node.inputs[side]).shape == graph.type(node.outputs[0]).shape)) continue;
    scores = node.inputs[side];
    const ValueId zero = graph.constant(node.name, DType::f32, {}, {0.0}), hidden = graph.constant(node.name, DType::f32, {}, {*low});
    return graph.add(ops::where, ops::WhereAttrs{}, {node.inputs[0], side == 1 ? zero : hidden, side == 1 ? hidden : zero}, node.name);
  }
  return kNone;
}

// Whether a product of matrices is found below numbers that multiply it.
bool leads_to_product(Rewriter& graph, ValueId value) {
  for (int step = 0; step < kMaxSteps; ++step) {
    if (bare_gemm(graph, value) != nullptr) return true;
    const auto found = scaled(graph, value);
    if (!found) return false;
    value = found->x;
  }
  return false;
}

std::optional<Scores> match_scores(Rewriter& graph, ValueId value) {
  Scores scores;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (const Node* product = bare_gemm(graph, value)) {
      const auto& gemm = product->attrs.as<ops::GemmAttrs>();
      scores.scale *= static_cast<double>(gemm.scale);
      scores.q = without_scale(graph, product->inputs[0], scores.scale);
      scores.k = without_scale(graph, product->inputs[1], scores.scale);
      if (!gemm.trans_b) {
        Perm swap(graph.dims(scores.k).size());
        for (size_t axis = 0; axis < swap.size(); ++axis) swap[axis] = static_cast<int32_t>(axis);
        std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
        scores.k = movements::transpose(graph, scores.k, swap, product->name);
      }
      return scores;
    }
    if (const auto found = scaled(graph, value)) {
      scores.scale *= found->number;
      value = found->x;
      continue;
    }
    // A mask inside a scaled sum would be scaled, too.
    const Node* node = graph.num_uses(value) == 1 ? graph.producer(value) : nullptr;
    if (node == nullptr || scores.mask != kNone || scores.scale != 1) return std::nullopt;
    if (match::is_binary(node, BinaryKind::add)) {
      const int side = leads_to_product(graph, node->inputs[0]) ? 0 : 1;
      if (!(graph.type(node->inputs[side]).shape == graph.type(value).shape)) return std::nullopt;
      value = node->inputs[side];
      scores.mask = node->inputs[1 - side];
    } else if (node->op == &ops::where) {
      scores.mask = mask_of_choice(graph, *node, value);
      if (scores.mask == kNone) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// ---- heads -------------------------------------------------------------------------------------------------------------------------

// [B, H, T, D] before each of H heads was repeated to make `heads`; the value itself where none was.
ValueId before_repetition(Rewriter& graph, ValueId value) {
  const Node* merged = match::of(graph, value, ops::reshape);
  const Node* expand = merged == nullptr ? nullptr : match::of(graph, merged->inputs[0], ops::expand);
  if (expand == nullptr) return value;
  const Dims whole = graph.dims(value), repeated = graph.dims(expand->outputs[0]), single = graph.dims(expand->inputs[0]);
  if (whole.size() != 4 || repeated.size() != 5 || single.size() != 5) return value;
  const Dims want = {whole[0], single[1], repeated[2], whole[2], whole[3]};
  if (repeated != want || single != Dims{whole[0], single[1], 1, whole[2], whole[3]}) return value;
  const Dims dims = {whole[0], single[1], whole[2], whole[3]};
  // Behind a transpose the axis of 1 goes before it, so that the transpose is still seen.
  const Node* transpose = match::of(graph, expand->inputs[0], ops::transpose);
  if (transpose == nullptr) return movements::reshape(graph, expand->inputs[0], dims, merged->name);
  const Perm& perm = transpose->attrs.as<ops::TransposeAttrs>().perm;
  Dims source = graph.dims(transpose->inputs[0]);
  source.erase(source.begin() + perm[2]);
  Perm kept;
  for (const int32_t axis : {perm[0], perm[1], perm[3], perm[4]}) kept.push_back(axis - (axis > perm[2] ? 1 : 0));
  return movements::transpose(graph, movements::reshape(graph, transpose->inputs[0], source, merged->name), kept, merged->name);
}

// `value`, of rank 2 to 4, as [B, H, S, D]. Rank 3 are heads of one batch where a transpose made them, or the reshape of [B, H, S, D].
ValueId with_four_axes(Rewriter& graph, ValueId value, const std::string& name) {
  const Dims dims = graph.dims(value);
  if (dims.size() == 4) return value;
  if (dims.size() == 2) return movements::reshape(graph, value, {1, 1, dims[0], dims[1]}, name);
  if (const Node* reshape = match::of(graph, value, ops::reshape)) {
    const Dims source = graph.dims(reshape->inputs[0]);
    if (source.size() == 4 && source[2] == dims[1] && source[3] == dims[2]) return reshape->inputs[0];
  }
  if (const Node* transpose = match::of(graph, value, ops::transpose)) {
    Dims source = graph.dims(transpose->inputs[0]);
    source.insert(source.begin(), 1);
    Perm perm = {0};
    for (const int32_t axis : transpose->attrs.as<ops::TransposeAttrs>().perm) perm.push_back(axis + 1);
    return movements::transpose(graph, movements::reshape(graph, transpose->inputs[0], source, name), perm, name);
  }
  return movements::reshape(graph, value, {1, dims[0], dims[1], dims[2]}, name);
}

// All three in the same way.
void with_four_axes(Rewriter& graph, std::array<ValueId*, 3> values, const std::string& name) {
  std::array<ValueId, 3> found;
  bool same_batch = true;
  for (size_t i = 0; i < 3; ++i) {
    found[i] = with_four_axes(graph, *values[i], name);
    same_batch = same_batch && graph.ok() && graph.dims(found[i])[0] == graph.dims(found[0])[0];
  }
  for (size_t i = 0; i < 3 && graph.ok(); ++i) {
    const Dims dims = graph.dims(*values[i]);
    *values[i] = same_batch || dims.size() != 3 ? found[i] : movements::reshape(graph, *values[i], {1, dims[0], dims[1], dims[2]}, name);
  }
}

// ---- masks -------------------------------------------------------------------------------------------------------------------------

// Whether a constant mask [1, 1, S, T] shows query s the keys up to s + (T - S) and nothing else.
bool is_causal(Rewriter& graph, ValueId mask, int64_t num_queries, int64_t num_keys) {
  if (!graph.is_constant(mask) || num_keys < num_queries || graph.dims(mask) != Dims{1, 1, num_queries, num_keys}) return false;
  const HeldSpan<float> data = graph.value(mask).constant<float>();
  for (int64_t s = 0; s < num_queries; ++s) {
    for (int64_t t = 0; t < num_keys; ++t) {
      const double x = static_cast<double>(data[s * num_keys + t]);
      if (t <= s + num_keys - num_queries ? x != 0 : x > kHidden) return false;
    }
  }
  return true;
}

// The mask [b, h, s, t] of scores [B, H, S, T], each of its dims 1 or theirs; kNone where its shape is another. `rank`: of the scores.
ValueId mask_with_four_axes(Rewriter& graph, ValueId mask, size_t rank, const Dims& scores, const std::string& name) {
  Dims dims = graph.dims(mask);
  if (dims.size() > rank) return kNone;
  dims.insert(dims.begin(), rank - dims.size(), 1);
  if (rank == 2) dims.insert(dims.begin(), 2, 1);
  if (rank == 3) {
    // One axis for B * H.
    const int64_t both = dims[0];
    if (both != 1 && both != scores[0] * scores[1]) return kNone;
    dims.insert(dims.begin(), both == 1 ? 1 : scores[0]);
    if (both != 1) dims[1] = scores[1];
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    if (dims[axis] != 1 && dims[axis] != scores[axis]) return kNone;
  }
  return movements::reshape(graph, mask, dims, name);
}

// ---- the pattern -------------------------------------------------------------------------------------------------------------------

// q [B, H, S, D], k and v [B, H or fewer, T, D], mask [B or 1, H or 1, S or 1, T or 1].
struct Attention {
  ValueId q, k, v, mask;
  float scale;
};

std::optional<Attention> match_attention(Rewriter& graph, const Node& node) {
  if (node.op != &ops::gemm || !(node.attrs == Attrs(ops::GemmAttrs{}))) return std::nullopt;
  const Node* softmax = match::single(graph, node.inputs[0], ops::softmax);
  if (softmax == nullptr || softmax->attrs.as<ops::SoftmaxAttrs>().log) return std::nullopt;
  const size_t rank = graph.dims(softmax->outputs[0]).size();
  if (rank < 2 || rank > 4 || graph.dims(node.outputs[0]).size() != rank) return std::nullopt;
  const auto scores = match_scores(graph, softmax->inputs[0]);
  if (!scores || !graph.ok()) return std::nullopt;
  for (const ValueId operand : {scores->q, scores->k, node.inputs[1]}) {
    if (graph.dims(operand).size() != rank || movements::count(graph.dims(operand)) == 0) return std::nullopt;
  }
  Attention found{scores->q, scores->k, node.inputs[1], kNone, static_cast<float>(scores->scale)};
  with_four_axes(graph, {&found.q, &found.k, &found.v}, node.name);
  if (!graph.ok()) return std::nullopt;
  found.k = before_repetition(graph, found.k);
  found.v = before_repetition(graph, found.v);
  if (!graph.ok()) return std::nullopt;
  const Dims q = graph.dims(found.q), k = graph.dims(found.k), v = graph.dims(found.v);
  const bool agree = k[0] == q[0] && v[0] == q[0] && k[1] == v[1] && q[1] % k[1] == 0 && k[2] == v[2] && q[3] == k[3];
  if (!agree || q[1] * q[3] > std::numeric_limits<int32_t>::max()) return std::nullopt;
  if (scores->mask == kNone) return found;
  found.mask = mask_with_four_axes(graph, scores->mask, rank, {q[0], q[1], q[2], k[2]}, node.name);
  if (found.mask == kNone) return std::nullopt;
  return found;
}

// Heads that no transpose split are batches of one head: they lie so already. False where the mask does not allow it.
bool heads_to_batches(Rewriter& graph, Attention& attention, const std::string& name) {
  const Dims q = graph.dims(attention.q), k = graph.dims(attention.k), v = graph.dims(attention.v);
  if (k[1] != q[1]) return false;
  if (attention.mask != kNone) {
    const Dims mask = graph.dims(attention.mask);
    const bool one = mask[0] == 1 && mask[1] == 1, all = mask[0] == q[0] && mask[1] == q[1];
    if (!one && !all) return false;
    attention.mask = movements::reshape(graph, attention.mask, {mask[0] * mask[1], 1, mask[2], mask[3]}, name);
  }
  attention.q = movements::reshape(graph, attention.q, {q[0] * q[1], 1, q[2], q[3]}, name);
  attention.k = movements::reshape(graph, attention.k, {k[0] * k[1], 1, k[2], k[3]}, name);
  attention.v = movements::reshape(graph, attention.v, {v[0] * v[1], 1, v[2], v[3]}, name);
  return true;
}

ValueId fused(Rewriter& graph, const Node& node) {
  auto attention = match_attention(graph, node);
  if (!attention) return kNone;
  const int split = lies_by_heads(graph, attention->q) + lies_by_heads(graph, attention->k) + lies_by_heads(graph, attention->v);
  if (split < 2) heads_to_batches(graph, *attention, node.name);

  const Dims q = graph.dims(attention->q), k = graph.dims(attention->k), v = graph.dims(attention->v);
  ops::SdpaAttrs attrs;
  attrs.heads = static_cast<int32_t>(q[1]);
  attrs.kv_heads = static_cast<int32_t>(k[1]);
  attrs.scale = attention->scale;
  attrs.causal = attention->mask != kNone && is_causal(graph, attention->mask, q[2], k[2]);
  attrs.mask = attention->mask != kNone && !attrs.causal;
  std::vector<ValueId> inputs = {flat_heads(graph, attention->q, node.name), flat_heads(graph, attention->k, node.name),
                                 flat_heads(graph, attention->v, node.name)};
  if (attrs.mask) inputs.push_back(attention->mask);
  const ValueId flat = graph.add(ops::sdpa, attrs, inputs, node.name);
  return movements::reshape(graph, split_heads(graph, flat, q[1], node.name), graph.dims(node.outputs[0]), node.name);
}

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  const int hits = rewriter.replace_each([&](const Node& node) { return fused(rewriter, node); });
  // Heads that were merged behind the product, and masks of constants.
  if (hits > 0) simplify_all(rewriter);
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass fuse_attention_pass;
const Pass fuse_attention_pass = {"fuse_attention", "Makes sdpa of products, masks and softmax over dense heads.", run};

}  // namespace headrace::passes

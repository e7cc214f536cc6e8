// Attention and rotary embeddings: operators of opset 23, spelled out below it.
#include <algorithm>
#include <limits>

#include "onnx/export/writer.h"
#include "ops/rotary.h"
#include "ops/sdpa.h"

namespace headrace::onnx {
namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, kv_heads, head_dim, value_dim;
};

// The mask with all its queries and keys: an operator takes a shorter last axis for keys that nobody sees, and runtimes do not broadcast.
Wire mask_of(NodeWriter& node, const Sizes& sizes) {
  Dims dims = node.dims(3);
  dims[2] = sizes.queries, dims[3] = sizes.keys;
  return node.expand(node.input(3), node.dims(3), dims);
}

Wire write_attention(NodeWriter& node, const ops::SdpaAttrs& attrs, const Sizes& sizes) {
  std::vector<Wire> inputs = {node.input(0), node.input(1), node.input(2)};
  if (attrs.mask) inputs.push_back(mask_of(node, sizes));
  return node.add("Attention", std::move(inputs),
                  {{"q_num_heads", attribute(sizes.heads)}, {"kv_num_heads", attribute(sizes.kv_heads)}, {"scale", attribute(attrs.scale)},
                   {"is_causal", attribute(int64_t{attrs.causal})}});
}

// 0 where query s sees key t, -inf elsewhere.
Wire causal_mask(NodeWriter& node, const Sizes& sizes) {
  Tensor mask(DType::f32, {sizes.queries, sizes.keys});
  for (int64_t s = 0; s < sizes.queries; ++s) {
    for (int64_t t = std::max<int64_t>(0, s + sizes.keys - sizes.queries + 1); t < sizes.keys; ++t) {
      mask.data<float>()[s * sizes.keys + t] = -std::numeric_limits<float>::infinity();
    }
  }
  return node.model().constant(std::move(mask), node.node().name + ".causal");
}

// Heads as [B, heads, S, D], or [B, kv_heads, heads of each, S, D] where several read the same keys.
Wire spell_out_attention(NodeWriter& node, const ops::SdpaAttrs& attrs, const Sizes& sizes) {
  const bool shared = sizes.heads != sizes.kv_heads;
  const int64_t each = sizes.heads / sizes.kv_heads;
  const auto split = [&](int input, int64_t tokens, int64_t heads_of_each, int64_t dim) {
    const Dims plain = {sizes.batch, tokens, sizes.kv_heads, dim}, grouped = {sizes.batch, tokens, sizes.kv_heads, heads_of_each, dim};
    return node.reshape(node.input(input), node.dims(input), shared ? grouped : plain);
  };
  using Perm = std::vector<int64_t>;
  const Perm tokens_inside = shared ? Perm{0, 2, 3, 1, 4} : Perm{0, 2, 1, 3}, tokens_last = shared ? Perm{0, 2, 3, 4, 1} : Perm{0, 2, 3, 1};
  const Wire q = node.transpose(split(0, sizes.queries, each, sizes.head_dim), tokens_inside);
  const Wire k = node.transpose(split(1, sizes.keys, 1, sizes.head_dim), tokens_last);
  const Wire v = node.transpose(split(2, sizes.keys, 1, sizes.value_dim), tokens_inside);
  Wire scores = node.add("MatMul", {q, k});
  if (attrs.scale != 1.0f) scores = node.add("Mul", {scores, node.scalar(attrs.scale, "scale")});
  if (attrs.causal) scores = node.add("Add", {scores, causal_mask(node, sizes)});
  if (attrs.mask) {
    const Dims dims = node.dims(3);
    const bool one = dims[1] == 1;
    const Dims grouped = {dims[0], one ? 1 : sizes.kv_heads, one ? 1 : each, dims[2], dims[3]};
    scores = node.add("Add", {scores, node.reshape(node.input(3), dims, shared ? grouped : dims)});
  }
  const Wire weights = node.add("Softmax", {scores}, {{"axis", attribute(int64_t{-1})}});
  const Wire y = node.transpose(node.add("MatMul", {weights, v}), shared ? Perm{0, 3, 1, 2, 4} : Perm{0, 2, 1, 3});
  const Dims plain = {sizes.batch, sizes.queries, sizes.heads, sizes.value_dim};
  const Dims grouped = {sizes.batch, sizes.queries, sizes.kv_heads, each, sizes.value_dim};
  return node.reshape(y, shared ? grouped : plain, {sizes.batch, sizes.queries, sizes.heads * sizes.value_dim});
}

Status write_sdpa(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::SdpaAttrs>();
  const Dims q = node.dims(0), k = node.dims(1), v = node.dims(2);
  const Sizes sizes = {q[0], q[1], k[1], attrs.heads, attrs.kv_heads, q[2] / attrs.heads, v[2] / attrs.kv_heads};
  // The operator's causal mask begins at the first key, the graph's ends at the last one.
  const bool as_operator = node.opset() >= 23 && (!attrs.causal || sizes.queries == sizes.keys);
  node.set(0, as_operator ? write_attention(node, attrs, sizes) : spell_out_attention(node, attrs, sizes));
  return {};
}

Wire table(NodeWriter& node, int input) {
  Dims dims = node.dims(input);
  dims[0] = node.dims(0)[0];
  return node.expand(node.input(input), node.dims(input), dims);
}

// [B, S, heads, pairs, 2], or with halves [B, S, heads, 2, pairs]: the two of a pair are slices of one axis.
Wire spell_out_rotary(NodeWriter& node, const ops::RotaryAttrs& attrs) {
  const Dims dims = node.dims(0), tables = node.dims(1);
  const int64_t batch = dims[0], tokens = dims[1], heads = attrs.heads, pairs = attrs.rotary_dim / 2;
  const Dims by_head = {batch, tokens, heads, attrs.head_dim}, turned = {batch, tokens, heads, attrs.rotary_dim};
  const auto slice = [&](Wire x, int64_t axis, int64_t begin, int64_t end) {
    return node.add("Slice", {x, node.integers({begin}, "starts"), node.integers({end}, "ends"), node.integers({axis}, "axes")});
  };
  const bool partial = attrs.rotary_dim < attrs.head_dim;
  const Wire x = node.reshape(node.input(0), dims, by_head);
  const Wire head = partial ? slice(x, 3, 0, attrs.rotary_dim) : x;
  const int64_t axis = attrs.interleaved ? 4 : 3;
  const Dims in_pairs = attrs.interleaved ? Dims{batch, tokens, heads, pairs, 2} : Dims{batch, tokens, heads, 2, pairs};
  const Dims like = attrs.interleaved ? Dims{tables[0], tokens, 1, pairs, 1} : Dims{tables[0], tokens, 1, 1, pairs};
  const Wire both = node.reshape(head, turned, in_pairs);
  const Wire first = slice(both, axis, 0, 1), second = slice(both, axis, 1, 2);
  const Wire cos = node.reshape(node.input(1), tables, like), sin = node.reshape(node.input(2), tables, like);
  const Wire y = node.add("Sub", {node.add("Mul", {first, cos}), node.add("Mul", {second, sin})});
  const Wire z = node.add("Add", {node.add("Mul", {first, sin}), node.add("Mul", {second, cos})});
  Wire result = node.reshape(node.add("Concat", {y, z}, {{"axis", attribute(axis)}}), in_pairs, turned);
  if (partial) {
    const Wire rest = slice(x, 3, attrs.rotary_dim, attrs.head_dim);
    result = node.add("Concat", {result, rest}, {{"axis", attribute(int64_t{3})}});
  }
  return node.reshape(result, by_head, dims);
}

Status write_rotary(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::RotaryAttrs>();
  if (node.opset() < 23) {
    node.set(0, spell_out_rotary(node, attrs));
    return {};
  }
  Attributes attributes = {{"num_heads", attribute(int64_t{attrs.heads})}, {"interleaved", attribute(int64_t{attrs.interleaved})}};
  if (attrs.rotary_dim != attrs.head_dim) attributes["rotary_embedding_dim"] = attribute(int64_t{attrs.rotary_dim});
  node.set(0, node.add("RotaryEmbedding", {node.input(0), table(node, 1), table(node, 2)}, std::move(attributes)));
  return {};
}

constexpr ExportRow kRows[] = {{&ops::sdpa, write_sdpa}, {&ops::rotary, write_rotary}};

}  // namespace

std::span<const ExportRow> export_attention() { return kRows; }

}  // namespace headrace::onnx

// Attention with its caches and masks, rotary embeddings, linear attention, causal convolution with state.
#include <algorithm>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

// Q, K or V: [batch, heads, length, size], or [batch, length, heads * size] with the heads as an attribute.
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  bool packed = false;
  int64_t at(int64_t b, int64_t h, int64_t s) const {
    return packed ? ((b * length + s) * heads + h) * size : ((b * heads + h) * length + s) * size;
  }
  Dims dims() const { return packed ? Dims{batch, length, heads * size} : Dims{batch, heads, length, size}; }
};

// Whether `width` columns can be so many heads. Those of no columns are one, lest there are more than any loop ends for.
bool are_heads(int64_t heads, int64_t width) { return heads >= 1 && heads <= std::max<int64_t>(width, 1) && width % heads == 0; }

Result<Heads> heads_of(const Tensor& tensor, int64_t heads, std::string_view name) {
  const Dims& dims = tensor.dims();
  if (dims.size() == 4) return Heads{dims[0], dims[1], dims[2], dims[3], false};
  if (dims.size() != 3) return error(Code::malformed, "{}: want rank 3 or 4, got dims [{}]", name, fmt::join(dims, ", "));
  if (!are_heads(heads, dims[2])) {
    return error(Code::malformed, "{}: {} heads of dims [{}]", name, heads, fmt::join(dims, ", "));
  }
  return Heads{dims[0], heads, dims[1], dims[2] / heads, true};
}

struct AttentionShape {
  Heads q, k, v;
  int64_t past = 0, total = 0;  // keys from the cache, keys in all
  bool causal = false;
  int64_t left = -1, right = -1;   // window; -1: unbounded
  std::vector<int64_t> nonpad;     // valid keys of each image; empty: all
  int64_t mode = 0, precision = 0;
  float scale = 0, softcap = 0;
  Dims mask_dims, scores_dims;
};

Result<AttentionShape> attention_shape(const OpContext& context) {
  AttentionShape s;
  HR_ASSIGN_OR_RETURN(const int64_t q_heads, context.integer("q_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const int64_t kv_heads, context.integer("kv_num_heads", 0));
  for (const auto& [index, heads, name] : {std::tuple(0, &s.q, "Q"), std::tuple(1, &s.k, "K"), std::tuple(2, &s.v, "V")}) {
    HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
    HR_ASSIGN_OR_RETURN(*heads, heads_of(*tensor, index == 0 ? q_heads : kv_heads, name));
  }
  if (s.k.packed != s.q.packed || s.v.packed != s.q.packed || s.k.batch != s.q.batch || s.v.batch != s.q.batch ||
      s.k.size != s.q.size || s.v.length != s.k.length || s.v.heads != s.k.heads || s.k.heads == 0 ||
      s.q.heads % s.k.heads != 0) {
    return error(Code::malformed, "Q, K and V of dims [{}], [{}] and [{}] do not go together", fmt::join(s.q.dims(), ", "),
                 fmt::join(s.k.dims(), ", "), fmt::join(s.v.dims(), ", "));
  }
  if (context.has_input(4) != context.has_input(5)) return error(Code::malformed, "past_key and past_value: want both or none");
  if (context.has_input(4)) {
    HR_ASSIGN_OR_RETURN(const Tensor* past_key, context.input(4));
    HR_ASSIGN_OR_RETURN(const Tensor* past_value, context.input(5));
    HR_RETURN_IF_ERROR(want_rank(*past_key, 4, "past_key"));
    s.past = past_key->dim(2);
    HR_RETURN_IF_ERROR(want_dims(*past_key, {s.k.batch, s.k.heads, s.past, s.k.size}, "past_key"));
    HR_RETURN_IF_ERROR(want_dims(*past_value, {s.k.batch, s.k.heads, s.past, s.v.size}, "past_value"));
  }
  s.total = s.past + s.k.length;
  if (context.has_input(6)) {
    if (s.past > 0 || context.has_input(4)) return error(Code::malformed, "nonpad_kv_seqlen does not go with past_key");
    HR_ASSIGN_OR_RETURN(s.nonpad, context.integers(6));
    if (static_cast<int64_t>(s.nonpad.size()) != s.q.batch) {
      return error(Code::malformed, "nonpad_kv_seqlen: want {}, got {}", s.q.batch, s.nonpad.size());
    }
    for (const int64_t length : s.nonpad) {
      if (length < 0 || length > s.total) {
        return error(Code::malformed, "nonpad_kv_seqlen: want 0 to {}, got {}", s.total, length);
      }
    }
  }
  HR_ASSIGN_OR_RETURN(const int64_t causal, context.integer("is_causal", 0));
  s.causal = causal != 0;
  HR_ASSIGN_OR_RETURN(s.left, context.integer("left_window_size", -1));
  HR_ASSIGN_OR_RETURN(s.right, context.integer("right_window_size", -1));
  if (s.left < -1 || s.right < -1) {
    return error(Code::malformed, "window sizes: want -1 or more, got {} and {}", s.left, s.right);
  }
  s.left = std::min(s.left, kMaxElements);
  s.right = std::min(s.right, kMaxElements);
  HR_ASSIGN_OR_RETURN(s.mode, context.integer("qk_matmul_output_mode", 0));
  if (s.mode < 0 || s.mode > 3) return error(Code::malformed, "qk_matmul_output_mode: want 0 to 3, got {}", s.mode);
  HR_ASSIGN_OR_RETURN(s.precision, context.integer("softmax_precision", 0));
  HR_ASSIGN_OR_RETURN(s.softcap, context.number("softcap", 0));
  HR_ASSIGN_OR_RETURN(s.scale, context.number("scale", 1 / std::sqrt(static_cast<float>(s.q.size))));
  s.scores_dims = {s.q.batch, s.q.heads, s.q.length, s.total};
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const Tensor* mask, context.input(3));
    s.mask_dims = mask->dims();
    if (mask->rank() < 1) return error(Code::malformed, "attn_mask: want rank 1 or more");
    // The last axis may be shorter: keys beyond it are masked.
    Dims stretched = s.mask_dims;
    if (stretched.back() > s.total && stretched.back() != 1) {
      return error(Code::malformed, "attn_mask: {} keys, there are {}", stretched.back(), s.total);
    }
    stretched.back() = s.total;
    HR_ASSIGN_OR_RETURN(const Dims common, broadcast(stretched, s.scores_dims));
    if (common != s.scores_dims) {
      return error(Code::malformed, "attn_mask: dims [{}] do not go into [{}]", fmt::join(s.mask_dims, ", "),
                   fmt::join(s.scores_dims, ", "));
    }
  }
  return s;
}

// The cache followed by what is new, [batch, heads, total, size].
template <class W>
Result<std::vector<W>> joined(OpContext& context, int index, int past_index, const Heads& heads, int64_t past) {
  HR_ASSIGN_OR_RETURN(const Numbers<W> fresh, numbers<W>(context, index));
  HR_ASSIGN_OR_RETURN(const Numbers<W> old, numbers<W>(context, past_index, true));
  HR_ASSIGN_OR_RETURN(std::vector<W> all, buffer<W>(context, {heads.batch, heads.heads, past + heads.length, heads.size}));
  if (all.empty()) return all;
  auto to = all.begin();
  for (int64_t b = 0; b < heads.batch; ++b) {
    for (int64_t h = 0; h < heads.heads; ++h) {
      if (past > 0) to = std::copy_n(old.data() + (b * heads.heads + h) * past * heads.size, past * heads.size, to);
      for (int64_t s = 0; s < heads.length; ++s) to = std::copy_n(fresh.data() + heads.at(b, h, s), heads.size, to);
    }
  }
  return all;
}

// What the mask adds: 0 or -inf for bools.
template <class W>
Result<std::vector<W>> mask_values(const Tensor& mask) {
  std::vector<W> values(static_cast<size_t>(mask.elements()));
  const bool known = dispatch<bool>(mask.dtype(),
                                    [&]<class T>() {
                                      for (size_t i = 0; i < values.size(); ++i) {
                                        values[i] = mask.data<bool>()[i] ? 0 : -std::numeric_limits<W>::infinity();
                                      }
                                    }) ||
                     dispatch_number(mask.dtype(), [&]<class T>() {
                       for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<W>(widen(mask.data<T>()[i]));
                     });
  if (!known) return tl::unexpected<Status>(unknown_type(mask.dtype()));
  return values;
}

// Rounds as a cast to the ONNX type `precision` does, where that is narrower than what is computed in.
template <class W>
W rounded(W value, int64_t precision) {
  if (precision == 10) return to_float(to_f16(static_cast<float>(value)));
  if (precision == 16) return to_float(to_bf16(static_cast<float>(value)));
  return value;
}

Status attention(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const AttentionShape s, attention_shape(context));
  const DType dtype = context.value(0).tensor()->dtype(), value_dtype = context.value(2).tensor()->dtype();
  return compute(dtype, [&]<class W>() -> Status {
    constexpr W kMasked = -std::numeric_limits<W>::infinity();
    HR_ASSIGN_OR_RETURN(const Numbers<W> q, numbers<W>(context, 0));
    HR_ASSIGN_OR_RETURN(const std::vector<W> keys, joined<W>(context, 1, 4, s.k, s.past));
    HR_ASSIGN_OR_RETURN(const std::vector<W> values, joined<W>(context, 2, 5, s.v, s.past));
    std::vector<W> mask;
    Dims mask_strides(4, 0);
    int64_t masked_from = s.total;
    if (context.has_input(3)) {
      HR_ASSIGN_OR_RETURN(mask, mask_values<W>(*context.value(3).tensor()));
      mask_strides = broadcast_strides(s.mask_dims, s.scores_dims);
      // In opset 23 the last axis is broadcast as any other.
      if (context.opset() >= 24 || s.mask_dims.back() != 1) masked_from = s.mask_dims.back();
    }
    Heads result = s.q;
    result.size = s.v.size;
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, result.dims()));
    std::vector<W> shown;
    if (context.wants_output(3)) {
      HR_ASSIGN_OR_RETURN(shown, buffer<W>(context, s.scores_dims));
    }
    // Both sides are scaled by the root, which the document rounds to the inputs' type.
    const W root = rounded(std::sqrt(static_cast<W>(s.scale)), dtype == DType::f16 ? 10 : dtype == DType::bf16 ? 16 : 0);
    const int64_t share = s.q.heads / s.k.heads;
    const bool empty = y.empty() && shown.empty();
    std::vector<W> scaled_q(static_cast<size_t>(empty ? 0 : s.q.size)), raw(static_cast<size_t>(empty ? 0 : s.total)), capped(raw.size()),
        biased(raw.size()), weights(raw.size());
    for (int64_t b = 0; !empty && b < s.q.batch; ++b) {
      const int64_t offset = s.nonpad.empty() ? s.past : s.nonpad[static_cast<size_t>(b)] - s.q.length;
      for (int64_t h = 0; h < s.q.heads; ++h) {
        const int64_t kv = b * s.k.heads + h / share;
        for (int64_t i = 0; i < s.q.length; ++i) {
          for (int64_t d = 0; d < s.q.size; ++d) scaled_q[static_cast<size_t>(d)] = q[s.q.at(b, h, i) + d] * root;
          bool attends = false;
          for (int64_t j = 0; j < s.total; ++j) {
            const auto at = static_cast<size_t>(j);
            const W* key = keys.data() + (kv * s.total + j) * s.k.size;
            W sum = 0;
            for (int64_t d = 0; d < s.k.size; ++d) sum += scaled_q[static_cast<size_t>(d)] * (key[d] * root);
            raw[at] = sum;
            capped[at] = s.softcap > 0 ? s.softcap * std::tanh(sum / s.softcap) : sum;
            W bias = 0;
            if (!mask.empty()) {
              bias = j >= masked_from && masked_from != s.total
                         ? kMasked
                         : mask[static_cast<size_t>(b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2] +
                                                    j * mask_strides[3])];
            }
            const int64_t position = i + offset;
            if ((s.causal && j > position) || (s.left >= 0 && j < position - s.left) ||
                (s.right >= 0 && j > position + s.right) || (!s.nonpad.empty() && j >= s.nonpad[static_cast<size_t>(b)])) {
              bias = kMasked;
            }
            attends = attends || bias != kMasked;
            biased[at] = capped[at] + bias;
          }
          W most = kMasked;
          for (const W score : biased) most = larger(most, rounded(score, s.precision));
          W total = 0;
          for (size_t j = 0; j < biased.size(); ++j) {
            weights[j] = attends && most != kMasked ? std::exp(rounded(biased[j], s.precision) - most) : 0;
            total += weights[j];
          }
          for (W& weight : weights) weight = total == 0 ? 0 : weight / total;
          W* to = y.data() + result.at(b, h, i);
          for (int64_t j = 0; j < s.total; ++j) {
            const W weight = weights[static_cast<size_t>(j)];
            if (weight == 0) continue;  // what is masked may hold anything
            const W* value = values.data() + (kv * s.total + j) * s.v.size;
            for (int64_t d = 0; d < s.v.size; ++d) to[d] += weight * value[d];
          }
          if (!shown.empty()) {
            const std::vector<W>& row = s.mode == 0 ? raw : s.mode == 1 ? capped : s.mode == 2 ? biased : weights;
            std::ranges::copy(row, shown.begin() + ((b * s.q.heads + h) * s.q.length + i) * s.total);
          }
        }
      }
    }
    HR_RETURN_IF_ERROR(put(context, 0, dtype, result.dims(), y));
    HR_RETURN_IF_ERROR(put(context, 1, dtype, {s.k.batch, s.k.heads, s.total, s.k.size}, keys));
    HR_RETURN_IF_ERROR(put(context, 2, value_dtype, {s.k.batch, s.k.heads, s.total, s.v.size}, values));
    return put(context, 3, dtype, s.scores_dims, shown);
  });
}

Status check_rotated(int64_t rotated, int64_t size) {
  if (rotated >= 0 && rotated <= size && rotated % 2 == 0) return {};
  return make_status(Code::malformed, "rotary_embedding_dim: want an even number up to {}, got {}", size, rotated);
}

Status rotary_embedding(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* cosines, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* sines, context.input(2));
  HR_ASSIGN_OR_RETURN(const int64_t interleaved, context.integer("interleaved", 0));
  HR_ASSIGN_OR_RETURN(const int64_t num_heads, context.integer("num_heads", 0));
  HR_ASSIGN_OR_RETURN(int64_t rotated, context.integer("rotary_embedding_dim", 0));
  HR_ASSIGN_OR_RETURN(const Heads heads, heads_of(*x, num_heads, "X"));
  if (rotated == 0) rotated = heads.size;
  HR_RETURN_IF_ERROR(check_rotated(rotated, heads.size));
  const int64_t half = rotated / 2;
  HR_RETURN_IF_ERROR(want_dims(*sines, cosines->dims(), "sin_cache"));
  const int64_t* positions = nullptr;
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const Tensor* ids, context.input(3));
    if (ids->dtype() != DType::i64) return unknown_type(ids->dtype());
    HR_RETURN_IF_ERROR(want_dims(*ids, {heads.batch, heads.length}, "position_ids"));
    HR_RETURN_IF_ERROR(want_rank(*cosines, 2, "cos_cache"));
    HR_RETURN_IF_ERROR(want_dims(*cosines, {cosines->dim(0), half}, "cos_cache"));
    positions = ids->data<int64_t>();
    for (const int64_t id : ids->values<int64_t>()) {
      if (id < 0 || id >= cosines->dim(0)) {
        return make_status(Code::invalid_argument, "position {}: want 0 to {}", id, cosines->dim(0) - 1);
      }
    }
  } else {
    HR_RETURN_IF_ERROR(want_dims(*cosines, {heads.batch, heads.length, half}, "cos_cache"));
  }
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> cos, Numbers<W>::of(*cosines));
    HR_ASSIGN_OR_RETURN(const Numbers<W> sin, Numbers<W>::of(*sines));
    std::vector<W> y(from.data(), from.data() + x->elements());
    for (int64_t b = 0; !y.empty() && b < heads.batch; ++b) {
      for (int64_t h = 0; h < heads.heads; ++h) {
        for (int64_t s = 0; s < heads.length; ++s) {
          const int64_t token = b * heads.length + s, angle = (positions == nullptr ? token : positions[token]) * half,
                        at = heads.at(b, h, s);
          for (int64_t i = 0; i < half; ++i) {
            const int64_t first = at + (interleaved != 0 ? 2 * i : i), second = interleaved != 0 ? first + 1 : first + half;
            y[static_cast<size_t>(first)] = cos[angle + i] * from[first] - sin[angle + i] * from[second];
            y[static_cast<size_t>(second)] = sin[angle + i] * from[first] + cos[angle + i] * from[second];
          }
        }
      }
    }
    return put(context, 0, x->dtype(), x->dims(), y);
  });
}

Status linear_attention(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t q_heads, context.integer("q_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const int64_t kv_heads, context.integer("kv_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const std::string rule, context.text("update_rule", "gated_delta"));
  HR_ASSIGN_OR_RETURN(float scale, context.number("scale", 0));
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") {
    return make_status(Code::malformed, "update_rule: want linear, gated, delta or gated_delta, got {}", rule);
  }
  Heads parts[3];
  for (int i = 0; i < 3; ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(i));
    HR_RETURN_IF_ERROR(want_rank(*tensor, 3, "query, key and value"));
    HR_ASSIGN_OR_RETURN(parts[i], heads_of(*tensor, i == 0 ? q_heads : kv_heads, "query, key and value"));
  }
  const auto& [q, k, v] = parts;
  if (k.batch != q.batch || v.batch != q.batch || k.length != q.length || v.length != q.length || k.size != q.size ||
      q.heads % k.heads != 0) {
    return make_status(Code::malformed, "query, key and value of dims [{}], [{}] and [{}] do not go together",
                       fmt::join(q.dims(), ", "), fmt::join(k.dims(), ", "), fmt::join(v.dims(), ", "));
  }
  const Dims state_dims = {q.batch, k.heads, k.size, v.size};
  const DType dtype = context.value(0).tensor()->dtype();
  DType state_dtype = dtype;
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const Tensor* past, context.input(3));
    HR_RETURN_IF_ERROR(want_dims(*past, state_dims, "past_state"));
    state_dtype = past->dtype();
  }
  int64_t decays = 0, betas = 0;  // of one token
  if (gated) {
    HR_ASSIGN_OR_RETURN(const Tensor* decay, context.input(4));
    HR_RETURN_IF_ERROR(want_rank(*decay, 3, "decay"));
    decays = decay->dim(2) == k.heads ? k.heads : k.heads * k.size;
    HR_RETURN_IF_ERROR(want_dims(*decay, {q.batch, q.length, decays}, "decay"));
  }
  if (delta) {
    HR_ASSIGN_OR_RETURN(const Tensor* beta, context.input(5));
    HR_RETURN_IF_ERROR(want_rank(*beta, 3, "beta"));
    betas = beta->dim(2) == 1 ? 1 : k.heads;
    HR_RETURN_IF_ERROR(want_dims(*beta, {q.batch, q.length, betas}, "beta"));
  }
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(q.size));
  Heads result = q;
  result.size = v.size;
  return compute(dtype, [&]<class W>() -> Status {
    Numbers<W> inputs[6];
    for (int i = 0; i < 6; ++i) {
      HR_ASSIGN_OR_RETURN(inputs[i], numbers<W>(context, i, i >= 3));
    }
    const auto& [query, key, value, past, decay, beta] = inputs;
    HR_ASSIGN_OR_RETURN(std::vector<W> state, buffer<W>(context, state_dims));
    if (!past.empty()) std::copy_n(past.data(), state.size(), state.begin());
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, result.dims()));
    const int64_t share = q.heads / k.heads;
    const bool empty = y.empty() && state.empty();
    std::vector<W> write(static_cast<size_t>(empty ? 0 : v.size));
    for (int64_t b = 0; !empty && b < q.batch; ++b) {
      for (int64_t h = 0; h < k.heads; ++h) {
        W* own = state.data() + (b * k.heads + h) * k.size * v.size;  // [k.size, v.size]
        for (int64_t t = 0; t < q.length; ++t) {
          const int64_t token = b * q.length + t;
          const W* key_row = key.data() + k.at(b, h, t);
          const W* value_row = value.data() + v.at(b, h, t);
          if (gated) {
            for (int64_t d = 0; d < k.size; ++d) {
              const W factor = std::exp(decay[token * decays + (decays == k.heads ? h : h * k.size + d)]);
              for (int64_t m = 0; m < v.size; ++m) own[d * v.size + m] *= factor;
            }
          }
          std::copy_n(value_row, v.size, write.begin());
          if (delta) {
            for (int64_t d = 0; d < k.size; ++d) {
              for (int64_t m = 0; m < v.size; ++m) write[static_cast<size_t>(m)] -= own[d * v.size + m] * key_row[d];
            }
            const W rate = beta[token * betas + (betas == 1 ? 0 : h)];
            for (W& part : write) part *= rate;
          }
          for (int64_t d = 0; d < k.size; ++d) {
            for (int64_t m = 0; m < v.size; ++m) own[d * v.size + m] += key_row[d] * write[static_cast<size_t>(m)];
          }
          for (int64_t g = 0; g < share; ++g) {
            const W* query_row = query.data() + q.at(b, h * share + g, t);
            W* to = y.data() + result.at(b, h * share + g, t);
            for (int64_t d = 0; d < k.size; ++d) {
              for (int64_t m = 0; m < v.size; ++m) to[m] += scale * query_row[d] * own[d * v.size + m];
            }
          }
        }
      }
    }
    HR_RETURN_IF_ERROR(put(context, 0, dtype, result.dims(), y));
    return put(context, 1, state_dtype, state_dims, state);
  });
}

Status causal_conv_with_state(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* w, context.input(1));
  HR_ASSIGN_OR_RETURN(const std::string activation, context.text("activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return make_status(Code::malformed, "activation: want none, silu or swish, got {}", activation);
  }
  HR_RETURN_IF_ERROR(want_rank(*x, 3, "input"));
  HR_RETURN_IF_ERROR(want_rank(*w, 3, "weight"));
  const int64_t batch = x->dim(0), channels = x->dim(1), length = x->dim(2), taps = w->dim(2), kept = taps - 1;
  HR_RETURN_IF_ERROR(want_dims(*w, {channels, 1, taps}, "weight"));
  if (taps < 1) return make_status(Code::malformed, "weight: a kernel of {}", taps);
  const Dims state_dims = {batch, channels, kept};
  if (context.has_input(2)) {
    HR_ASSIGN_OR_RETURN(const Tensor* bias, context.input(2));
    HR_RETURN_IF_ERROR(want_dims(*bias, {channels}, "bias"));
  }
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const Tensor* past, context.input(3));
    HR_RETURN_IF_ERROR(want_dims(*past, state_dims, "past_state"));
  }
  return compute(x->dtype(), [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Numbers<W> from, Numbers<W>::of(*x));
    HR_ASSIGN_OR_RETURN(const Numbers<W> weights, Numbers<W>::of(*w));
    HR_ASSIGN_OR_RETURN(const Numbers<W> bias, numbers<W>(context, 2, true));
    HR_ASSIGN_OR_RETURN(const Numbers<W> past, numbers<W>(context, 3, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, x->dims()));
    HR_ASSIGN_OR_RETURN(std::vector<W> state, buffer<W>(context, state_dims));
    const bool empty = y.empty() && state.empty();
    std::vector<W> row(static_cast<size_t>(empty ? 0 : kept + length));
    for (int64_t r = 0; !empty && r < batch * channels; ++r) {
      std::fill_n(row.begin(), kept, W{0});
      if (!past.empty()) std::copy_n(past.data() + r * kept, kept, row.begin());
      std::copy_n(from.data() + r * length, length, row.begin() + kept);
      const int64_t c = r % channels;
      for (int64_t t = 0; t < length; ++t) {
        W sum = bias.empty() ? 0 : bias[c];
        for (int64_t k = 0; k < taps; ++k) sum += weights[c * taps + k] * row[static_cast<size_t>(t + k)];
        y[static_cast<size_t>(r * length + t)] = activation == "none" ? sum : sum / (1 + std::exp(-sum));
      }
      std::copy_n(row.end() - kept, kept, state.begin() + r * kept);
    }
    HR_RETURN_IF_ERROR(put(context, 0, x->dtype(), x->dims(), y));
    return put(context, 1, x->dtype(), state_dims, state);
  });
}

// ---- types

// The dims of Q, K or V as far as they are known, in the words of Heads.
struct HeadsFact {
  std::optional<DType> dtype;
  Dim batch, heads, length, size;
  size_t rank = 0;  // 0: unknown
  Shape shape() const {
    if (rank == 3) return {batch, length, product(heads, size)};
    return {batch, heads, length, size};
  }
};

Result<HeadsFact> infer_heads(const InferContext& context, int index, int64_t heads, std::string_view name) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(index));
  HeadsFact fact{x.dtype, {}, {}, {}, {}, 0};
  if (!x.shape) return fact;
  const Shape& s = *x.shape;
  fact.rank = s.size();
  if (s.size() == 4) return HeadsFact{x.dtype, s[0], s[1], s[2], s[3], 4};
  if (s.size() != 3) return error(Code::malformed, "{}: want rank 3 or 4, got dims {}", name, describe(s));
  if (heads < 1 || (is_known(s[2]) && !are_heads(heads, s[2].value))) {
    return error(Code::malformed, "{}: {} heads of dims {}", name, heads, describe(s));
  }
  const Dim count = dim_of(heads);
  return HeadsFact{x.dtype, s[0], count, s[1], quotient(std::span(&s[2], 1), std::span(&count, 1)), 3};
}

Status infer_attention(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t q_heads, context.integer("q_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const int64_t kv_heads, context.integer("kv_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const HeadsFact q, infer_heads(context, 0, q_heads, "Q"));
  HR_ASSIGN_OR_RETURN(const HeadsFact k, infer_heads(context, 1, kv_heads, "K"));
  HR_ASSIGN_OR_RETURN(const HeadsFact v, infer_heads(context, 2, kv_heads, "V"));
  HR_ASSIGN_OR_RETURN(const Dim batch, agreed(q.batch, k.batch, "K's batch"));
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const Dim size, agreed(q.size, k.size, "K's head size"));
  HR_ASSIGN_OR_RETURN(const Dim length, agreed(k.length, v.length, "V's length"));
  Dim past = dim_of(0);
  if (context.has_input(4)) {
    HR_ASSIGN_OR_RETURN(const TensorFact past_key, context.input(4));
    HR_RETURN_IF_ERROR(want_rank(past_key, 4, "past_key"));
    past = past_key.shape ? (*past_key.shape)[2] : Dim();
  }
  const Dim total = sum(past, length);
  std::optional<Shape> result;
  if (q.rank != 0) {
    HeadsFact y = q;
    y.size = v.size;
    result = y.shape();
  }
  const auto four = [&](Dim heads, Dim rows, Dim columns) -> std::optional<Shape> { return Shape{batch, heads, rows, columns}; };
  context.set(0, q.dtype, result);
  context.set(1, q.dtype, four(k.heads, total, k.size));
  context.set(2, v.dtype, four(k.heads, total, v.size));
  context.set(3, q.dtype, four(q.heads, q.length, total));
  return {};
}

Status infer_rotary_embedding(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t heads, context.integer("num_heads", 0));
  HR_ASSIGN_OR_RETURN(const int64_t rotated, context.integer("rotary_embedding_dim", 0));
  HR_ASSIGN_OR_RETURN(const HeadsFact x, infer_heads(context, 0, heads, "X"));
  if (is_known(x.size)) HR_RETURN_IF_ERROR(check_rotated(rotated == 0 ? x.size.value : rotated, x.size.value));
  return infer_same(context);
}

Status infer_linear_attention(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const int64_t q_heads, context.integer("q_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const int64_t kv_heads, context.integer("kv_num_heads", 0));
  HR_ASSIGN_OR_RETURN(const HeadsFact q, infer_heads(context, 0, q_heads, "query"));
  HR_ASSIGN_OR_RETURN(const HeadsFact k, infer_heads(context, 1, kv_heads, "key"));
  HR_ASSIGN_OR_RETURN(const HeadsFact v, infer_heads(context, 2, kv_heads, "value"));
  context.set(0, q.dtype, Shape{q.batch, q.length, product(q.heads, v.size)});
  std::optional<DType> state = q.dtype;
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const TensorFact past, context.input(3));
    state = past.dtype;
  }
  context.set(1, state, Shape{q.batch, k.heads, k.size, v.size});
  return {};
}

Status infer_causal_conv(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(1));
  HR_RETURN_IF_ERROR(want_rank(x, 3, "input"));
  HR_RETURN_IF_ERROR(want_rank(w, 3, "weight"));
  context.set(0, x.dtype, x.shape);
  Shape state = x.shape.value_or(unknown_shape(3));
  state[2] = w.shape && is_known((*w.shape)[2]) && (*w.shape)[2].value > 0 ? dim_of((*w.shape)[2].value - 1) : Dim();
  context.set(1, x.dtype, std::move(state));
  return {};
}

constexpr OpRow kRows[] = {
    {"Attention", 23, attention, infer_attention},
    {"CausalConvWithState", 27, causal_conv_with_state, infer_causal_conv},
    {"LinearAttention", 27, linear_attention, infer_linear_attention},
    {"RotaryEmbedding", 23, rotary_embedding, infer_rotary_embedding},
};

}  // namespace

std::span<const OpRow> ops_attention() { return kRows; }

}  // namespace headrace::onnx

// RNN, GRU and LSTM: both directions and layouts, activations with their scales, clipping, sequences of different lengths.
#include "onnx/infer.h"
#include "onnx/ops/matmul.h"

namespace headrace::onnx {
namespace {

struct Activation {
  enum class Kind : uint8_t {
    affine,
    elu,
    hard_sigmoid,
    leaky_relu,
    relu,
    scaled_tanh,
    sigmoid,
    softplus,
    softsign,
    tanh,
    thresholded_relu
  };
  std::string_view name;
  Kind kind;
  bool takes_alpha, takes_beta;
  float alpha, beta;

  template <class W>
  W operator()(W x) const {
    switch (kind) {
      case Kind::affine: return alpha * x + beta;
      case Kind::elu: return x < 0 ? alpha * std::expm1(x) : x;
      case Kind::hard_sigmoid: return std::clamp<W>(alpha * x + beta, 0, 1);
      case Kind::leaky_relu: return x < 0 ? alpha * x : x;
      case Kind::relu: return x < 0 ? 0 : x;
      case Kind::scaled_tanh: return alpha * std::tanh(beta * x);
      case Kind::sigmoid: return 1 / (1 + std::exp(-x));
      case Kind::softplus: return std::max<W>(x, 0) + std::log1p(std::exp(-std::abs(x)));
      case Kind::softsign: return x / (1 + std::abs(x));
      case Kind::tanh: return std::tanh(x);
      case Kind::thresholded_relu: return x > alpha ? x : 0;
    }
    return x;
  }
};

constexpr Activation kActivations[] = {
    {"Affine", Activation::Kind::affine, true, true, 1, 0},
    {"Elu", Activation::Kind::elu, true, false, 1, 0},
    {"HardSigmoid", Activation::Kind::hard_sigmoid, true, true, 0.2f, 0.5f},
    {"LeakyRelu", Activation::Kind::leaky_relu, true, false, 0.01f, 0},
    {"Relu", Activation::Kind::relu, false, false, 0, 0},
    {"ScaledTanh", Activation::Kind::scaled_tanh, true, true, 1, 1},
    {"Sigmoid", Activation::Kind::sigmoid, false, false, 0, 0},
    {"Softplus", Activation::Kind::softplus, false, false, 0, 0},
    {"Softsign", Activation::Kind::softsign, false, false, 0, 0},
    {"Tanh", Activation::Kind::tanh, false, false, 0, 0},
    {"ThresholdedRelu", Activation::Kind::thresholded_relu, true, false, 1, 0},
};

// What the three have in common.
struct Recurrence {
  int64_t steps, batch, inputs, hidden, gates, directions;
  bool batch_first, first_backward;  // the first direction runs backward; a second one always does
  float clip;                        // 0: none
  std::vector<Activation> activations;  // those of one direction behind those of the other
  std::vector<int64_t> lengths;         // of each sequence; empty: all are `steps` long

  template <class W>
  W clipped(W x) const {
    return clip > 0 ? std::clamp<W>(x, -clip, clip) : x;
  }
  // The row of a state tensor [directions, batch, hidden] (batch first: [batch, directions, hidden]).
  int64_t state_at(int64_t direction, int64_t b) const {
    return (batch_first ? b * directions + direction : direction * batch + b) * hidden;
  }
  // The row of Y [steps, directions, batch, hidden] (batch first: [batch, steps, directions, hidden]).
  int64_t output_at(int64_t step, int64_t direction, int64_t b) const {
    return (batch_first ? (b * steps + step) * directions + direction : (step * directions + direction) * batch + b) * hidden;
  }
  Dims state_dims() const { return batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden}; }
  Dims output_dims() const {
    return batch_first ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden};
  }
};

Result<int64_t> directions_of(const NodeReader& context) {
  HR_ASSIGN_OR_RETURN(const std::string direction, context.text("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return error(Code::malformed, "direction: want forward, reverse or bidirectional, got {}", direction);
  }
  return direction == "bidirectional" ? 2 : 1;
}

// `defaults`: the activations of one direction.
Result<Recurrence> recurrence(const OpContext& context, int64_t gates, const std::vector<std::string>& defaults) {
  Recurrence r{};
  HR_ASSIGN_OR_RETURN(const Tensor* x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Tensor* w, context.input(1));
  HR_ASSIGN_OR_RETURN(const Tensor* recurrent, context.input(2));
  HR_RETURN_IF_ERROR(same_type(*x, *w));
  HR_RETURN_IF_ERROR(same_type(*x, *recurrent));
  HR_RETURN_IF_ERROR(want_rank(*x, 3, "X"));
  HR_RETURN_IF_ERROR(want_rank(*recurrent, 3, "R"));
  HR_ASSIGN_OR_RETURN(const int64_t layout, context.integer("layout", 0));
  HR_ASSIGN_OR_RETURN(r.directions, directions_of(context));
  HR_ASSIGN_OR_RETURN(const std::string direction, context.text("direction", "forward"));
  r.batch_first = layout != 0;
  r.steps = x->dim(r.batch_first ? 1 : 0);
  r.batch = x->dim(r.batch_first ? 0 : 1);
  r.inputs = x->dim(2);
  r.gates = gates;
  r.first_backward = direction == "reverse";
  HR_ASSIGN_OR_RETURN(r.hidden, context.integer("hidden_size", recurrent->dim(2)));
  if (r.hidden < 0 || r.hidden > kMaxElements / 8) return error(Code::malformed, "hidden_size: {}", r.hidden);
  HR_RETURN_IF_ERROR(want_dims(*w, {r.directions, gates * r.hidden, r.inputs}, "W"));
  HR_RETURN_IF_ERROR(want_dims(*recurrent, {r.directions, gates * r.hidden, r.hidden}, "R"));
  if (context.has_input(3)) {
    HR_ASSIGN_OR_RETURN(const Tensor* bias, context.input(3));
    HR_RETURN_IF_ERROR(want_dims(*bias, {r.directions, 2 * gates * r.hidden}, "B"));
  }
  if (context.has_input(4)) {
    HR_ASSIGN_OR_RETURN(r.lengths, context.integers(4));
    if (static_cast<int64_t>(r.lengths.size()) != r.batch) {
      return error(Code::malformed, "sequence_lens: want {}, got {}", r.batch, r.lengths.size());
    }
    for (const int64_t length : r.lengths) {
      if (length < 0 || length > r.steps) return error(Code::malformed, "sequence_lens: want 0 to {}, got {}", r.steps, length);
    }
  }
  for (int i = 5; i < 7; ++i) {
    if (!context.has_input(i)) continue;
    HR_ASSIGN_OR_RETURN(const Tensor* state, context.input(i));
    HR_RETURN_IF_ERROR(want_dims(*state, r.state_dims(), i == 5 ? "initial_h" : "initial_c"));
  }
  HR_ASSIGN_OR_RETURN(r.clip, context.number("clip", 0));
  HR_ASSIGN_OR_RETURN(const std::vector<std::string> names, context.texts("activations", {}));
  HR_ASSIGN_OR_RETURN(const std::vector<float> alphas, context.numbers("activation_alpha", {}));
  HR_ASSIGN_OR_RETURN(const std::vector<float> betas, context.numbers("activation_beta", {}));
  size_t alpha = 0, beta = 0;
  const size_t wanted = defaults.size() * static_cast<size_t>(r.directions);
  if (!names.empty() && names.size() < wanted) {
    return error(Code::malformed, "activations: want {}, got {}", wanted, names.size());
  }
  for (size_t i = 0; i < wanted; ++i) {
    const std::string& name = names.empty() ? defaults[i % defaults.size()] : names[i];
    const auto* found = std::ranges::find(kActivations, name, &Activation::name);
    if (found == std::end(kActivations)) return error(Code::malformed, "activations: no function {}", name);
    Activation own = *found;
    if (own.takes_alpha && alpha < alphas.size()) own.alpha = alphas[alpha++];
    if (own.takes_beta && beta < betas.size()) own.beta = betas[beta++];
    r.activations.push_back(own);
  }
  return r;
}

template <class W>
struct Weights {
  Numbers<W> x, w, r, b, h0;
};

template <class W>
Result<Weights<W>> weights(const OpContext& context) {
  Weights<W> all;
  HR_ASSIGN_OR_RETURN(all.x, numbers<W>(context, 0));
  HR_ASSIGN_OR_RETURN(all.w, numbers<W>(context, 1));
  HR_ASSIGN_OR_RETURN(all.r, numbers<W>(context, 2));
  HR_ASSIGN_OR_RETURN(all.b, numbers<W>(context, 3, true));
  HR_ASSIGN_OR_RETURN(all.h0, numbers<W>(context, 5, true));
  return all;
}

// [rows, columns] to [columns, rows]
template <class W>
std::vector<W> transposed(const W* from, int64_t rows, int64_t columns) {
  std::vector<W> to(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[static_cast<size_t>(j * rows + i)] = from[i * columns + j];
  }
  return to;
}

// One direction of one sequence. step(x, h): x [gates * hidden] is what the input gives with the input's biases, h [hidden] is
// the state, which it replaces. Y and the last states are written.
template <class W, class Step>
void run_sequence(const Recurrence& r, const Weights<W>& all, int64_t direction, int64_t b, const std::vector<W>& turned_w,
                  std::vector<W>& y, std::vector<W>& last, Step&& step) {
  const int64_t rows = r.gates * r.hidden, length = r.lengths.empty() ? r.steps : r.lengths[static_cast<size_t>(b)];
  std::vector<W> h(static_cast<size_t>(r.hidden), 0), x(static_cast<size_t>(rows));
  if (!all.h0.empty()) std::copy_n(all.h0.data() + r.state_at(direction, b), r.hidden, h.begin());
  const bool backward = direction == 1 || r.first_backward;
  for (int64_t t = 0; t < length; ++t) {
    const int64_t at = backward ? length - 1 - t : t;
    for (int64_t i = 0; i < rows; ++i) x[static_cast<size_t>(i)] = all.b.empty() ? 0 : all.b[direction * 2 * rows + i];
    gemm_add(1, rows, r.inputs, all.x.data() + (r.batch_first ? b * r.steps + at : at * r.batch + b) * r.inputs,
             turned_w.data(), x.data());
    step(x, h);
    std::ranges::copy(h, y.begin() + r.output_at(at, direction, b));
  }
  std::ranges::copy(h, last.begin() + r.state_at(direction, b));
}

// product [rows] = R [rows, hidden] h + the recurrent biases, from row `first` of the direction's on.
template <class W>
std::vector<W> recurrent_part(const Recurrence& r, const Weights<W>& all, int64_t direction, const std::vector<W>& h,
                              int64_t first, int64_t rows) {
  std::vector<W> product(static_cast<size_t>(rows));
  const int64_t all_rows = r.gates * r.hidden;
  for (int64_t i = 0; i < rows; ++i) {
    const W* row = all.r.data() + (direction * all_rows + first + i) * r.hidden;
    W sum = 0;
    for (int64_t k = 0; k < r.hidden; ++k) sum += row[k] * h[static_cast<size_t>(k)];
    product[static_cast<size_t>(i)] = sum + (all.b.empty() ? 0 : all.b[direction * 2 * all_rows + all_rows + first + i]);
  }
  return product;
}

Status rnn(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Recurrence r, recurrence(context, 1, {"Tanh"}));
  const DType dtype = context.value(0).tensor()->dtype();
  return compute(dtype, [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Weights<W> all, weights<W>(context));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, r.output_dims()));
    HR_ASSIGN_OR_RETURN(std::vector<W> last, buffer<W>(context, r.state_dims()));
    for (int64_t d = 0; d < r.directions; ++d) {
      const std::vector<W> turned = transposed(all.w.data() + d * r.hidden * r.inputs, r.hidden, r.inputs);
      const Activation& f = r.activations[static_cast<size_t>(d)];
      for (int64_t b = 0; !last.empty() && b < r.batch; ++b) {
        run_sequence(r, all, d, b, turned, y, last, [&](const std::vector<W>& x, std::vector<W>& h) {
          const std::vector<W> part = recurrent_part(r, all, d, h, 0, r.hidden);
          for (size_t i = 0; i < h.size(); ++i) h[i] = f(r.clipped(x[i] + part[i]));
        });
      }
    }
    HR_RETURN_IF_ERROR(put(context, 0, dtype, r.output_dims(), y));
    return put(context, 1, dtype, r.state_dims(), last);
  });
}

// Gates: update z, reset r, hidden h.
Status gru(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Recurrence r, recurrence(context, 3, {"Sigmoid", "Tanh"}));
  HR_ASSIGN_OR_RETURN(const int64_t linear_before_reset, context.integer("linear_before_reset", 0));
  const DType dtype = context.value(0).tensor()->dtype();
  return compute(dtype, [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Weights<W> all, weights<W>(context));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, r.output_dims()));
    HR_ASSIGN_OR_RETURN(std::vector<W> last, buffer<W>(context, r.state_dims()));
    const int64_t rows = 3 * r.hidden;
    const auto n = static_cast<size_t>(r.hidden);
    for (int64_t d = 0; d < r.directions; ++d) {
      const std::vector<W> turned = transposed(all.w.data() + d * rows * r.inputs, rows, r.inputs);
      const Activation& f = r.activations[static_cast<size_t>(2 * d)];
      const Activation& g = r.activations[static_cast<size_t>(2 * d + 1)];
      for (int64_t b = 0; !last.empty() && b < r.batch; ++b) {
        run_sequence(r, all, d, b, turned, y, last, [&](const std::vector<W>& x, std::vector<W>& h) {
          const std::vector<W> gates = recurrent_part(r, all, d, h, 0, 2 * r.hidden);
          std::vector<W> update(n), reset(n), kept = h;
          for (size_t i = 0; i < n; ++i) {
            update[i] = f(r.clipped(x[i] + gates[i]));
            reset[i] = f(r.clipped(x[n + i] + gates[n + i]));
            if (linear_before_reset == 0) kept[i] *= reset[i];
          }
          const std::vector<W> part = recurrent_part(r, all, d, kept, 2 * r.hidden, r.hidden);
          for (size_t i = 0; i < n; ++i) {
            const W fresh = g(r.clipped(x[2 * n + i] + (linear_before_reset == 0 ? part[i] : reset[i] * part[i])));
            h[i] = (1 - update[i]) * fresh + update[i] * h[i];
          }
        });
      }
    }
    HR_RETURN_IF_ERROR(put(context, 0, dtype, r.output_dims(), y));
    return put(context, 1, dtype, r.state_dims(), last);
  });
}

// Gates: input i, output o, forget f, cell c. Peepholes: i, o, f.
Status lstm(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Recurrence r, recurrence(context, 4, {"Sigmoid", "Tanh", "Tanh"}));
  HR_ASSIGN_OR_RETURN(const int64_t input_forget, context.integer("input_forget", 0));
  const DType dtype = context.value(0).tensor()->dtype();
  if (context.has_input(7)) {
    HR_ASSIGN_OR_RETURN(const Tensor* peepholes, context.input(7));
    HR_RETURN_IF_ERROR(want_dims(*peepholes, {r.directions, 3 * r.hidden}, "P"));
  }
  return compute(dtype, [&]<class W>() -> Status {
    HR_ASSIGN_OR_RETURN(const Weights<W> all, weights<W>(context));
    HR_ASSIGN_OR_RETURN(const Numbers<W> c0, numbers<W>(context, 6, true));
    HR_ASSIGN_OR_RETURN(const Numbers<W> peepholes, numbers<W>(context, 7, true));
    HR_ASSIGN_OR_RETURN(std::vector<W> y, buffer<W>(context, r.output_dims()));
    HR_ASSIGN_OR_RETURN(std::vector<W> last, buffer<W>(context, r.state_dims()));
    std::vector<W> last_c(last.size());
    const int64_t rows = 4 * r.hidden;
    const auto n = static_cast<size_t>(r.hidden);
    const std::vector<W> none(3 * n, 0);
    for (int64_t d = 0; d < r.directions; ++d) {
      const std::vector<W> turned = transposed(all.w.data() + d * rows * r.inputs, rows, r.inputs);
      const Activation* act = r.activations.data() + 3 * d;
      const W* p = peepholes.empty() ? none.data() : peepholes.data() + d * 3 * r.hidden;
      for (int64_t b = 0; !last.empty() && b < r.batch; ++b) {
        std::vector<W> c(n, 0);
        if (!c0.empty()) std::copy_n(c0.data() + r.state_at(d, b), r.hidden, c.begin());
        run_sequence(r, all, d, b, turned, y, last, [&](const std::vector<W>& x, std::vector<W>& h) {
          const std::vector<W> part = recurrent_part(r, all, d, h, 0, rows);
          for (size_t i = 0; i < n; ++i) {
            const W in = act[0](r.clipped(x[i] + part[i] + p[i] * c[i]));
            const W forget =
                input_forget != 0 ? 1 - in : act[0](r.clipped(x[2 * n + i] + part[2 * n + i] + p[2 * n + i] * c[i]));
            const W fresh = act[1](r.clipped(x[3 * n + i] + part[3 * n + i]));
            c[i] = forget * c[i] + in * fresh;
            const W out = act[0](r.clipped(x[n + i] + part[n + i] + p[n + i] * c[i]));
            h[i] = out * act[2](r.clipped(c[i]));
          }
        });
        std::ranges::copy(c, last_c.begin() + r.state_at(d, b));
      }
    }
    HR_RETURN_IF_ERROR(put(context, 0, dtype, r.output_dims(), y));
    HR_RETURN_IF_ERROR(put(context, 1, dtype, r.state_dims(), last));
    return put(context, 2, dtype, r.state_dims(), last_c);
  });
}

// ---- types

Status infer_recurrence(InferContext& context, int64_t gates) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const TensorFact w, context.input(1));
  HR_ASSIGN_OR_RETURN(const TensorFact recurrent, context.input(2));
  HR_RETURN_IF_ERROR(want_rank(x, 3, "X"));
  HR_RETURN_IF_ERROR(want_rank(w, 3, "W"));
  HR_RETURN_IF_ERROR(want_rank(recurrent, 3, "R"));
  HR_ASSIGN_OR_RETURN(const auto dtype, same_dtype(x, w));
  HR_ASSIGN_OR_RETURN(const int64_t layout, context.integer("layout", 0));
  HR_ASSIGN_OR_RETURN(const int64_t directions, directions_of(context));
  const Shape from = x.shape.value_or(unknown_shape(3));
  const Dim &steps = from[layout != 0 ? 1 : 0], &batch = from[layout != 0 ? 0 : 1];
  Dim hidden = recurrent.shape ? (*recurrent.shape)[2] : Dim();
  if (context.has("hidden_size")) {
    HR_ASSIGN_OR_RETURN(const int64_t given, context.integer("hidden_size", 0));
    if (given < 0 || given > kMaxElements / 8) return make_status(Code::malformed, "hidden_size: {}", given);
    HR_ASSIGN_OR_RETURN(hidden, agreed(dim_of(given), hidden, "R's hidden size"));
  }
  const Dim count = dim_of(directions), rows = product(dim_of(gates), hidden);
  if (w.shape) {
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const Shape all, agreed(Shape{count, rows, from[2]}, *w.shape, "W"));
  }
  context.set(0, dtype, layout != 0 ? Shape{batch, steps, count, hidden} : Shape{steps, count, batch, hidden});
  for (int i = 1; i < 3; ++i) context.set(i, dtype, layout != 0 ? Shape{batch, count, hidden} : Shape{count, batch, hidden});
  return {};
}
Status infer_rnn(InferContext& context) { return infer_recurrence(context, 1); }
Status infer_gru(InferContext& context) { return infer_recurrence(context, 3); }
Status infer_lstm(InferContext& context) { return infer_recurrence(context, 4); }

constexpr OpRow kRows[] = {
    {"GRU", 7, gru, infer_gru},
    {"LSTM", 7, lstm, infer_lstm},
    {"RNN", 7, rnn, infer_rnn},
};

}  // namespace

std::span<const OpRow> ops_rnn() { return kRows; }

}  // namespace headrace::onnx

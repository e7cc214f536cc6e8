// Einsum: operands are folded in from left to right; a label that neither the result nor a later operand has is summed away at
// once.
#include <algorithm>
#include <map>

#include "onnx/infer.h"
#include "onnx/ops/arithmetic.h"

namespace headrace::onnx {
namespace {

constexpr int kEllipsis = 128;  // labels of the axes behind "...": kEllipsis + how many come behind it

struct Equation {
  std::vector<std::vector<int>> operands;
  std::vector<int> result;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The labels of one term; `rank` -1: as many axes behind "..." as `ellipsis` says.
Result<std::vector<int>> parse_term(std::string_view term, int rank, int& ellipsis) {
  std::vector<int> labels;
  size_t dots = std::string_view::npos;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.substr(i, 3) != "..." || dots != std::string_view::npos) {
        return error(Code::malformed, "equation: \"{}\" has stray dots", term);
      }
      dots = labels.size();
      i += 2;
    } else if (is_letter(term[i])) {
      labels.push_back(term[i]);
    } else {
      return error(Code::malformed, "equation: want letters, \"...\", \",\" and \"->\", got '{}'", term[i]);
    }
  }
  const int own = rank < 0 ? ellipsis : rank - static_cast<int>(labels.size());
  if (dots == std::string_view::npos) {
    if (rank >= 0 && own != 0) return error(Code::malformed, "equation: \"{}\" stands for a tensor of rank {}", term, rank);
    return labels;
  }
  if (own < 0) return error(Code::malformed, "equation: \"{}\" stands for a tensor of rank {}", term, rank);
  for (int i = 0; i < own; ++i) labels.insert(labels.begin() + static_cast<ptrdiff_t>(dots) + i, kEllipsis + own - 1 - i);
  ellipsis = std::max(ellipsis, own);
  return labels;
}

Result<Equation> parse_equation(std::string text, const std::vector<int>& ranks) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  int ellipsis = 0;
  for (size_t i = 0;; ++i) {
    const size_t comma = left.find(',');
    if (i >= ranks.size()) return error(Code::malformed, "equation: more terms than the {} inputs", ranks.size());
    HR_ASSIGN_OR_RETURN(std::vector<int> labels, parse_term(left.substr(0, comma), ranks[i], ellipsis));
    equation.operands.push_back(std::move(labels));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (equation.operands.size() != ranks.size()) {
    return error(Code::malformed, "equation: {} terms for {} inputs", equation.operands.size(), ranks.size());
  }
  std::map<int, int> uses;
  for (const auto& labels : equation.operands) {
    for (const int label : labels) ++uses[label];
  }
  if (arrow != std::string::npos) {
    HR_ASSIGN_OR_RETURN(equation.result, parse_term(std::string_view(text).substr(arrow + 2), -1, ellipsis));
    for (const int label : equation.result) {
      if (!uses.contains(label) || std::ranges::count(equation.result, label) > 1) {
        return error(Code::malformed, "equation: the result's labels must be different ones of the terms");
      }
    }
  } else {
    // The axes behind "..." first, then the labels that occur once, by the alphabet.
    for (int i = ellipsis; i-- > 0;) equation.result.push_back(kEllipsis + i);
    for (const auto& [label, count] : uses) {
      if (count == 1 && label < kEllipsis) equation.result.push_back(label);
    }
  }
  return equation;
}

template <class W>
struct Term {
  std::vector<int> labels;
  Dims dims;
  std::vector<W> values;

  // For each of `axes` the step through the values: repeated labels walk the diagonal, axes of 1 stand still.
  Dims strides(const std::vector<int>& axes) const {
    const Dims own = contiguous_strides(dims);
    Dims steps(axes.size(), 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      for (size_t k = 0; k < labels.size(); ++k) {
        if (labels[k] == axes[i] && dims[k] != 1) steps[i] += own[k];
      }
    }
    return steps;
  }
};

// The product of two terms with the labels `kept`, summed over all others.
template <class W>
Result<Term<W>> contract(OpContext& context, const Term<W>& a, const Term<W>& b, const std::vector<int>& kept,
                         const std::map<int, int64_t>& lengths) {
  std::vector<int> summed;
  for (const Term<W>* term : {&a, &b}) {
    for (const int label : term->labels) {
      if (std::ranges::find(kept, label) == kept.end() && std::ranges::find(summed, label) == summed.end()) {
        summed.push_back(label);
      }
    }
  }
  Dims summed_dims;
  Term<W> result{.labels = kept, .dims = {}, .values = {}};
  for (const int label : kept) result.dims.push_back(lengths.at(label));
  for (const int label : summed) summed_dims.push_back(lengths.at(label));
  HR_ASSIGN_OR_RETURN(result.values, buffer<W>(context, result.dims));
  auto to = result.values.begin();
  const std::array<Dims, 2> inner = {a.strides(summed), b.strides(summed)};
  walk<2>(result.dims, {a.strides(kept), b.strides(kept)}, [&](const auto& at, const auto& steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i, ++to) {
      const W* x = a.values.data() + at[0] + i * steps[0];
      const W* y = b.values.data() + at[1] + i * steps[1];
      W sum = 0;
      walk<2>(summed_dims, inner, [&](const auto& from, const auto& by, int64_t length) {
        for (int64_t k = 0; k < length; ++k) sum += x[from[0] + k * by[0]] * y[from[1] + k * by[1]];
      });
      *to = sum;
    }
  });
  return result;
}

Status einsum(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const std::string text, context.text("equation", ""));
  std::vector<int> ranks;
  HR_ASSIGN_OR_RETURN(const Tensor* first, context.input(0));
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(i));
    HR_RETURN_IF_ERROR(same_type(*first, *input));
    ranks.push_back(input->rank());
  }
  HR_ASSIGN_OR_RETURN(const Equation equation, parse_equation(text, ranks));
  std::map<int, int64_t> lengths;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Dims& dims = context.value(static_cast<int>(i)).tensor()->dims();
    for (size_t k = 0; k < dims.size(); ++k) {
      int64_t& length = lengths.try_emplace(equation.operands[i][k], dims[k]).first->second;
      if (length != dims[k] && length != 1 && dims[k] != 1) {
        return make_status(Code::malformed, "a label stands for axes of {} and {}", length, dims[k]);
      }
      if (length == 1) length = dims[k];
    }
  }
  return compute_number(first->dtype(), [&]<class W>() -> Status {
    const Term<W> one{.labels = {}, .dims = {}, .values = {W{1}}};
    Term<W> whole = one;
    // Those of the labels, each once, that the result or an operand from `first_later` on has, or one before `before`.
    const auto needed = [&](const std::vector<int>& labels, size_t before, size_t first_later) {
      std::vector<int> kept;
      for (const int label : labels) {
        bool found = std::ranges::find(equation.result, label) != equation.result.end();
        for (size_t k = 0; k < ranks.size(); ++k) {
          if (k >= before && k < first_later) continue;
          found = found || std::ranges::find(equation.operands[k], label) != equation.operands[k].end();
        }
        if (found && std::ranges::find(kept, label) == kept.end()) kept.push_back(label);
      }
      return kept;
    };
    for (size_t i = 0; i < ranks.size(); ++i) {
      HR_ASSIGN_OR_RETURN(const Numbers<W> values, numbers<W>(context, static_cast<int>(i)));
      const Tensor& input = *context.value(static_cast<int>(i)).tensor();
      Term<W> next{equation.operands[i], input.dims(), std::vector<W>(values.data(), values.data() + input.elements())};
      // What this operand alone has goes first, lest it is multiplied with the others' axes.
      if (const std::vector<int> own = needed(next.labels, i, i + 1); own.size() < next.labels.size()) {
        HR_ASSIGN_OR_RETURN(next, contract(context, one, next, own, lengths));
      }
      std::vector<int> kept = equation.result;
      if (i + 1 < ranks.size()) {
        std::vector<int> both = whole.labels;
        both.insert(both.end(), next.labels.begin(), next.labels.end());
        kept = needed(both, 0, i + 1);
      }
      HR_ASSIGN_OR_RETURN(whole, contract(context, whole, next, kept, lengths));
    }
    return put(context, 0, first->dtype(), whole.dims, whole.values);
  });
}

// ---- types

Status infer_einsum(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const std::string text, context.text("equation", ""));
  HR_ASSIGN_OR_RETURN(TensorFact first, context.input(0));
  std::vector<int> ranks;
  std::vector<Shape> shapes;
  for (int i = 0; i < context.num_inputs(); ++i) {
    HR_ASSIGN_OR_RETURN(const TensorFact input, context.input(i));
    HR_ASSIGN_OR_RETURN(first.dtype, same_dtype(first, input));
    if (!input.shape) continue;
    ranks.push_back(static_cast<int>(input.shape->size()));
    shapes.push_back(*input.shape);
  }
  context.set(0, first.dtype, std::nullopt);
  if (static_cast<int>(ranks.size()) != context.num_inputs()) return {};
  HR_ASSIGN_OR_RETURN(const Equation equation, parse_equation(text, ranks));
  std::map<int, Dim> lengths;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t k = 0; k < shapes[i].size(); ++k) {
      Dim& length = lengths.try_emplace(equation.operands[i][k], shapes[i][k]).first->second;
      HR_ASSIGN_OR_RETURN(length, broadcast(length, shapes[i][k]));
    }
  }
  Shape result;
  for (const int label : equation.result) result.push_back(lengths.at(label));
  context.set(0, first.dtype, std::move(result));
  return {};
}

constexpr OpRow kRows[] = {
    {"Einsum", 12, einsum, infer_einsum},
};

}  // namespace

std::span<const OpRow> ops_einsum() { return kRows; }

}  // namespace headrace::onnx

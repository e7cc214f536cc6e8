// Operators on texts: StringConcat, StringNormalizer, StringSplit, RegexFullMatch, TfIdfVectorizer.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "onnx/infer.h"
#include "onnx/ops/elements.h"
#include "onnx/ops/regex.h"
#include "onnx/ops/utf8.h"

namespace headrace::onnx {
namespace {

Result<const Tensor*> strings_input(const OpContext& context, int index) {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, context.input(index));
  if (tensor->dtype() != DType::string)
    return error(Code::malformed, "input {}: want strings, got {}", index, dtype_name(tensor->dtype()));
  return tensor;
}

Status string_concat(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* left, strings_input(context, 0));
  HR_ASSIGN_OR_RETURN(const Tensor* right, strings_input(context, 1));
  HR_ASSIGN_OR_RETURN(const Dims dims, broadcast(left->dims(), right->dims()));
  HR_ASSIGN_OR_RETURN(Tensor* output, make_for(context, 0, *left, dims));
  HR_ASSIGN_OR_RETURN(Tensor ends, make_for(context, *right, dims));
  copy_strided(*output, *left, broadcast_strides(left->dims(), dims));
  copy_strided(ends, *right, broadcast_strides(right->dims(), dims));
  for (int64_t i = 0; i < output->elements(); ++i) output->data<std::string>()[i] += ends.data<std::string>()[i];
  return {};
}

std::string mapped(const std::string& text, char32_t (*map)(char32_t)) {
  std::string result;
  for (const char32_t point : code_points(text)) append_utf8(result, map(point));
  return result;
}

Status string_normalizer(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, strings_input(context, 0));
  HR_ASSIGN_OR_RETURN(const std::string action, context.text("case_change_action", "NONE"));
  HR_ASSIGN_OR_RETURN(const int64_t sensitive, context.integer("is_case_sensitive", 0));
  HR_ASSIGN_OR_RETURN(const std::string locale, context.text("locale", "en_US"));
  HR_ASSIGN_OR_RETURN(std::vector<std::string> stop_words, context.texts("stopwords", {}));
  const bool row = input->rank() == 2 && input->dim(0) == 1;
  if (input->rank() != 1 && !row)
    return make_status(Code::malformed, "want strings [C] or [1, C], got [{}]", fmt::join(input->dims(), ", "));
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    return make_status(Code::malformed, "case_change_action: want NONE, LOWER or UPPER, got \"{}\"", action);
  }
  // The languages whose case mappings are not Unicode's simple ones.
  if (locale.starts_with("tr") || locale.starts_with("az") || locale.starts_with("lt"))
    return make_status(Code::unsupported, "locale \"{}\"", locale);
  const auto folded = [&](const std::string& text) { return sensitive != 0 ? text : mapped(text, to_lower); };
  for (std::string& word : stop_words) word = folded(word);
  std::vector<std::string> kept;
  for (const std::string& text : input->values<std::string>()) {
    if (std::ranges::find(stop_words, folded(text)) != stop_words.end()) continue;
    kept.push_back(action == "NONE" ? text : mapped(text, action == "LOWER" ? to_lower : to_upper));
  }
  if (kept.empty()) kept.emplace_back();
  const int64_t count = std::ssize(kept);
  context.set(0, Tensor::of(row ? Dims{1, count} : Dims{count}, kept));
  return {};
}

constexpr std::string_view kWhite = " \t\n\v\f\r";

// `most`: how often to split; the rest of the text stays in one piece.
std::vector<std::string> split_at(std::string_view text, std::string_view delimiter, int64_t most) {
  std::vector<std::string> parts;
  if (delimiter.empty()) {
    const size_t last = text.find_last_not_of(kWhite);
    text = last == text.npos ? std::string_view() : text.substr(0, last + 1);
  }
  while (true) {
    if (delimiter.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
      if (text.empty()) return parts;
    }
    const size_t at = delimiter.empty() ? text.find_first_of(kWhite) : text.find(delimiter);
    if (at == text.npos || std::ssize(parts) == most) {
      parts.emplace_back(text);
      return parts;
    }
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + (delimiter.empty() ? 1 : delimiter.size()));
  }
}

Status string_split(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, strings_input(context, 0));
  HR_ASSIGN_OR_RETURN(const std::string delimiter, context.text("delimiter", ""));
  HR_ASSIGN_OR_RETURN(const int64_t most, context.integer("maxsplit", std::numeric_limits<int64_t>::max()));
  std::vector<std::vector<std::string>> all;
  std::vector<int64_t> counts;
  int64_t width = 0;
  for (const std::string& text : input->values<std::string>()) {
    all.push_back(split_at(text, delimiter, most));
    counts.push_back(std::ssize(all.back()));
    width = std::max(width, counts.back());
  }
  Dims dims = input->dims();
  dims.push_back(width);
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::string, dims));
  for (size_t i = 0; i < all.size(); ++i)
    std::ranges::move(all[i], output->data<std::string>() + static_cast<int64_t>(i) * width);
  context.set(1, Tensor::of(input->dims(), counts));
  return {};
}

Status regex_full_match(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, strings_input(context, 0));
  if (!context.has("pattern")) return make_status(Code::malformed, "attribute pattern: want a text, got none");
  HR_ASSIGN_OR_RETURN(const std::string pattern, context.text("pattern", ""));
  HR_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(pattern));
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::boolean, input->dims()));
  for (int64_t i = 0; i < input->elements(); ++i) output->data<bool>()[i] = regex.matches_all_of(input->data<std::string>()[i]);
  return {};
}

struct Grams {
  std::vector<int64_t> starts, columns;  // attributes ngram_counts and ngram_indexes
  std::vector<float> weights;
  int64_t shortest = 1, longest = 1, most_skipped = 0;
  std::string mode;

  int64_t num_columns() const { return columns.empty() ? 0 : *std::ranges::max_element(columns) + 1; }
};

Result<Grams> grams_of(const NodeReader& context) {
  Grams grams;
  HR_ASSIGN_OR_RETURN(grams.starts, context.integers("ngram_counts", {}));
  HR_ASSIGN_OR_RETURN(grams.columns, context.integers("ngram_indexes", {}));
  HR_ASSIGN_OR_RETURN(grams.weights, context.numbers("weights", {}));
  HR_ASSIGN_OR_RETURN(grams.shortest, context.integer("min_gram_length", 1));
  HR_ASSIGN_OR_RETURN(grams.longest, context.integer("max_gram_length", 1));
  HR_ASSIGN_OR_RETURN(grams.most_skipped, context.integer("max_skip_count", 0));
  HR_ASSIGN_OR_RETURN(grams.mode, context.text("mode", ""));
  if (grams.mode != "TF" && grams.mode != "IDF" && grams.mode != "TFIDF")
    return error(Code::malformed, "mode: want TF, IDF or TFIDF, got \"{}\"", grams.mode);
  if (grams.shortest < 1 || grams.longest < grams.shortest || grams.longest > std::ssize(grams.starts) ||
      grams.most_skipped < 0) {
    return error(Code::malformed, "n-grams of {} to {} with at most {} skipped, and {} ngram_counts", grams.shortest,
                 grams.longest, grams.most_skipped, grams.starts.size());
  }
  if (!grams.weights.empty() && grams.weights.size() != grams.columns.size()) {
    return error(Code::malformed, "weights: want {}, got {}", grams.columns.size(), grams.weights.size());
  }
  for (const int64_t column : grams.columns) {
    if (column < 0 || column >= kMaxElements)
      return error(Code::malformed, "ngram_indexes: want 0 to {}, got {}", kMaxElements - 1, column);
  }
  return grams;
}

// The n-grams of each length, and their number in the pool.
template <class T>
Result<std::vector<std::map<std::vector<T>, size_t>>> read_pool(const Grams& grams, const std::vector<T>& pool) {
  std::vector<std::map<std::vector<T>, size_t>> by_length(grams.starts.size() + 1);
  size_t number = 0;
  for (size_t i = 0; i < grams.starts.size(); ++i) {
    const int64_t start = grams.starts[i], end = i + 1 < grams.starts.size() ? grams.starts[i + 1] : std::ssize(pool),
                  length = static_cast<int64_t>(i) + 1;
    if (start < 0 || end < start || end > std::ssize(pool) || (end - start) % length != 0) {
      return error(Code::malformed, "ngram_counts: {}-grams from {} to {} of a pool of {}", length, start, end, pool.size());
    }
    for (int64_t at = start; at < end; at += length)
      by_length[i + 1].emplace(std::vector<T>(pool.begin() + at, pool.begin() + at + length), number++);
  }
  if (number != grams.columns.size())
    return error(Code::malformed, "ngram_indexes: want {}, got {}", number, grams.columns.size());
  return by_length;
}

template <class T>
Status count_grams(OpContext& context, const Grams& grams, const std::vector<T>& pool, const std::vector<T>& words,
                   const Tensor& input) {
  HR_ASSIGN_OR_RETURN(const auto known, read_pool(grams, pool));
  const bool batched = input.rank() == 2;
  const int64_t rows = batched ? input.dim(0) : 1, length = input.rank() == 0 ? 1 : input.dim(input.rank() - 1);
  const int64_t columns = grams.num_columns();
  HR_ASSIGN_OR_RETURN(Tensor* output, context.make(0, DType::f32, batched ? Dims{rows, columns} : Dims{columns}));
  for (int64_t row = 0; output->elements() > 0 && row < rows; ++row) {
    std::vector<int64_t> counts(grams.columns.size(), 0);
    for (int64_t size = grams.shortest; size <= std::min(grams.longest, length); ++size) {
      const auto& own = known[static_cast<size_t>(size)];
      // A gram of one word skips nothing.
      const int64_t most = size == 1 ? 0 : std::min(grams.most_skipped, length);
      for (int64_t step = 1; step <= most + 1 && !own.empty(); ++step) {
        for (int64_t start = 0; start + step * (size - 1) < length; ++start) {
          std::vector<T> gram;
          for (int64_t i = 0; i < size; ++i) gram.push_back(words[static_cast<size_t>(row * length + start + i * step)]);
          if (const auto found = own.find(gram); found != own.end()) ++counts[found->second];
        }
      }
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto count = static_cast<float>(grams.mode == "IDF" ? std::min<int64_t>(counts[i], 1) : counts[i]);
      const float weight = grams.mode == "TF" || grams.weights.empty() ? 1 : grams.weights[i];
      output->data<float>()[row * columns + grams.columns[i]] += count * weight;
    }
  }
  return {};
}

Status tf_idf_vectorizer(OpContext& context) {
  HR_ASSIGN_OR_RETURN(const Tensor* input, context.input(0));
  HR_ASSIGN_OR_RETURN(const Grams grams, grams_of(context));
  if (input->rank() > 2) return make_status(Code::malformed, "want [C] or [N, C], got [{}]", fmt::join(input->dims(), ", "));
  if (context.has("pool_strings") == context.has("pool_int64s"))
    return make_status(Code::malformed, "want either pool_strings or pool_int64s");
  if (context.has("pool_strings")) {
    HR_ASSIGN_OR_RETURN(const Tensor* words, strings_input(context, 0));
    HR_ASSIGN_OR_RETURN(const std::vector<std::string> pool, context.texts("pool_strings", {}));
    const auto own = words->values<std::string>();
    return count_grams(context, grams, pool, std::vector<std::string>(own.begin(), own.end()), *input);
  }
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> pool, context.integers("pool_int64s", {}));
  HR_ASSIGN_OR_RETURN(const std::vector<int64_t> words, all_integers(context, 0));
  return count_grams(context, grams, pool, words, *input);
}

// ---- types

Status infer_regex_full_match(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::string, "input 0"));
  return infer_bool(context);
}

Status infer_string_concat(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::string, "input 0"));
  return infer_broadcast(context);
}

Status infer_string_normalizer(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::string, "input 0"));
  HR_ASSIGN_OR_RETURN(const std::vector<std::string> stop_words, context.texts("stopwords", {}));
  std::optional<Shape> shape;
  if (x.shape) {
    if (x.shape->empty() || x.shape->size() > 2)
      return make_status(Code::malformed, "want strings [C] or [1, C], got {}", describe(*x.shape));
    shape = *x.shape;
    // Without words that go, all stay; of none there is still one, an empty one.
    Dim& last = shape->back();
    if (!stop_words.empty()) last = {};
    else if (last.value == 0) last = dim_of(1);
    if (shape->size() == 2) (*shape)[0] = dim_of(1);
  }
  context.set(0, DType::string, std::move(shape));
  return {};
}

Status infer_string_split(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_RETURN_IF_ERROR(want_dtype(x, DType::string, "input 0"));
  std::optional<Shape> shape = x.shape;
  if (shape) shape->emplace_back();
  context.set(0, DType::string, std::move(shape));
  context.set(1, DType::i64, x.shape);
  return {};
}

Status infer_tf_idf_vectorizer(InferContext& context) {
  HR_ASSIGN_OR_RETURN(const TensorFact x, context.input(0));
  HR_ASSIGN_OR_RETURN(const Grams grams, grams_of(context));
  std::optional<Shape> shape;
  if (x.shape) {
    if (x.shape->size() > 2) return make_status(Code::malformed, "want [C] or [N, C], got {}", describe(*x.shape));
    shape = Shape{dim_of(grams.num_columns())};
    if (x.shape->size() == 2) shape->insert(shape->begin(), (*x.shape)[0]);
  }
  context.set(0, DType::f32, std::move(shape));
  return {};
}

constexpr OpRow kRows[] = {
    {"RegexFullMatch", 20, regex_full_match, infer_regex_full_match},
    {"StringConcat", 20, string_concat, infer_string_concat},
    {"StringNormalizer", 10, string_normalizer, infer_string_normalizer},
    {"StringSplit", 20, string_split, infer_string_split},
    {"TfIdfVectorizer", 9, tf_idf_vectorizer, infer_tf_idf_vectorizer},
};

}  // namespace

std::span<const OpRow> ops_strings() { return kRows; }

}  // namespace headrace::onnx

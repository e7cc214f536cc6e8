// Rotary frequencies by kind, in float64:
//   default   Su et al. 2021, arXiv:2104.09864
//   linear    position interpolation: Chen et al. 2023, arXiv:2306.15595
//   dynamic   NTK-aware base, rescaled beyond the trained length
//   yarn      Peng et al. 2023, arXiv:2309.00071 (attention factor as DeepSeek extends it)
//   longrope  Ding et al. 2024, arXiv:2402.13753
//   llama3    Llama 3.1's smooth split by wavelength
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/rope.h"

namespace headrace::ops {
namespace {

constexpr int64_t kMaxRotaryDim = 1 << 16;

struct Input {
  const RopeParameters& p;
  int64_t dim;  // rotary_dim
  int64_t max_pos;
  int64_t seq_len;
};

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

std::vector<double> plain_table(double base, int64_t dim) {
  std::vector<double> table;
  for (int64_t i = 0; i < dim; i += 2) {
    table.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(dim)));
  }
  return table;
}

Status need(bool holds, std::string_view kind, std::string_view what) {
  if (holds) return {};
  return make_status(Code::malformed, "rope_parameters of kind {}: {}", kind, what);
}

Result<RopeTable> linear(const Input& in) {
  HR_RETURN_IF_ERROR(
      need(positive(in.p.factor), "linear", fmt::format("factor must be positive, got {}", in.p.factor)));
  RopeTable table{plain_table(in.p.rope_theta, in.dim), 1.0};
  for (double& f : table.inv_freq) f /= in.p.factor;
  return table;
}

Result<RopeTable> dynamic(const Input& in) {
  const double factor = in.p.factor;
  HR_RETURN_IF_ERROR(
      need(positive(factor), "dynamic", fmt::format("factor must be positive, got {}", factor)));
  HR_RETURN_IF_ERROR(need(in.max_pos > 0, "dynamic", "max_position_embeddings must be given"));
  HR_RETURN_IF_ERROR(need(in.dim > 2, "dynamic", "the rotary dimension must be above 2"));
  const double trained = static_cast<double>(in.max_pos);
  const double length = std::max(static_cast<double>(in.seq_len), trained);
  const double stretch = factor * length / trained - (factor - 1);
  const double dim = static_cast<double>(in.dim);
  return RopeTable{plain_table(in.p.rope_theta * std::pow(stretch, dim / (dim - 2)), in.dim), 1.0};
}

Result<RopeTable> llama3(const Input& in) {
  const RopeParameters& p = in.p;
  HR_RETURN_IF_ERROR(
      need(positive(p.factor), "llama3", fmt::format("factor must be positive, got {}", p.factor)));
  HR_RETURN_IF_ERROR(need(p.original_max_position_embeddings > 0, "llama3",
                          "original_max_position_embeddings must be given"));
  HR_RETURN_IF_ERROR(need(positive(p.low_freq_factor) && std::isfinite(p.high_freq_factor) &&
                              p.high_freq_factor > p.low_freq_factor,
                          "llama3",
                          fmt::format("want 0 < low_freq_factor < high_freq_factor, got {} and {}",
                                      p.low_freq_factor, p.high_freq_factor)));
  const double trained = static_cast<double>(p.original_max_position_embeddings);
  RopeTable table{plain_table(p.rope_theta, in.dim), 1.0};
  for (double& f : table.inv_freq) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength > trained / p.low_freq_factor) {
      f /= p.factor;
    } else if (wavelength >= trained / p.high_freq_factor) {
      const double smooth =
          (trained / wavelength - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
      f = (1 - smooth) * f / p.factor + smooth * f;
    }
  }
  return table;
}

// How much longer than the trained context the table must reach: the file's factor, else from the two
// lengths.
double stretch_factor(const Input& in) {
  if (in.p.factor != 0.0) return in.p.factor;
  return static_cast<double>(in.max_pos) / static_cast<double>(in.p.original_max_position_embeddings);
}

double yarn_mscale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

Result<RopeTable> yarn(const Input& in) {
  const RopeParameters& p = in.p;
  HR_RETURN_IF_ERROR(
      need(p.original_max_position_embeddings > 0, "yarn", "original_max_position_embeddings must be given"));
  const double factor = stretch_factor(in);
  HR_RETURN_IF_ERROR(need(positive(factor), "yarn", fmt::format("factor must be positive, got {}", factor)));
  HR_RETURN_IF_ERROR(need(positive(p.beta_fast) && positive(p.beta_slow), "yarn",
                          "beta_fast and beta_slow must be positive"));
  HR_RETURN_IF_ERROR(need(p.rope_theta != 1.0, "yarn", "rope_theta must not be 1"));
  RopeTable table{plain_table(p.rope_theta, in.dim), p.attention_factor};
  if (table.attention_factor == 0.0) {
    table.attention_factor = p.mscale != 0 && p.mscale_all_dim != 0
                                 ? yarn_mscale(factor, p.mscale) / yarn_mscale(factor, p.mscale_all_dim)
                                 : yarn_mscale(factor, 1.0);
  }
  // The pair that turns `turns` times over the trained context: below `first` frequencies stay, above `last`
  // they are divided, between them a ramp.
  const double dim = static_cast<double>(in.dim);
  const auto pair_of = [&](double turns) {
    return dim *
           std::log(static_cast<double>(p.original_max_position_embeddings) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(p.rope_theta));
  };
  double first = pair_of(p.beta_fast);
  double last = pair_of(p.beta_slow);
  if (p.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dim - 1);
  const double width = last - first == 0 ? 0.001 : last - first;
  for (size_t i = 0; i < table.inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - first) / width, 0.0, 1.0);
    table.inv_freq[i] = table.inv_freq[i] / factor * ramp + table.inv_freq[i] * (1 - ramp);
  }
  return table;
}

Result<RopeTable> longrope(const Input& in) {
  const RopeParameters& p = in.p;
  HR_RETURN_IF_ERROR(need(p.original_max_position_embeddings > 1, "longrope",
                          "original_max_position_embeddings must be given"));
  const double factor = stretch_factor(in);
  HR_RETURN_IF_ERROR(
      need(positive(factor), "longrope", fmt::format("factor must be positive, got {}", factor)));
  RopeTable table{plain_table(p.rope_theta, in.dim), p.attention_factor};
  if (table.attention_factor == 0.0) {
    const double trained = static_cast<double>(p.original_max_position_embeddings);
    table.attention_factor = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(trained));
  }
  const bool is_long = in.seq_len > p.original_max_position_embeddings;
  const std::vector<double>& divisors = is_long ? p.long_factor : p.short_factor;
  HR_RETURN_IF_ERROR(
      need(divisors.size() == table.inv_freq.size(), "longrope",
           fmt::format("{} must have {} entries, got {}", is_long ? "long_factor" : "short_factor",
                       table.inv_freq.size(), divisors.size())));
  for (size_t i = 0; i < divisors.size(); ++i) {
    HR_RETURN_IF_ERROR(need(positive(divisors[i]), "longrope",
                            fmt::format("factor {} must be positive, got {}", i, divisors[i])));
    table.inv_freq[i] /= divisors[i];
  }
  return table;
}

}  // namespace

Result<RopeTable> make_rope_table(const RopeParameters& parameters, int64_t head_dim,
                                  int64_t max_position_embeddings, int64_t seq_len) {
  const std::string& kind = parameters.rope_type;
  if (!positive(parameters.rope_theta)) {
    return error(Code::malformed, "rope_theta must be positive, got {}", parameters.rope_theta);
  }
  const double share = parameters.partial_rotary_factor;
  if (!(positive(share) && share <= 1) || head_dim <= 0 || head_dim > kMaxRotaryDim) {
    return error(Code::malformed,
                 "rope: want head_dim in 1..{} and 0 < partial_rotary_factor <= 1, got {} and {}",
                 kMaxRotaryDim, head_dim, share);
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  if (dim < 2 || dim % 2 != 0)
    return error(Code::malformed, "rope: the rotary dimension must be even, got {}", dim);
  const Input in{parameters, dim, max_position_embeddings, seq_len};
  if (kind == "default") return RopeTable{plain_table(parameters.rope_theta, dim), 1.0};
  if (kind == "linear") return linear(in);
  if (kind == "dynamic") return dynamic(in);
  if (kind == "yarn") return yarn(in);
  if (kind == "longrope") return longrope(in);
  if (kind == "llama3") return llama3(in);
  return error(Code::unsupported,
               "rope_type \"{}\" is not known; want default, linear, dynamic, yarn, longrope or llama3",
               kind);
}

}  // namespace headrace::ops

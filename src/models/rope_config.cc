#include "models/rope_config.h"

#include <algorithm>

namespace headrace::models {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr size_t kMaxFactors = 4096;  // one for each rotated pair of a head

Result<std::vector<double>> read_factors(const io::ConfigMap& config, const std::string& key) {
  const auto found = config.values().find(key);
  if (found == config.values().end()) return std::vector<double>{};
  std::vector<double> factors;
  if (const auto* numbers = std::get_if<std::vector<double>>(&found->second)) {
    factors = *numbers;
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&found->second)) {
    factors.assign(integers->begin(), integers->end());
  } else {
    return error(Code::malformed, "config {}: want a list of numbers", key);
  }
  if (factors.size() > kMaxFactors) {
    return error(Code::malformed, "config {}: want at most {} numbers, got {}", key, kMaxFactors, factors.size());
  }
  for (const double factor : factors) {
    if (!(factor > 0.0 && factor <= kMaxFactor)) {
      return error(Code::malformed, "config {}: want numbers in (0, {}], got {}", key, kMaxFactor, factor);
    }
  }
  return factors;
}

bool has_object(const io::ConfigMap& config, std::string_view prefix) {
  const auto lower = config.values().lower_bound(prefix);
  return lower != config.values().end() && lower->first.starts_with(prefix);
}

Result<ops::RopeParameters> read_rope_parameters(const io::ConfigMap& config, RopeUse use) {
  ops::RopeParameters rope;
  const bool newer = has_object(config, "rope_parameters.");
  if (use == RopeUse::sliding && !newer) {
    HR_ASSIGN_OR_RETURN(rope.rope_theta, config.get_number_or("rope_local_base_freq", rope.rope_theta, 1.0, 1e12));
    return rope;
  }
  // One object for all layers, or one for each kind.
  std::string at = newer ? "rope_parameters." : "rope_scaling.";
  const std::string by_kind = at + (use == RopeUse::full ? "full_attention." : "sliding_attention.");
  if (has_object(config, by_kind)) at = by_kind;

  const auto number = [&](const std::string& key, double& field, double min, double max) -> Status {
    HR_ASSIGN_OR_RETURN(field, config.get_number_or(at + key, field, min, max));
    return {};
  };
  HR_ASSIGN_OR_RETURN(rope.rope_theta, config.get_number_or("rope_theta", rope.rope_theta, 1.0, 1e12));
  HR_RETURN_IF_ERROR(number("rope_theta", rope.rope_theta, 1.0, 1e12));
  HR_ASSIGN_OR_RETURN(rope.partial_rotary_factor, config.get_number_or("partial_rotary_factor", 1.0, 1e-3, 1.0));
  HR_RETURN_IF_ERROR(number("partial_rotary_factor", rope.partial_rotary_factor, 1e-3, 1.0));

  HR_ASSIGN_OR_RETURN(rope.rope_type, config.get_string_or(at + "type", rope.rope_type));  // the older name
  HR_ASSIGN_OR_RETURN(rope.rope_type, config.get_string_or(at + "rope_type", rope.rope_type));
  HR_RETURN_IF_ERROR(number("factor", rope.factor, 1e-3, kMaxFactor));
  HR_RETURN_IF_ERROR(number("low_freq_factor", rope.low_freq_factor, 1e-3, kMaxFactor));
  HR_RETURN_IF_ERROR(number("high_freq_factor", rope.high_freq_factor, 1e-3, kMaxFactor));
  HR_RETURN_IF_ERROR(number("beta_fast", rope.beta_fast, 1e-3, kMaxFactor));
  HR_RETURN_IF_ERROR(number("beta_slow", rope.beta_slow, 1e-3, kMaxFactor));
  HR_RETURN_IF_ERROR(number("attention_factor", rope.attention_factor, 0.0, kMaxFactor));
  HR_RETURN_IF_ERROR(number("mscale", rope.mscale, 0.0, kMaxFactor));
  HR_RETURN_IF_ERROR(number("mscale_all_dim", rope.mscale_all_dim, 0.0, kMaxFactor));
  HR_ASSIGN_OR_RETURN(rope.truncate, config.get_bool_or(at + "truncate", rope.truncate));
  HR_ASSIGN_OR_RETURN(rope.short_factor, read_factors(config, at + "short_factor"));
  HR_ASSIGN_OR_RETURN(rope.long_factor, read_factors(config, at + "long_factor"));

  HR_ASSIGN_OR_RETURN(rope.original_max_position_embeddings,
                      config.get_int_or("original_max_position_embeddings", 0, 1, kMaxPositions));
  HR_ASSIGN_OR_RETURN(rope.original_max_position_embeddings,
                      config.get_int_or(at + "original_max_position_embeddings",
                                        rope.original_max_position_embeddings, 1, kMaxPositions));
  return rope;
}

}  // namespace

Result<ops::RopeTable> read_rope_table(const BuildContext& context, int64_t head_dim, RopeUse use) {
  const io::ConfigMap& config = context.config;
  HR_ASSIGN_OR_RETURN(const ops::RopeParameters parameters, read_rope_parameters(config, use));
  HR_ASSIGN_OR_RETURN(const int64_t trained, config.get_int_or("max_position_embeddings", 2048, 1, kMaxPositions));
  HR_ASSIGN_OR_RETURN(ops::RopeTable table,
                      ops::make_rope_table(parameters, head_dim, trained, context.limits.max_context));
  if (use == RopeUse::sliding) return table;
  HR_ASSIGN_OR_RETURN(const std::vector<double> divisors, read_factors(config, "rope_scaling.freq_factors"));
  if (divisors.empty()) return table;
  if (divisors.size() != table.inv_freq.size()) {
    return error(Code::malformed, "config rope_scaling.freq_factors: want {} numbers, one for each frequency, got {}",
                 table.inv_freq.size(), divisors.size());
  }
  for (size_t i = 0; i < divisors.size(); ++i) table.inv_freq[i] /= divisors[i];
  return table;
}

Result<int64_t> scaled_context(const io::ConfigMap& config, int64_t max_position_embeddings) {
  HR_ASSIGN_OR_RETURN(const ops::RopeParameters rope, read_rope_parameters(config, RopeUse::full));
  const int64_t base = rope.rope_type == "yarn" && rope.original_max_position_embeddings > 0
                           ? rope.original_max_position_embeddings
                           : max_position_embeddings;
  const bool scales = rope.rope_type == "linear" || rope.rope_type == "dynamic" || rope.rope_type == "yarn";
  if (!scales || rope.factor <= 1.0) return max_position_embeddings;
  const double scaled = std::min(static_cast<double>(base) * rope.factor, static_cast<double>(kMaxPositions));
  return std::max(max_position_embeddings, static_cast<int64_t>(scaled));
}

}  // namespace headrace::models

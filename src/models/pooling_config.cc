#include "models/pooling_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace::models {
namespace {

// Transformer, Pooling and perhaps Normalize; anything else would change the vector.
Status read_modules(const std::vector<std::string>& modules, Pooling& pooling) {
  constexpr std::string_view kKnown[] = {"Transformer", "Pooling", "Normalize"};
  if (modules.size() < 2 || modules.size() > std::size(kKnown) || !std::equal(modules.begin(), modules.end(), kKnown)) {
    std::string shown = fmt::format("{}", fmt::join(modules, ", "));
    return make_status(Code::unsupported, "modules.json: want Transformer, Pooling and perhaps Normalize, got {}",
                       shown.substr(0, 200));
  }
  pooling.normalize = modules.size() == 3;
  return {};
}

}  // namespace

Result<Pooling> read_pooling(const io::ConfigMap& config, int64_t max_position_embeddings) {
  Pooling pooling;
  HR_ASSIGN_OR_RETURN(const std::string mode, config.get_string_or("pooling_mode", "mean"));
  HR_ASSIGN_OR_RETURN(pooling.kind, ops::parse_pooling(mode));
  const auto modules = config.values().find("sentence_modules");
  if (modules != config.values().end()) {
    const auto* names = std::get_if<std::vector<std::string>>(&modules->second);
    if (names == nullptr) return error(Code::malformed, "config sentence_modules: want a list of strings");
    HR_RETURN_IF_ERROR(read_modules(*names, pooling));
  }
  HR_ASSIGN_OR_RETURN(const bool lower_case, config.get_bool_or("sentence_lower_case", false));
  if (lower_case) {
    return error(Code::unsupported, "sentence_bert_config.json: do_lower_case is true; only false is supported: such a "
                                    "tokenizer should put texts into lower case itself");
  }
  HR_ASSIGN_OR_RETURN(pooling.max_length,
                      config.get_int_or("max_seq_length", max_position_embeddings, 1, int64_t{1} << 30));
  pooling.max_length = std::min(pooling.max_length, max_position_embeddings);
  return pooling;
}

}  // namespace headrace::models

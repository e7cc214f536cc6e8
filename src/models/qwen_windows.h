#pragma once
// Which layers of a Qwen model see a window: those from max_window_layers on, when use_sliding_window is set.

#include "models/decoder.h"

namespace headrace::models {

inline Status read_qwen_windows(const io::ConfigMap& config, DecoderConfig& decoder) {
  HR_ASSIGN_OR_RETURN(const bool use, config.get_bool_or("use_sliding_window", false));
  std::optional<int64_t> window;
  if (use) {
    HR_ASSIGN_OR_RETURN(window, config.get_int_or("sliding_window", 4096, 1, 1 << 30));
  }
  HR_ASSIGN_OR_RETURN(const int64_t first, config.get_int_or("max_window_layers", 28, 0, 1024));
  return read_windows(config, decoder, window, [](int64_t layer, int64_t from) { return layer >= from; }, first);
}

}  // namespace headrace::models

#pragma once
// Numbers for dummy weights: standard normal, a function of (key, index) alone, so that any part of any
// tensor can be made in any order by any thread. Cheap rather than fine: 4,096 values, equally likely, unit
// variance.

#include <cstdint>
#include <span>
#include <string_view>

namespace headrace::io {

// Different for every (seed, name).
uint64_t random_key(uint64_t seed, std::string_view name);
// out[i] = mean + deviation * normal(key, first + i). `first` must be a multiple of 4. About a nanosecond a
// value.
void fill_normal(uint64_t key, uint64_t first, float mean, float deviation, std::span<float> out);

}  // namespace headrace::io

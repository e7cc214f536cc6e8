#pragma once
// The rotary embedding that a config.json asks for: `rope_parameters` (newer files) or `rope_theta` with `rope_scaling`.

#include "base/status.h"
#include "io/config_map.h"
#include "ops/rope.h"

namespace headrace::models {

// Errors: malformed for a value of the wrong type or out of range. Which kinds exist is make_rope_table's matter.
Result<ops::RopeParameters> read_rope_parameters(const io::ConfigMap& config);

}  // namespace headrace::models

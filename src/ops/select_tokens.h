#pragma once
// select_tokens(token_src i32 [T], last_token i32 state [slots]) -> ids i32 [T]
// token_src >= 0 is an id; otherwise -(slot + 1) reads the token sampled last for that slot, so that a step can be planned
// before the last one has ended.

#include "ops/op.h"

namespace headrace::ops {
extern const Op select_tokens;
}

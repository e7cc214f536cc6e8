#pragma once
// lstm(x f32 [steps, batch, inputs], w f32 [directions, 4 * hidden, inputs], r f32 [directions, 4 * hidden, hidden],
//      bias f32 [directions, 8 * hidden], h0 f32 [directions, batch, hidden], c0 f32 [directions, batch, hidden], lengths i32 [batch]?)
//   -> y f32 [steps, directions, batch, hidden], h f32 [directions, batch, hidden], c f32 [directions, batch, hidden]
// A layer of long short-term memory (Hochreiter & Schmidhuber 1997, with forget gates), as ONNX has it. Rows of w and r are the gates
// input, output, forget and cell, in this order; bias is that of w, then that of r. Of step x with the state h, c before it:
//   i, o, f = sigmoid(w x + r h + bias)    g = tanh(w x + r h + bias)    c' = f c + i g    h' = o tanh(c')
// A reversed direction starts at a sequence's last step. With `lengths` row b has lengths[b] steps: y is 0 behind them, h and c are those
// after the last of them. A length outside [0, steps] is an error of the step.

#include "ops/op.h"

namespace headrace::ops {

struct LstmAttrs {
  enum class Direction : uint8_t { forward, reverse, bidirectional };  // bidirectional: forward, then reverse
  Direction direction = Direction::forward;
  bool lengths = false;
  bool operator==(const LstmAttrs&) const = default;
  std::string describe() const;
  int directions() const { return direction == Direction::bidirectional ? 2 : 1; }
  bool backward(int64_t which) const { return which == 1 || direction == Direction::reverse; }
};
extern const Op lstm;

}  // namespace headrace::ops

// Recurrent layers.
#include <algorithm>

#include "onnx/lower.h"
#include "ops/lstm.h"

namespace headrace::onnx {
namespace {

using Direction = ops::LstmAttrs::Direction;

std::optional<Direction> direction_of(const LowerContext& context) {
  const Result<std::string> direction = context.text("direction", "forward");
  if (!direction) return std::nullopt;
  if (*direction == "forward") return Direction::forward;
  if (*direction == "reverse") return Direction::reverse;
  if (*direction == "bidirectional") return Direction::bidirectional;
  return std::nullopt;
}

// The functions of the gates are the usual ones, named or not.
bool usual_activations(const LowerContext& context, int directions) {
  static const std::vector<std::string> kUsual = {"Sigmoid", "Tanh", "Tanh"};
  const Result<std::vector<std::string>> names = context.texts("activations", {});
  if (!names) return false;
  for (size_t i = 0; i < names->size(); ++i) {
    if ((*names)[i] != kUsual[i % kUsual.size()]) return false;
  }
  return names->empty() || names->size() == kUsual.size() * static_cast<size_t>(directions);
}

// An input, or zeros of those dims where it is left out.
ValueId input_or_zeros(LowerContext& context, int index, const Dims& dims) {
  if (context.has_input(index)) return context.input(index);
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return context.constant_f32(dims, std::vector<double>(static_cast<size_t>(count), 0.0));
}

bool lstm(LowerContext& context) {
  constexpr int kX = 0, kW = 1, kR = 2, kBias = 3, kLengths = 4, kH = 5, kC = 6, kPeepholes = 7;
  const std::optional<Direction> direction = direction_of(context);
  const Result<int64_t> layout = context.integer("layout", 0), coupled = context.integer("input_forget", 0);
  const Result<float> clip = context.number("clip", 0.0f);
  if (!direction || !layout || !coupled || !clip || !context.all_f32_but(kLengths)) return false;
  if (context.rank(kX) != 3 || context.rank(kR) != 3) return false;
  const ops::LstmAttrs attrs{*direction, context.has_input(kLengths)};
  if (context.has_input(kPeepholes)) return context.decline("peepholes");
  if (*coupled != 0) return context.decline("input_forget");
  if (*clip != 0) return context.decline("clip");
  if (!usual_activations(context, attrs.directions())) return context.decline("other activations than sigmoid and tanh");
  const bool batch_first = *layout != 0;
  const int64_t batch = context.dims(kX)[batch_first ? 0 : 1], hidden = context.dims(kR)[2];
  const Result<int64_t> hidden_size = context.integer("hidden_size", hidden);
  if (!hidden_size || *hidden_size != hidden) return false;  // the host says what is wrong

  const int64_t directions = attrs.directions();
  const auto turned = [&](ValueId value) { return batch_first && value != kNone ? context.transpose(value, {1, 0, 2}) : value; };
  const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  std::vector<ValueId> inputs = {turned(context.input(kX)), context.input(kW), context.input(kR),
                                 input_or_zeros(context, kBias, {directions, 8 * hidden}),
                                 turned(input_or_zeros(context, kH, state)), turned(input_or_zeros(context, kC, state))};
  if (attrs.lengths) inputs.push_back(context.input(kLengths));
  const std::vector<ValueId> made = context.emit(ops::lstm, attrs, std::move(inputs), 3);
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (!context.wants_output(i)) continue;
    if (i > 0) context.set(i, turned(made[static_cast<size_t>(i)]));
    else context.set(i, batch_first && made[0] != kNone ? context.transpose(made[0], {2, 0, 1, 3}) : made[0]);
  }
  return true;
}

constexpr LowerRow kRows[] = {
    {"LSTM", lstm},
};

}  // namespace

std::span<const LowerRow> lower_rnn();
std::span<const LowerRow> lower_rnn() { return kRows; }

}  // namespace headrace::onnx

// Ops that move elements. A transpose is no node: it names another order of the same array.
#include <algorithm>
#include <optional>
#include <utility>

#include "onnx/export/writer.h"
#include "ops/movement.h"
#include "ops/rows.h"

namespace headrace::onnx {
namespace {

using ops::PadAttrs;

Status write_transpose(NodeWriter& node) {
  node.model().alias(node.output_value(0), node.value(0), node.attrs<ops::TransposeAttrs>().perm);
  return {};
}

// Neighbouring axes of both sides that hold the same elements: a reshape is one of each part by itself.
struct Part {
  Order from, to;
};
std::vector<Part> parts_of(const Dims& from, const Dims& to) {
  std::vector<Part> parts;
  size_t i = 0, k = 0;
  while (i < from.size() || k < to.size()) {
    Part part;
    int64_t left = 1, right = 1;
    const auto take_left = [&] { left *= from[i], part.from.push_back(static_cast<int32_t>(i++)); };
    const auto take_right = [&] { right *= to[k], part.to.push_back(static_cast<int32_t>(k++)); };
    if (i < from.size()) take_left();
    if (k < to.size()) take_right();
    while (left != right) {
      if (left < right) take_left();
      else take_right();
    }
    while (i < from.size() && from[i] == 1) take_left();
    while (k < to.size() && to[k] == 1) take_right();
    parts.push_back(std::move(part));
  }
  return parts;
}

// The order in which the result stands when an input that stands in `order` is reshaped; none when that would tear a part apart.
std::optional<Order> reshaped_order(const Dims& from, const Dims& to, const Order& order) {
  std::vector<std::pair<int64_t, const Part*>> placed;
  const std::vector<Part> parts = parts_of(from, to);
  const Order moved = moved_axes(from, order);
  for (const Part& part : parts) {
    int64_t first = -1, last = -1;
    for (const int32_t axis : part.from) {
      if (from[static_cast<size_t>(axis)] == 1) continue;
      const int64_t at = axis_in(moved, axis);
      if (first >= 0 && at != last + 1) return std::nullopt;
      if (first < 0) first = at;
      last = at;
    }
    placed.emplace_back(first, &part);  // a part of one element may stand anywhere: in front
  }
  std::ranges::stable_sort(placed, {}, &std::pair<int64_t, const Part*>::first);
  Order result;
  for (const auto& [first, part] : placed) result.insert(result.end(), part->to.begin(), part->to.end());
  return result;
}

Status write_reshape(NodeWriter& node) {
  const Dims from = node.dims(0), to = node.output_dims();
  Order order = plain_order(from.size());
  std::optional<Order> result = plain_order(to.size());
  const std::vector<Order> there = node.model().orders(node.value(0));
  if (std::ranges::find(there, order) == there.end() && std::ranges::find(from, 0) == from.end()) {
    for (const Order& candidate : there) {
      const std::optional<Order> kept = reshaped_order(from, to, candidate);
      if (!kept) continue;
      order = candidate, result = kept;
      break;
    }
  }
  const Wire x = node.input(0, order);
  const Wire y = node.reshape(x, ordered(from, order), ordered(to, *result));
  // The same wire under the same dims is two values of the graph: one of them may be an output.
  node.set(0, *result, y == x ? node.add("Identity", {x}) : y);
  return {};
}

Status write_concat(NodeWriter& node) {
  const Order order = node.best_order();
  std::vector<Wire> inputs;
  for (const ValueId value : node.node().inputs) inputs.push_back(node.model().spell(value, order));
  const int64_t axis = axis_in(order, node.attrs<ops::ConcatAttrs>().axis);
  node.set(0, order, node.add("Concat", std::move(inputs), {{"axis", attribute(axis)}}));
  return {};
}

Status write_slice(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::SliceAttrs>();
  const Dims dims = node.dims(0);
  const Order order = node.best_order();
  std::vector<int64_t> starts, ends, axes, steps;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t begin = attrs.begin[axis], step = attrs.step[axis], size = attrs.size[axis];
    if (size == dims[axis] && (size < 2 || step == 1)) continue;
    axes.push_back(axis_in(order, static_cast<int64_t>(axis)));
    // One past the last element. Before the first one: counted from the end, as -1 would be the last.
    const int64_t past = begin + (size - 1) * step + (step > 0 ? 1 : -1);
    starts.push_back(size == 0 ? 0 : begin);
    ends.push_back(size == 0 ? 0 : past < 0 ? -dims[axis] - 1 : past);
    steps.push_back(size == 0 ? 1 : step);
  }
  const Wire x = node.input(0, order);
  if (axes.empty()) {
    node.set(0, order, node.add("Identity", {x}));
    return {};
  }
  std::vector<Wire> inputs = {x, node.integers(starts, "starts"), node.integers(ends, "ends"), node.integers(axes, "axes")};
  if (std::ranges::any_of(steps, [](int64_t step) { return step != 1; })) inputs.push_back(node.integers(steps, "steps"));
  node.set(0, order, node.add("Slice", std::move(inputs)));
  return {};
}

Status write_slice_columns(NodeWriter& node) {
  const auto& attrs = node.attrs<ops::SliceColumnsAttrs>();
  const int64_t axis = static_cast<int64_t>(node.dims(0).size()) - 1;
  node.set(0, node.add("Slice", {node.input(0), node.integers({attrs.begin}, "starts"), node.integers({attrs.end}, "ends"),
                                 node.integers({axis}, "axes")}));
  return {};
}

const char* name_of(PadAttrs::Mode mode) {
  switch (mode) {
    case PadAttrs::Mode::constant: return "constant";
    case PadAttrs::Mode::edge: return "edge";
    case PadAttrs::Mode::reflect: return "reflect";
    case PadAttrs::Mode::wrap: return "wrap";
  }
  return "";
}

Status write_pad(NodeWriter& node) {
  const auto& attrs = node.attrs<PadAttrs>();
  const Order order = node.best_order();
  std::vector<int64_t> pads = ordered(attrs.before, order);
  const std::vector<int64_t> after = ordered(attrs.after, order);
  pads.insert(pads.end(), after.begin(), after.end());
  std::vector<Wire> inputs = {node.input(0, order), node.integers(pads, "pads")};
  if (attrs.mode == PadAttrs::Mode::constant && attrs.value != 0) {
    Tensor value(node.dtype(0), {});
    const bool known = dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool>(
        value.dtype(), [&]<class T>() {
          if constexpr (std::is_same_v<T, f16>) *value.data<T>() = to_f16(static_cast<float>(attrs.value));
          else if constexpr (std::is_same_v<T, bf16>) *value.data<T>() = to_bf16(static_cast<float>(attrs.value));
          else *value.data<T>() = static_cast<T>(attrs.value);
        });
    if (!known) return make_status(Code::unsupported, "padded with {}: {} has no numbers", attrs.value, dtype_name(value.dtype()));
    inputs.push_back(node.model().constant(std::move(value), node.node().name + ".value"));
  }
  Attributes attributes;
  if (attrs.mode != PadAttrs::Mode::constant) attributes["mode"] = attribute(std::string(name_of(attrs.mode)));
  node.set(0, order, node.add("Pad", std::move(inputs), std::move(attributes)));
  return {};
}

Status write_expand(NodeWriter& node) {
  const Dims to = node.output_dims();
  const Order order = node.best_order();
  const Wire x = node.model().spell_aligned(node.value(0), order);
  node.set(0, order, node.add("Expand", {x, node.integers(ordered(to, order), "dims")}));
  return {};
}

Status write_gather(NodeWriter& node) {
  node.set(0, node.add("Gather", {node.input(0), node.input(1)}, {{"axis", attribute(int64_t{node.attrs<ops::GatherAttrs>().axis})}}));
  return {};
}

constexpr ExportRow kRows[] = {{&ops::reshape, write_reshape}, {&ops::transpose, write_transpose}, {&ops::concat, write_concat},
                               {&ops::slice, write_slice},     {&ops::pad, write_pad},             {&ops::expand, write_expand},
                               {&ops::gather, write_gather},   {&ops::slice_columns, write_slice_columns}};

}  // namespace

std::span<const ExportRow> export_movement() { return kRows; }

}  // namespace headrace::onnx

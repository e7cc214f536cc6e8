#include "ops/add_q8.h"

#include "ops/shapes.h"

namespace headrace::ops {

std::string AddQ8Attrs::describe() const {
  return fmt::format("{} + {}{} -> {}", a.describe(), b.describe(), activation ? " " + activation->describe() : "", y.describe());
}

bool add_q8_takes(const UnaryAttrs& activation) { return activation.kind == UnaryKind::relu || activation.kind == UnaryKind::clip; }

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& add = attrs.as<AddQ8Attrs>();
  InputCheck check("add_q8", inputs, {"a", "b"});
  if (!check.ok()) return check.outputs({});
  for (const Quantization* q : {&add.a, &add.b, &add.y}) {
    const std::string wrong = wrong_quantization(*q);
    check.require(wrong.empty(), wrong);
  }
  check.tensor(0, add.a.dtype).tensor(1, add.b.dtype);
  if (!check.ok()) return check.outputs({});
  check.require(inputs[0].shape == inputs[1].shape,
                fmt::format("want one shape, got {} and {}", shape_text(inputs[0].shape), shape_text(inputs[1].shape)));
  if (add.activation) {
    const std::string_view wrong = wrong_parameters(*add.activation);
    check.require(wrong.empty(), wrong);
    check.require(add_q8_takes(*add.activation), fmt::format("{}: want relu or clip", add.activation->describe()));
  }
  return check.outputs({ValueType::tensor(add.y.dtype, inputs[0].shape)});
}

Cost cost(const NodeSizes& sizes) {
  return {.flops = 8.0 * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& add = attrs.as<AddQ8Attrs>();
  const auto number = [](double q, const Quantization& of) { return (q - of.zero) * static_cast<double>(of.scale); };
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    const double sum = number(inputs[0].tensor.values[i], add.a) + number(inputs[1].tensor.values[i], add.b);
    outputs[0].values[i] = add.y.quantize(add.activation ? apply_unary(*add.activation, sum) : sum);
  }
}

std::vector<OpCase> cases() {
  const Quantization u8{DType::u8, 0.02f, 120}, i8{DType::i8, 0.03f, -5}, y{DType::u8, 0.041f, 17};
  std::vector<OpCase> cases;
  const auto add = [&](std::string name, const AddQ8Attrs& attrs, std::vector<int64_t> dims, bool bench = false) {
    const CaseInput a{.dtype = attrs.a.dtype, .dims = dims, .scale = attrs.a.dtype == DType::u8 ? 256.0 : 128.0};
    const CaseInput b{.dtype = attrs.b.dtype, .dims = dims, .scale = attrs.b.dtype == DType::u8 ? 256.0 : 128.0};
    cases.push_back({.name = std::move(name), .attrs = attrs, .inputs = {a, b}, .bench = bench});
  };
  const UnaryAttrs relu{UnaryKind::relu};
  add("scalar", {u8, u8, y, {}}, {});
  add("empty", {u8, u8, y, {}}, {0, 3});
  add("unsigned", {u8, u8, y, relu}, {3, 5, 37});
  add("signed", {i8, i8, i8, {}}, {7, 19});
  add("mixed", {u8, i8, y, {}}, {2, 300});
  add("mixed_to_i8", {i8, u8, i8, UnaryAttrs{UnaryKind::relu}}, {2, 300});
  add("clip", {u8, u8, y, UnaryAttrs{UnaryKind::clip, 0.0f, 1.5f}}, {1, 4, 5, 16});
  add("resnet_residual", {u8, u8, y, relu}, {8, 56, 56, 256}, true);
  return cases;
}

}  // namespace

const Op add_q8{
    .name = "add_q8",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = [](std::span<const ValueType>, const Attrs&) { return Tolerance{1, 0}; },
    .cases = cases,
};

}  // namespace headrace::ops

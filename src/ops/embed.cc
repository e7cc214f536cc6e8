#include "ops/embed.h"

namespace headrace::ops {
namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  if (inputs.size() != 2) return error(Code::invalid_argument, "embed: want 2 inputs, got {}", inputs.size());
  const ValueType& ids = inputs[0];
  const ValueType& table = inputs[1];
  if (ids.kind != ValueType::Kind::tensor || ids.dtype != DType::i32 || ids.shape.rank() != 1) {
    return error(Code::invalid_argument, "embed: ids: want a tensor i32 [tokens], got rank {} of {}", ids.shape.rank(),
                 dtype_name(ids.dtype));
  }
  if (table.kind != ValueType::Kind::weight || table.shape.rank() != 2 || !table.shape[1].is_constant()) {
    return error(Code::invalid_argument, "embed: table: want a weight [vocabulary, features], got rank {}",
                 table.shape.rank());
  }
  return std::vector{ValueType::tensor(DType::f32, {ids.shape[0], table.shape[1]})};
}

// A step reads the rows it needs, not the table.
Cost cost(const NodeSizes& sizes) {
  const double elements = static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings));
  const FormatInfo& info = format_info(sizes.inputs[1].format);
  const double row_bytes = static_cast<double>(info.block_bytes) / info.block_elements;
  return {elements, elements * (row_bytes + sizeof(float))};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& ids = inputs[0].tensor;
  const HostTensor& table = inputs[1].tensor;
  const double scale = attrs.as<EmbedAttrs>().scale;
  const int64_t columns = table.dims[1];
  for (size_t t = 0; t < ids.values.size(); ++t) {
    const int64_t id = static_cast<int64_t>(ids.values[t]);
    const bool known = id >= 0 && id < table.dims[0];
    for (int64_t i = 0; i < columns; ++i) {
      outputs[0].values[t * columns + i] = known ? scale * table.values[id * columns + i] : 0.0;
    }
  }
}

// Decoding is exact; scaling rounds once.
Tolerance tolerance(std::span<const ValueType>, const Attrs&) { return {0, 0x1p-24}; }

OpCase make_case(std::string name, Format format, int64_t vocabulary, int64_t columns, std::vector<double> ids,
                 float scale = 1.0f) {
  CaseInput tokens{.dtype = DType::i32, .dims = {static_cast<int64_t>(ids.size())}, .values = std::move(ids)};
  CaseInput table{.kind = ValueType::Kind::weight, .format = format, .dims = {vocabulary, columns}};
  return {std::move(name), EmbedAttrs{scale}, {std::move(tokens), std::move(table)}};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> out;
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0, Format::q4_1, Format::q5_0,
                              Format::q5_1, Format::q4_k, Format::q6_k}) {
    const std::string name(format_info(format).name);
    const int64_t columns = format_info(format).block_elements == 1 ? 33 : 256;
    out.push_back(make_case(name, format, 37, columns, {0, 15, 16, 36, 36, 1}));
    out.push_back(make_case(name + " scaled", format, 16, columns, {3, 0}, 24.0f));
  }
  out.push_back(make_case("ids outside the table", Format::q4_1, 20, 64, {-1, 19, 20, 31, 2147483647, -2147483648.0}));
  out.push_back(make_case("no tokens", Format::q4_1, 20, 64, {}));
  for (const int count : {1, 512}) {
    std::vector<double> ids;
    for (int i = 0; i < count; ++i) ids.push_back(i * 7919 % 49152);
    out.push_back(make_case(fmt::format("q4_1 T={} 49152x576", count), Format::q4_1, 49152, 576, std::move(ids)));
    out.back().bench = true;
    out.back().phase = count == 1 ? "decode" : "prefill";
  }
  return out;
}

}  // namespace

std::string EmbedAttrs::describe() const { return scale == 1.0f ? std::string() : fmt::format("scale={}", scale); }

constinit const Op embed = {
    .name = "embed",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops

// Models as files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include <onnx/onnx-data.pb.h>

#include "onnx/file.h"
#include "onnx/tensor_proto.h"

namespace headrace::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TypeProto;

void write_type(const Type& type, TypeProto& proto) {
  switch (type.kind) {
    case Type::Kind::unknown: return;
    case Type::Kind::sequence: return write_type(*type.element, *proto.mutable_sequence_type()->mutable_elem_type());
    case Type::Kind::optional: return write_type(*type.element, *proto.mutable_optional_type()->mutable_elem_type());
    case Type::Kind::tensor: break;
  }
  proto.mutable_tensor_type()->set_elem_type(dtype_number(type.dtype));
  if (!type.shape) return;
  auto& shape = *proto.mutable_tensor_type()->mutable_shape();
  for (const Type::Dim& dim : *type.shape) {
    auto& written = *shape.add_dim();
    if (dim.value >= 0) written.set_dim_value(dim.value);
    else if (!dim.symbol.empty()) written.set_dim_param(dim.symbol);
  }
}

void write_graph(const Graph& graph, GraphProto& proto);

void write_attribute(const std::string& name, const Attribute& attribute, AttributeProto& proto) {
  proto.set_name(name);
  if (!attribute.reference.empty()) proto.set_ref_attr_name(attribute.reference);
  const bool value = attribute.reference.empty();
  switch (attribute.kind) {
    case Attribute::Kind::number:
      proto.set_type(AttributeProto::FLOAT);
      if (value) proto.set_f(attribute.number);
      break;
    case Attribute::Kind::integer:
      proto.set_type(AttributeProto::INT);
      if (value) proto.set_i(attribute.integer);
      break;
    case Attribute::Kind::text:
      proto.set_type(AttributeProto::STRING);
      if (value) proto.set_s(attribute.text);
      break;
    case Attribute::Kind::tensor:
      proto.set_type(AttributeProto::TENSOR);
      if (value) write_tensor(attribute.tensors.front(), *proto.mutable_t());
      break;
    case Attribute::Kind::graph:
      proto.set_type(AttributeProto::GRAPH);
      if (value) write_graph(*attribute.graphs.front(), *proto.mutable_g());
      break;
    case Attribute::Kind::type:
      proto.set_type(AttributeProto::TYPE_PROTO);
      if (value) write_type(attribute.type, *proto.mutable_tp());
      break;
    case Attribute::Kind::numbers:
      proto.set_type(AttributeProto::FLOATS);
      proto.mutable_floats()->Add(attribute.numbers.begin(), attribute.numbers.end());
      break;
    case Attribute::Kind::integers:
      proto.set_type(AttributeProto::INTS);
      proto.mutable_ints()->Add(attribute.integers.begin(), attribute.integers.end());
      break;
    case Attribute::Kind::texts:
      proto.set_type(AttributeProto::STRINGS);
      for (const std::string& text : attribute.texts) proto.add_strings(text);
      break;
    case Attribute::Kind::tensors:
      proto.set_type(AttributeProto::TENSORS);
      for (const Tensor& tensor : attribute.tensors) write_tensor(tensor, *proto.add_tensors());
      break;
    case Attribute::Kind::graphs:
      proto.set_type(AttributeProto::GRAPHS);
      for (const auto& graph : attribute.graphs) write_graph(*graph, *proto.add_graphs());
      break;
  }
}

void write_nodes(const std::vector<Node>& nodes, google::protobuf::RepeatedPtrField<NodeProto>& protos) {
  for (const Node& node : nodes) {
    NodeProto& proto = *protos.Add();
    if (!node.name.empty()) proto.set_name(node.name);
    proto.set_op_type(node.op);
    if (!node.domain.empty()) proto.set_domain(node.domain);
    if (!node.overload.empty()) proto.set_overload(node.overload);
    for (const std::string& input : node.inputs) proto.add_input(input);
    for (const std::string& output : node.outputs) proto.add_output(output);
    for (const auto& [name, attribute] : node.attributes) write_attribute(name, attribute, *proto.add_attribute());
  }
}

void write_graph(const Graph& graph, GraphProto& proto) {
  proto.set_name(graph.name);
  write_nodes(graph.nodes, *proto.mutable_node());
  const auto write_values = [](const std::vector<ValueInfo>& values, auto& protos) {
    for (const ValueInfo& value : values) {
      auto& written = *protos.Add();
      written.set_name(value.name);
      if (value.type.kind != Type::Kind::unknown) write_type(value.type, *written.mutable_type());
    }
  };
  write_values(graph.inputs, *proto.mutable_input());
  write_values(graph.outputs, *proto.mutable_output());
  write_values(graph.values, *proto.mutable_value_info());
  for (const auto& [name, tensor] : graph.initializers) {
    auto& written = *proto.add_initializer();
    written.set_name(name);
    write_tensor(tensor, written);
  }
}

template <class Protos>
void write_opsets(const std::map<std::string, int64_t>& opsets, Protos& protos) {
  for (const auto& [domain, version] : opsets) {
    auto& proto = *protos.Add();
    proto.set_domain(domain);
    proto.set_version(version);
  }
}

void write_function(const Function& function, ::onnx::FunctionProto& proto) {
  proto.set_name(function.name);
  proto.set_domain(function.domain);
  if (!function.overload.empty()) proto.set_overload(function.overload);
  for (const std::string& input : function.inputs) proto.add_input(input);
  for (const std::string& output : function.outputs) proto.add_output(output);
  for (const std::string& attribute : function.attributes) proto.add_attribute(attribute);
  for (const auto& [name, attribute] : function.defaults) write_attribute(name, attribute, *proto.add_attribute_proto());
  write_nodes(function.nodes, *proto.mutable_node());
  write_opsets(function.opsets, *proto.mutable_opset_import());
}

// The bytes of a graph's own tensors: what makes a model too large before anything else does.
uint64_t initializer_bytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers) bytes += tensor.bytes();
  return bytes;
}

constexpr uint64_t kMaxBytes = static_cast<uint64_t>(std::numeric_limits<int>::max());  // protobuf's own

void write_sequence(const Sequence& sequence, ::onnx::SequenceProto& proto) {
  proto.set_elem_type(::onnx::SequenceProto::TENSOR);
  for (const Tensor& tensor : sequence.tensors) write_tensor(tensor, *proto.add_tensor_values());
}

template <class Message>
Result<std::string> serialize(const Message& message) {
  const uint64_t bytes = message.ByteSizeLong();
  if (bytes > kMaxBytes) return error(Code::resource_exhausted, "{} bytes; protobuf holds {} at most", bytes, kMaxBytes);
  return message.SerializeAsString();
}

}  // namespace

Result<std::string> value_bytes(const Value& value) {
  if (const Sequence* sequence = value.sequence()) {
    ::onnx::SequenceProto proto;
    write_sequence(*sequence, proto);
    return serialize(proto);
  }
  if (const Optional* optional = value.optional()) {
    ::onnx::OptionalProto proto;
    const Value* held = optional->value.get();
    proto.set_elem_type(::onnx::OptionalProto::UNDEFINED);
    if (held != nullptr && held->sequence() != nullptr) {
      proto.set_elem_type(::onnx::OptionalProto::SEQUENCE);
      write_sequence(*held->sequence(), *proto.mutable_sequence_value());
    } else if (held != nullptr && held->tensor() != nullptr) {
      proto.set_elem_type(::onnx::OptionalProto::TENSOR);
      write_tensor(*held->tensor(), *proto.mutable_tensor_value());
    }
    return serialize(proto);
  }
  ::onnx::TensorProto proto;
  if (const Tensor* tensor = value.tensor()) write_tensor(*tensor, proto);
  return serialize(proto);
}

Status write_model(const Model& model, const std::string& path) {
  ::onnx::ModelProto proto;
  uint64_t bytes = initializer_bytes(model.graph);
  if (bytes <= 2 * kMaxBytes) {  // codes below a byte take less in a file than in memory
    proto.set_ir_version(model.ir_version);
    if (!model.producer.empty()) proto.set_producer_name(model.producer);
    write_opsets(model.opsets, *proto.mutable_opset_import());
    write_graph(model.graph, *proto.mutable_graph());
    for (const Function& function : model.functions) write_function(function, *proto.add_functions());
    for (const auto& [key, value] : model.metadata) {
      auto& entry = *proto.add_metadata_props();
      entry.set_key(key);
      entry.set_value(value);
    }
    bytes = proto.ByteSizeLong();
  }
  if (bytes > kMaxBytes) return make_status(Code::resource_exhausted, "{}: {} bytes; an ONNX file holds {} at most", path, bytes, kMaxBytes);
  // Whole or not at all: a reader never sees half a model.
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  const bool written = file && proto.SerializeToOstream(&file) && file.flush();
  file.close();
  std::error_code failed;
  if (written) std::filesystem::rename(part, path, failed);
  if (!written || failed) {
    std::remove(part.c_str());
    return make_status(Code::unavailable, "{}: cannot be written{}{}", path, failed ? ": " : "", failed ? failed.message() : "");
  }
  return {};
}

}  // namespace headrace::onnx

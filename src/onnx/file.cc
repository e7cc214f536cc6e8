// Files as protobuf sees them, turned into plain structs. What the structs must keep beyond their types is in check.cc.
#include "onnx/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx-data.pb.h>

#include "io/mapped_file.h"
#include "io/shown_name.h"
#include "onnx/tensor_proto.h"
#include "onnx/wire.h"

namespace headrace::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::OptionalProto;
using ::onnx::SequenceProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;

constexpr int kMaxTypeDepth = 8;  // sequences and optionals within each other
constexpr int64_t kMinIr = 3, kMaxIr = ::onnx::IR_VERSION;

// A graph within a graph is three messages deeper: node, attribute, graph.
constexpr int kMaxMessageDepth = 3 * kMaxGraphDepth + 16;

// A model may hold this many messages and strings, and one more for every eight bytes of its file: real ones are far below, while a
// message of two bytes takes hundreds in memory.
constexpr uint64_t kFreeEntries = uint64_t{1} << 18;
constexpr uint64_t kBytesPerEntry = 8;

std::string domain_of(const std::string& written) { return written == "ai.onnx" ? "" : written; }

constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

Status too_large(size_t bytes) {
  return make_status(Code::resource_exhausted, "{} bytes: protobuf reads 2 GiB at most; larger tensors lie in external data", bytes);
}

// `file_bytes`: of the file that `bytes` are of, where they are not all of it.
template <class Message>
Status parse(std::span<const std::byte> bytes, Message& message, size_t file_bytes = 0) {
  if (bytes.size() > kMaxMessageBytes) return too_large(bytes.size());
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxMessageDepth);
  if (!message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return make_status(Code::malformed, "not an ONNX file: {} bytes that are no protobuf message (cut short, damaged, or nested deeper than "
                       "{} graphs)", std::max(bytes.size(), file_bytes), kMaxGraphDepth);
  }
  return {};
}

Result<Type> read_type(const TypeProto& proto, int depth) {
  if (depth > kMaxTypeDepth) return error(Code::resource_exhausted, "a type nested deeper than {}", kMaxTypeDepth);
  Type type;
  const auto read_element = [&](Type::Kind kind, const TypeProto& element) -> Status {
    type.kind = kind;
    HR_ASSIGN_OR_RETURN(Type inner, read_type(element, depth + 1));
    type.element = std::make_shared<const Type>(std::move(inner));
    return {};
  };
  switch (proto.value_case()) {
    case TypeProto::kTensorType: {
      if (proto.tensor_type().elem_type() == TensorProto::UNDEFINED) break;
      type.kind = Type::Kind::tensor;
      HR_ASSIGN_OR_RETURN(type.dtype, read_dtype(proto.tensor_type().elem_type()));
      if (!proto.tensor_type().has_shape()) break;
      const auto& shape = proto.tensor_type().shape();
      if (static_cast<size_t>(shape.dim_size()) > kMaxTensorRank) {
        return error(Code::unsupported, "a rank of {}: want {} at most", shape.dim_size(), kMaxTensorRank);
      }
      type.shape.emplace();
      for (const auto& dim : shape.dim()) {
        // Exporters write "?" for a dim without a name: two of them need not agree.
        const std::string symbol = dim.dim_param() == "?" ? "" : dim.dim_param();
        type.shape->push_back({dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1, symbol});
      }
      break;
    }
    case TypeProto::kSequenceType: HR_RETURN_IF_ERROR(read_element(Type::Kind::sequence, proto.sequence_type().elem_type())); break;
    case TypeProto::kOptionalType: HR_RETURN_IF_ERROR(read_element(Type::Kind::optional, proto.optional_type().elem_type())); break;
    case TypeProto::kMapType: return error(Code::unsupported, "a map");
    case TypeProto::kSparseTensorType: return error(Code::unsupported, "a sparse tensor");
    case TypeProto::kOpaqueType: return error(Code::unsupported, "an opaque type");
    case TypeProto::VALUE_NOT_SET: break;
  }
  return type;
}

// Reads what a model holds, part by part.
class ModelReader {
 public:
  explicit ModelReader(TensorReader tensors) : tensors_(std::move(tensors)) {}

  Result<Model> read(ModelProto& proto);

 private:
  Status read_graph(GraphProto& proto, Graph& graph, int depth);
  Status read_values(const google::protobuf::RepeatedPtrField<ValueInfoProto>& protos, const char* what, std::vector<ValueInfo>& values);
  Status read_initializers(GraphProto& proto, Graph& graph);
  Status read_nodes(google::protobuf::RepeatedPtrField<NodeProto>& protos, std::vector<Node>& nodes, int depth);
  Result<Attribute> read_attribute(AttributeProto& proto, int depth);
  Status read_attribute_value(AttributeProto& proto, Attribute& attribute, int depth);
  Result<Function> read_function(FunctionProto& proto);
  static Result<std::map<std::string, int64_t>> read_opsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& protos);

  TensorReader tensors_;
};

Result<std::map<std::string, int64_t>> ModelReader::read_opsets(
    const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& protos) {
  std::map<std::string, int64_t> opsets;
  for (const auto& proto : protos) {
    const std::string domain = domain_of(proto.domain());
    if (!opsets.emplace(domain, proto.version()).second) {
      return error(Code::malformed, "two opsets of domain \"{}\"", io::shown_name(domain));
    }
    if (domain.empty() && (proto.version() < kMinOpset || proto.version() > kMaxOpset)) {
      return error(Code::unsupported, "opset {}: want {} to {}", proto.version(), kMinOpset, kMaxOpset);
    }
  }
  return opsets;
}

Status ModelReader::read_values(const google::protobuf::RepeatedPtrField<ValueInfoProto>& protos, const char* what,
                                std::vector<ValueInfo>& values) {
  for (const ValueInfoProto& proto : protos) {
    auto type = read_type(proto.type(), 0);
    if (!type) return type.error().with_context(fmt::format("{} \"{}\"", what, io::shown_name(proto.name())));
    values.push_back({proto.name(), std::move(*type)});
  }
  return {};
}

Status ModelReader::read_initializers(GraphProto& proto, Graph& graph) {
  const auto add = [&](const std::string& name, Result<Tensor> tensor) -> Status {
    const std::string what = fmt::format("initializer \"{}\"", io::shown_name(name));
    if (!tensor) return tensor.error().with_context(what);
    if (name.empty()) return make_status(Code::malformed, "an initializer without a name");
    if (!graph.initializers.emplace(name, std::move(*tensor)).second) return make_status(Code::malformed, "{}: there twice", what);
    return {};
  };
  for (TensorProto& tensor : *proto.mutable_initializer()) {
    HR_RETURN_IF_ERROR(add(tensor.name(), tensors_.read(tensor)));
  }
  for (const auto& sparse : proto.sparse_initializer()) HR_RETURN_IF_ERROR(add(sparse.values().name(), tensors_.read(sparse)));
  return {};
}

// The kind that says what an attribute without a type holds: files of old have none.
AttributeProto::AttributeType type_of(const AttributeProto& proto) {
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.has_t()) return AttributeProto::TENSOR;
  if (proto.has_g()) return AttributeProto::GRAPH;
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  if (proto.tensors_size() > 0) return AttributeProto::TENSORS;
  if (proto.graphs_size() > 0) return AttributeProto::GRAPHS;
  return AttributeProto::UNDEFINED;
}

// How many of an attribute's fields hold something.
int fields_of(const AttributeProto& proto) {
  return int{proto.has_f()} + int{proto.has_i()} + int{proto.has_s()} + int{proto.has_t()} + int{proto.has_g()} +
         int{proto.has_sparse_tensor()} + int{proto.has_tp()} + int{proto.floats_size() > 0} + int{proto.ints_size() > 0} +
         int{proto.strings_size() > 0} + int{proto.tensors_size() > 0} + int{proto.graphs_size() > 0} +
         int{proto.sparse_tensors_size() > 0} + int{proto.type_protos_size() > 0};
}

Status ModelReader::read_attribute_value(AttributeProto& proto, Attribute& attribute, int depth) {
  const auto read_graph_into = [&](GraphProto& from) -> Status {
    auto graph = std::make_shared<Graph>();
    HR_RETURN_IF_ERROR(read_graph(from, *graph, depth + 1));
    attribute.graphs.push_back(std::move(graph));
    return {};
  };
  const auto set = [&](Attribute::Kind kind, bool there) {
    attribute.kind = kind;
    return there || !attribute.reference.empty() ? Status() : make_status(Code::malformed, "its value is not of the type that it names");
  };
  const int fields = fields_of(proto);
  const auto set_list = [&](Attribute::Kind kind, int size) { return set(kind, size > 0 || fields == 0); };
  switch (type_of(proto)) {
    case AttributeProto::FLOAT: attribute.number = proto.f(); return set(Attribute::Kind::number, proto.has_f());
    case AttributeProto::INT: attribute.integer = proto.i(); return set(Attribute::Kind::integer, proto.has_i());
    case AttributeProto::STRING: attribute.text = proto.s(); return set(Attribute::Kind::text, proto.has_s());
    case AttributeProto::FLOATS:
      attribute.numbers.assign(proto.floats().begin(), proto.floats().end());
      return set_list(Attribute::Kind::numbers, proto.floats_size());
    case AttributeProto::INTS:
      attribute.integers.assign(proto.ints().begin(), proto.ints().end());
      return set_list(Attribute::Kind::integers, proto.ints_size());
    case AttributeProto::STRINGS:
      attribute.texts.assign(proto.strings().begin(), proto.strings().end());
      return set_list(Attribute::Kind::texts, proto.strings_size());
    case AttributeProto::TENSOR:
      HR_RETURN_IF_ERROR(set(Attribute::Kind::tensor, proto.has_t()));
      if (proto.has_t()) {
        HR_ASSIGN_OR_RETURN(Tensor tensor, tensors_.read(proto.t()));
        attribute.tensors.push_back(std::move(tensor));
        proto.clear_t();
      }
      return {};
    case AttributeProto::SPARSE_TENSOR:
      HR_RETURN_IF_ERROR(set(Attribute::Kind::tensor, proto.has_sparse_tensor()));
      if (proto.has_sparse_tensor()) {
        HR_ASSIGN_OR_RETURN(Tensor tensor, tensors_.read(proto.sparse_tensor()));
        attribute.tensors.push_back(std::move(tensor));
      }
      return {};
    case AttributeProto::TENSORS:
      for (const TensorProto& one : proto.tensors()) {
        HR_ASSIGN_OR_RETURN(Tensor tensor, tensors_.read(one));
        attribute.tensors.push_back(std::move(tensor));
      }
      return set_list(Attribute::Kind::tensors, proto.tensors_size());
    case AttributeProto::GRAPH:
      HR_RETURN_IF_ERROR(set(Attribute::Kind::graph, proto.has_g()));
      if (proto.has_g()) HR_RETURN_IF_ERROR(read_graph_into(*proto.mutable_g()));
      return {};
    case AttributeProto::GRAPHS:
      for (GraphProto& graph : *proto.mutable_graphs()) HR_RETURN_IF_ERROR(read_graph_into(graph));
      return set_list(Attribute::Kind::graphs, proto.graphs_size());
    case AttributeProto::TYPE_PROTO: {
      HR_RETURN_IF_ERROR(set(Attribute::Kind::type, proto.has_tp()));
      HR_ASSIGN_OR_RETURN(attribute.type, read_type(proto.tp(), 0));
      return {};
    }
    case AttributeProto::SPARSE_TENSORS: return make_status(Code::unsupported, "a list of sparse tensors");
    case AttributeProto::TYPE_PROTOS: return make_status(Code::unsupported, "a list of types");
    case AttributeProto::UNDEFINED: break;  // types that protobuf does not know come as this one
  }
  return make_status(Code::malformed, "neither a type nor a value");
}

Result<Attribute> ModelReader::read_attribute(AttributeProto& proto, int depth) {
  Attribute attribute;
  attribute.reference = proto.ref_attr_name();
  const int fields = fields_of(proto);
  if (!attribute.reference.empty() && fields > 0) return error(Code::malformed, "both a value and a reference");
  if (fields > 1) return error(Code::malformed, "values in {} fields: want one", fields);
  HR_RETURN_IF_ERROR(read_attribute_value(proto, attribute, depth));
  return attribute;
}

Status ModelReader::read_nodes(google::protobuf::RepeatedPtrField<NodeProto>& protos, std::vector<Node>& nodes, int depth) {
  nodes.reserve(static_cast<size_t>(protos.size()));
  for (NodeProto& proto : protos) {
    Node& node = nodes.emplace_back();
    node.name = proto.name();
    node.op = proto.op_type();
    node.domain = domain_of(proto.domain());
    node.overload = proto.overload();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    const auto here = [&] { return node.describe(nodes.size() - 1); };
    if (node.op.empty()) return make_status(Code::malformed, "{}: no operator", here());
    for (AttributeProto& attribute : *proto.mutable_attribute()) {
      auto read = read_attribute(attribute, depth);
      if (!read) {
        return read.error().with_context(fmt::format("{}: attribute {}", here(), io::shown_name(attribute.name())));
      }
      if (attribute.name().empty()) return make_status(Code::malformed, "{}: an attribute without a name", here());
      // The one sparse attribute of the standard operators (Constant's) is dense here, and has the name of the dense one.
      const bool sparse = attribute.type() == AttributeProto::SPARSE_TENSOR && attribute.name() == "sparse_value";
      if (!node.attributes.emplace(sparse ? "value" : attribute.name(), std::move(*read)).second) {
        return make_status(Code::malformed, "{}: attribute {}: there twice", here(), io::shown_name(attribute.name()));
      }
    }
  }
  return {};
}

Status ModelReader::read_graph(GraphProto& proto, Graph& graph, int depth) {
  if (depth > kMaxGraphDepth) return make_status(Code::resource_exhausted, "graphs nested deeper than {}", kMaxGraphDepth);
  graph.name = proto.name();
  HR_RETURN_IF_ERROR(read_values(proto.input(), "input", graph.inputs));
  HR_RETURN_IF_ERROR(read_values(proto.output(), "output", graph.outputs));
  HR_RETURN_IF_ERROR(read_values(proto.value_info(), "value", graph.values));
  HR_RETURN_IF_ERROR(read_initializers(proto, graph));
  return read_nodes(*proto.mutable_node(), graph.nodes, depth);
}

Result<Function> ModelReader::read_function(FunctionProto& proto) {
  Function function;
  function.name = proto.name();
  function.domain = domain_of(proto.domain());
  function.overload = proto.overload();
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  HR_ASSIGN_OR_RETURN(function.opsets, read_opsets(proto.opset_import()));
  for (AttributeProto& attribute : *proto.mutable_attribute_proto()) {
    auto read = read_attribute(attribute, 0);
    if (!read) return tl::unexpected<Status>(read.error().with_context("default of " + io::shown_name(attribute.name())));
    if (!function.defaults.emplace(attribute.name(), std::move(*read)).second) {
      return error(Code::malformed, "attribute {}: there twice", io::shown_name(attribute.name()));
    }
  }
  HR_RETURN_IF_ERROR(read_nodes(*proto.mutable_node(), function.nodes, 0));
  return function;
}

Result<Model> ModelReader::read(ModelProto& proto) {
  Model model;
  model.ir_version = proto.ir_version();
  if (!proto.has_ir_version() || !proto.has_graph()) {
    return error(Code::malformed, "not an ONNX model: it has no {}", proto.has_graph() ? "IR version" : "graph");
  }
  if (model.ir_version < kMinIr || model.ir_version > kMaxIr) {
    return error(Code::unsupported, "IR version {}: want {} to {}", model.ir_version, kMinIr, kMaxIr);
  }
  model.producer = proto.producer_name();
  HR_ASSIGN_OR_RETURN(model.opsets, read_opsets(proto.opset_import()));
  for (const auto& entry : proto.metadata_props()) model.metadata[entry.key()] = entry.value();
  for (FunctionProto& function : *proto.mutable_functions()) {
    auto read = read_function(function);
    if (!read) return tl::unexpected<Status>(read.error().with_context("function " + io::shown_name(function.name())));
    model.functions.push_back(std::move(*read));
  }
  HR_RETURN_IF_ERROR(read_graph(*proto.mutable_graph(), model.graph, 1));
  return model;
}

Result<Sequence> read_sequence(const SequenceProto& proto, TensorReader& tensors) {
  if (proto.elem_type() != SequenceProto::TENSOR) return error(Code::unsupported, "a sequence of anything but tensors");
  Sequence sequence;
  for (const TensorProto& one : proto.tensor_values()) {
    HR_ASSIGN_OR_RETURN(Tensor tensor, tensors.read(one));
    sequence.dtype = tensor.dtype();
    sequence.tensors.push_back(std::move(tensor));
  }
  return sequence;
}

Result<Optional> read_optional(const OptionalProto& proto, TensorReader& tensors) {
  Optional optional;
  switch (proto.elem_type()) {
    case OptionalProto::UNDEFINED: return optional;
    case OptionalProto::TENSOR: {
      if (!proto.has_tensor_value()) return optional;
      HR_ASSIGN_OR_RETURN(Tensor tensor, tensors.read(proto.tensor_value()));
      optional.value = std::make_shared<const Value>(std::move(tensor));
      return optional;
    }
    case OptionalProto::SEQUENCE: {
      if (!proto.has_sequence_value()) return optional;
      HR_ASSIGN_OR_RETURN(Sequence sequence, read_sequence(proto.sequence_value(), tensors));
      optional.value = std::make_shared<const Value>(std::move(sequence));
      return optional;
    }
    default: return error(Code::unsupported, "an optional of neither a tensor nor a sequence");
  }
}

// `file`: what `bytes` lie in, where tensors may show them.
Result<Model> parse(std::span<const std::byte> bytes, const std::string& folder, std::shared_ptr<const io::MappedFile> file) {
  const auto entries = count_entries(bytes, kMaxMessageDepth);
  if (!entries) return tl::unexpected<Status>(entries.error().with_context(fmt::format("not an ONNX file, {} bytes", bytes.size())));
  if (const uint64_t most = kFreeEntries + bytes.size() / kBytesPerEntry; *entries > most) {
    return error(Code::resource_exhausted, "{} messages and strings in {} bytes: want {} at most", *entries, bytes.size(), most);
  }
  if (bytes.size() > kMaxMessageBytes) return tl::unexpected(too_large(bytes.size()));
  Model model;
  {
    DetachedModel detached = detach_raw_data(bytes);
    ModelProto proto;
    HR_RETURN_IF_ERROR(parse(std::as_bytes(std::span(detached.model)), proto, bytes.size()));
    HR_ASSIGN_OR_RETURN(model, ModelReader(TensorReader(folder, std::move(detached.raw_data), std::move(file))).read(proto));
  }
  HR_RETURN_IF_ERROR(check_model(model));
  return model;
}

}  // namespace

Result<Model> parse_model(std::span<const std::byte> bytes, const std::string& folder) { return parse(bytes, folder, nullptr); }

Result<Model> read_model(const std::string& path) {
  HR_ASSIGN_OR_RETURN(io::MappedFile mapped, io::MappedFile::open(path));
  const auto file = std::make_shared<const io::MappedFile>(std::move(mapped));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  auto model = parse(file->bytes(), folder.empty() ? "." : folder, file);
  if (!model) return tl::unexpected<Status>(model.error().with_context(path));
  return model;
}

Result<Value> parse_value(std::span<const std::byte> bytes, Type::Kind kind) {
  TensorReader tensors("");
  switch (kind) {
    case Type::Kind::sequence: {
      SequenceProto proto;
      HR_RETURN_IF_ERROR(parse(bytes, proto));
      HR_ASSIGN_OR_RETURN(Sequence sequence, read_sequence(proto, tensors));
      return sequence;
    }
    case Type::Kind::optional: {
      OptionalProto proto;
      HR_RETURN_IF_ERROR(parse(bytes, proto));
      HR_ASSIGN_OR_RETURN(Optional optional, read_optional(proto, tensors));
      return optional;
    }
    default: {
      TensorProto proto;
      HR_RETURN_IF_ERROR(parse(bytes, proto));
      HR_ASSIGN_OR_RETURN(Tensor tensor, tensors.read(proto));
      return tensor;
    }
  }
}

}  // namespace headrace::onnx

// Files written byte by byte, by protobuf's wire format and the field numbers of onnx-ml.proto: nothing here goes through the code that
// reads, and only the round trips go through the code that writes.
#include "onnx/file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/interpreter.h"

namespace headrace::onnx {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, int64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value)); }
std::string part(int field, const std::string& bytes) {
  return varint((static_cast<uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes;
}
template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}
std::string varints(std::initializer_list<int64_t> values) {
  std::string bytes;
  for (const int64_t value : values) bytes += varint(static_cast<uint64_t>(value));
  return bytes;
}

// TensorProto
std::string tensor(int type, std::initializer_list<int64_t> dims, const std::string& data, const std::string& name = "") {
  std::string bytes;
  for (const int64_t dim : dims) bytes += number(1, dim);
  return bytes + number(2, type) + (name.empty() ? "" : part(8, name)) + data;
}
std::string raw_data(const std::string& bytes) { return part(9, bytes); }
std::string int32_data(std::initializer_list<int64_t> values) { return part(5, varints(values)); }
enum : int { FLOAT = 1, UINT8 = 2, INT8 = 3, STRING = 8, BOOL = 9, INT64 = 7, FLOAT16 = 10, UINT32 = 12, COMPLEX64 = 14, UINT4 = 21, INT4 = 22, INT2 = 26 };

Result<Value> read_tensor(const std::string& bytes) { return parse_value(std::as_bytes(std::span(bytes)), Type::Kind::tensor); }
Tensor good_tensor(const std::string& bytes) {
  auto value = read_tensor(bytes);
  EXPECT_TRUE(value.has_value()) << value.error().to_string();
  return value ? *value->tensor() : Tensor();
}
std::string refusal(const std::string& bytes) {
  const auto value = read_tensor(bytes);
  return value ? "read" : value.error().to_string();
}

// NodeProto, ValueInfoProto, GraphProto, ModelProto
std::string node(const std::string& op, std::initializer_list<std::string> inputs, std::initializer_list<std::string> outputs,
                 const std::string& rest = "") {
  std::string bytes;
  for (const std::string& input : inputs) bytes += part(1, input);
  for (const std::string& output : outputs) bytes += part(2, output);
  return part(1, bytes + part(4, op) + rest);
}
std::string input(const std::string& name) { return part(11, part(1, name)); }
std::string output(const std::string& name) { return part(12, part(1, name)); }
std::string initializer(const std::string& bytes) { return part(5, bytes); }
std::string opset(int64_t version, const std::string& domain = "") { return part(8, part(1, domain) + number(2, version)); }
std::string model(const std::string& graph, const std::string& rest = "") { return number(1, 10) + opset(17) + part(7, graph) + rest; }
std::string attribute(const std::string& name, int type, const std::string& value) {
  return part(5, part(1, name) + number(20, type) + value);
}

Result<Model> read(const std::string& bytes, const std::string& folder = "") { return parse_model(std::as_bytes(std::span(bytes)), folder); }
std::string model_refusal(const std::string& bytes, const std::string& folder = "") {
  const auto result = read(bytes, folder);
  return result ? "read" : result.error().to_string();
}

TEST(OnnxFile, ReadsElementsFromRawDataAndFromTypedFields) {
  EXPECT_EQ(good_tensor(tensor(FLOAT, {2}, raw_data(raw({1.5f, -2.0f})))).data<float>()[1], -2.0f);
  EXPECT_EQ(good_tensor(tensor(FLOAT, {}, part(4, raw({0.25f})))).data<float>()[0], 0.25f);
  EXPECT_EQ(good_tensor(tensor(INT8, {2}, int32_data({-128, 127}))).data<int8_t>()[0], -128);
  EXPECT_EQ(good_tensor(tensor(INT64, {1}, part(7, varints({-5})))).data<int64_t>()[0], -5);
  EXPECT_EQ(good_tensor(tensor(UINT32, {1}, part(11, varints({4294967295})))).data<uint32_t>()[0], 4294967295u);
  EXPECT_EQ(good_tensor(tensor(FLOAT16, {1}, int32_data({0x3C00}))).data<f16>()[0].bits, 0x3C00);
  EXPECT_EQ(good_tensor(tensor(COMPLEX64, {1}, part(4, raw({1.0f, 2.0f})))).data<std::complex<float>>()[0], std::complex<float>(1, 2));
  EXPECT_EQ(good_tensor(tensor(STRING, {2}, part(6, "one") + part(6, ""))).data<std::string>()[0], "one");
  EXPECT_EQ(good_tensor(tensor(FLOAT, {0, 3}, "")).dims(), (Dims{0, 3}));
  // A bool is one bit, whatever the byte.
  EXPECT_EQ(good_tensor(tensor(BOOL, {2}, raw_data(std::string("\x02\x00", 2)))).raw()[0], std::byte{1});
}

// The order of packed elements: comments at int32_data and raw_data in onnx-ml.proto.
TEST(OnnxFile, UnpacksElementsBelowAByteLowBitsFirst) {
  const Tensor four = good_tensor(tensor(INT4, {3}, raw_data("\x87\x0F")));
  EXPECT_EQ(four.data<i4>()[0].value, 7);
  EXPECT_EQ(four.data<i4>()[1].value, -8);
  EXPECT_EQ(four.data<i4>()[2].value, -1);
  EXPECT_EQ(good_tensor(tensor(UINT4, {2}, int32_data({0xF1}))).data<u4>()[1].value, 15);
  const Tensor two = good_tensor(tensor(INT2, {5}, raw_data(std::string("\xE4\x03", 2))));
  const int8_t want[] = {0, 1, -2, -1, -1};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(two.data<i2>()[i].value, want[i]) << i;
}

TEST(OnnxFile, RefusesTensorsWhoseDataAreNotWhatTheirDimsSay) {
  EXPECT_THAT(refusal(tensor(FLOAT, {2, 3}, raw_data("abcd"))), HasSubstr("dims [2, 3] of f32: want 24 bytes, raw_data has 4"));
  EXPECT_THAT(refusal(tensor(FLOAT, {2}, part(4, raw({1.0f})))), HasSubstr("want 2 values in float_data, got 1"));
  EXPECT_THAT(refusal(tensor(FLOAT, {1}, int32_data({1}))), HasSubstr("got 0 there and 1 in others"));
  EXPECT_THAT(refusal(tensor(UINT8, {1}, int32_data({256}))), HasSubstr("want 0 to 255"));
  EXPECT_THAT(refusal(tensor(FLOAT, {1}, raw_data("abcd") + part(4, raw({1.0f})))), HasSubstr("more than one place"));
  EXPECT_THAT(refusal(tensor(STRING, {1}, raw_data("a"))), HasSubstr("strings lie in string_data"));
  EXPECT_THAT(refusal(tensor(FLOAT, {-1}, "")), HasSubstr("dims [-1]"));
  EXPECT_THAT(refusal(tensor(FLOAT, {int64_t{1} << 40, int64_t{1} << 40}, "")), HasSubstr("resource exhausted"));
  EXPECT_THAT(refusal(tensor(FLOAT, {int64_t{1} << 33}, "")), HasSubstr("want 8589934592 values"));
  EXPECT_THAT(refusal(tensor(99, {1}, "")), HasSubstr("no element type has the number 99"));
  EXPECT_THAT(refusal(tensor(27, {1}, "")), HasSubstr("unsupported: elements of type FLOAT6E2M3"));
}

TEST(OnnxFile, ReadsSequencesAndOptionals) {
  const std::string one = tensor(FLOAT, {1}, raw_data(raw({3.0f})));
  const std::string sequence = number(2, 1) + part(3, one) + part(3, one);
  const auto list = parse_value(std::as_bytes(std::span(sequence)), Type::Kind::sequence);
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->sequence()->tensors.size(), 2u);
  const std::string some = number(2, 1) + part(3, one), none = number(2, 0);
  const auto full = parse_value(std::as_bytes(std::span(some)), Type::Kind::optional);
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->optional()->value->tensor()->data<float>()[0], 3.0f);
  EXPECT_EQ(parse_value(std::as_bytes(std::span(none)), Type::Kind::optional)->optional()->value, nullptr);
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / fmt::format("onnx_external_{}", ::getpid());
    fs::create_directories(root_ / "model" / "sub");
    std::ofstream(root_ / "secret.bin", std::ios::binary) << std::string(64, 's');
    std::ofstream(root_ / "model" / "sub" / "w.bin", std::ios::binary) << "xxxx" + raw({1.0f, 2.0f});
    fs::create_symlink("../secret.bin", root_ / "model" / "link.bin");
    fs::create_symlink("sub/w.bin", root_ / "model" / "inner.bin");
  }
  void TearDown() override { fs::remove_all(root_); }

  static std::string entry(const std::string& key, const std::string& value) { return part(13, part(1, key) + part(2, value)); }
  static std::string external(const std::string& location, const std::string& rest) {
    return tensor(FLOAT, {2}, number(14, 1) + entry("location", location) + rest, "w");
  }
  Result<Model> read_with(const std::string& weight) const {
    return read(model(initializer(weight) + node("Identity", {"w"}, {"y"}) + output("y")), (root_ / "model").string());
  }
  std::string refused(const std::string& location, const std::string& rest = "") const {
    const auto result = read_with(external(location, rest));
    return result ? "read" : result.error().to_string();
  }

  fs::path root_;
};

TEST_F(ExternalData, IsReadFromInsideTheFolder) {
  for (const char* location : {"sub/w.bin", "inner.bin", "./sub/w.bin"}) {
    const auto result = read_with(external(location, entry("offset", "4") + entry("length", "8")));
    ASSERT_TRUE(result.has_value()) << result.error().to_string();
    EXPECT_EQ(result->graph.initializers.at("w").data<float>()[1], 2.0f);
  }
}

TEST_F(ExternalData, NeverLeavesTheFolder) {
  EXPECT_THAT(refused("../secret.bin"), HasSubstr("inside the model's folder"));
  EXPECT_THAT(refused("sub/../../secret.bin"), HasSubstr("inside the model's folder"));
  EXPECT_THAT(refused((root_ / "model" / "sub" / "w.bin").string()), HasSubstr("inside the model's folder"));
  EXPECT_THAT(refused("link.bin"), HasSubstr("a link leaves the model's folder"));
  EXPECT_THAT(refused(std::string("sub/w.bin\0.txt", 14)), HasSubstr("inside the model's folder"));
  EXPECT_THAT(refused(""), HasSubstr("inside the model's folder"));
  EXPECT_THAT(refused("nothing.bin"), HasSubstr("not found"));
  EXPECT_THAT(refused("sub"), HasSubstr("is a directory"));
  EXPECT_THAT(model_refusal(model(initializer(external("sub/w.bin", "")) + output("w"))), HasSubstr("not in a folder of its own"));
}

TEST_F(ExternalData, IsBoundedByItsFile) {
  EXPECT_THAT(refused("sub/w.bin", entry("offset", "5")), HasSubstr("want 8 bytes at 5, the file has 12"));
  EXPECT_THAT(refused("sub/w.bin", entry("offset", "18446744073709551615")), HasSubstr("the file has 12"));
  EXPECT_THAT(refused("sub/w.bin", entry("offset", "-1")), HasSubstr("want a number"));
  EXPECT_THAT(refused("sub/w.bin", entry("length", "4")), HasSubstr("want 8 bytes, its length is 4"));
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += initializer(tensor(FLOAT, {2}, number(14, 1) + entry("location", "sub/w.bin"), fmt::format("w{}", i)));
  }
  EXPECT_THAT(model_refusal(model(many + output("w1")), (root_ / "model").string()), HasSubstr("more than 4 times over"));
}

std::string sparse(const std::string& values, const std::string& indices, std::initializer_list<int64_t> dims) {
  std::string bytes = part(1, values) + part(2, indices);
  for (const int64_t dim : dims) bytes += number(3, dim);
  return part(15, bytes);
}

TEST(OnnxFile, MakesSparseInitializersDense) {
  const std::string values = tensor(FLOAT, {2}, raw_data(raw({5.0f, 7.0f})), "w");
  for (const std::string& indices : {tensor(INT64, {2}, part(7, varints({1, 5}))), tensor(INT64, {2, 2}, part(7, varints({0, 1, 1, 2})))}) {
    const auto result = read(model(sparse(values, indices, {2, 3}) + output("w")));
    ASSERT_TRUE(result.has_value()) << result.error().to_string();
    const Tensor& dense = result->graph.initializers.at("w");
    const float want[] = {0, 5, 0, 0, 0, 7};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(dense.data<float>()[i], want[i]) << i;
  }
  const std::string rising = tensor(INT64, {2}, part(7, varints({1, 5})));
  EXPECT_THAT(model_refusal(model(sparse(values, rising, {5}) + output("w"))), HasSubstr("index 5 of entry 1 is outside of 5"));
  EXPECT_THAT(model_refusal(model(sparse(values, rising, {1 << 30}) + output("w"))), HasSubstr("bytes when dense"));
  const std::string falling = tensor(INT64, {2}, part(7, varints({5, 1})));
  EXPECT_THAT(model_refusal(model(sparse(values, falling, {6}) + output("w"))), HasSubstr("do not rise"));
}

TEST(OnnxFile, RefusesWhatIsNoModel) {
  EXPECT_THAT(model_refusal(""), HasSubstr("it has no graph"));
  EXPECT_THAT(model_refusal("GGUF"), HasSubstr("malformed"));
  EXPECT_THAT(model_refusal(number(1, 99) + opset(17) + part(7, "")), HasSubstr("IR version 99: want 3 to 14"));
  EXPECT_THAT(model_refusal(number(1, 10) + opset(6) + part(7, "")), HasSubstr("opset 6: want 7 to 28"));
  EXPECT_THAT(model_refusal(number(1, 10) + opset(29) + part(7, "")), HasSubstr("opset 29: want 7 to 28"));
  EXPECT_THAT(model_refusal(number(1, 10) + opset(17) + opset(18, "ai.onnx") + part(7, "")), HasSubstr("two opsets"));
  EXPECT_EQ(read_model("/nowhere/model.onnx").error().code(), Code::not_found);
}

TEST(OnnxFile, NamesTheNodeThatIsWrongAndWhy) {
  EXPECT_THAT(model_refusal(model(node("Identity", {"b"}, {"a"}) + node("Identity", {"a"}, {"b"}) + output("b"))),
              HasSubstr("node 0 (Identity): it reads \"b\", which node 1 (Identity) writes: a cycle, or nodes out of order"));
  EXPECT_THAT(model_refusal(model(node("Identity", {"a"}, {"a"}) + output("a"))), HasSubstr("which itself writes"));
  EXPECT_THAT(model_refusal(model(input("x") + node("Identity", {"x"}, {"x"}) + output("x"))), HasSubstr("\"x\" is written before"));
  EXPECT_THAT(model_refusal(model(node("Identity", {"x"}, {"y"}) + output("y"))), HasSubstr("nothing writes its input \"x\""));
  EXPECT_THAT(model_refusal(model(input("x") + output("y"))), HasSubstr("nothing writes the output \"y\""));
  EXPECT_THAT(model_refusal(model(input("x") + node("Nonsense", {"x"}, {"y"}, part(3, "stem")) + output("y"))),
              HasSubstr("unsupported: node 0 (Nonsense, \"stem\"): no operator Nonsense in opset 17"));
  EXPECT_THAT(model_refusal(model(input("x") + node("Op", {"x"}, {"y"}, part(7, "far")) + output("y"))),
              HasSubstr("no opset is imported for the domain \"far\""));
  EXPECT_THAT(model_refusal(model(initializer(tensor(FLOAT, {3}, "", "w")) + output("w"))), HasSubstr("initializer \"w\": dims [3]"));
}

TEST(OnnxFile, RefusesAttributesWhoseValueIsNotOfTheirType) {
  const auto with = [](const std::string& attributes) { return model(node("Constant", {}, {"y"}, attributes) + output("y")); };
  const std::string three = number(3, 3);
  EXPECT_THAT(model_refusal(with(attribute("value_int", 1, three))), HasSubstr("node 0 (Constant): attribute value_int: its value is not of"));
  EXPECT_THAT(model_refusal(with(attribute("value_int", 2, three + part(4, "s")))), HasSubstr("values in 2 fields"));
  EXPECT_THAT(model_refusal(with(attribute("value_int", 2, three) + attribute("value_int", 2, three))), HasSubstr("there twice"));
  EXPECT_THAT(model_refusal(with(attribute("value_int", 2, part(21, "outer")))), HasSubstr("a reference outside of a function"));
  EXPECT_THAT(model_refusal(with(part(5, part(1, "value_int")))), HasSubstr("neither a type nor a value"));
  EXPECT_THAT(model_refusal(with(attribute("value", 4, part(5, tensor(FLOAT, {4}, raw_data("ab")))))), HasSubstr("attribute value: dims [4]"));
  EXPECT_EQ(model_refusal(with(attribute("value_int", 2, three))), "read");
}

// Graphs within graphs: If in If, `depth` deep.
std::string nested(int depth) {
  std::string graph = node("Identity", {"x"}, {"y"}) + output("y");
  for (int i = 0; i < depth; ++i) {
    graph = node("If", {"x"}, {fmt::format("y{}", i)}, attribute("then_branch", 5, part(6, graph))) + output(fmt::format("y{}", i));
  }
  return model(input("x") + graph);
}

TEST(OnnxFile, BoundsTheDepthOfGraphs) {
  EXPECT_EQ(model_refusal(nested(kMaxGraphDepth - 1)), "read");
  EXPECT_THAT(model_refusal(nested(kMaxGraphDepth)), HasSubstr("graphs nested deeper than 32"));
  EXPECT_THAT(model_refusal(nested(1000)), HasSubstr("messages nested deeper than"));
}

TEST(OnnxFile, RefusesMoreMessagesThanItsBytesJustify) {
  std::string nodes, inputs;
  for (int i = 0; i < 1'000'000; ++i) nodes.append("\x0A\x00", 2), inputs.append("\x0A\x00", 2);
  EXPECT_THAT(model_refusal(model(nodes)), HasSubstr("messages and strings in"));
  EXPECT_THAT(model_refusal(model(part(1, inputs))), HasSubstr("messages and strings in"));
}

// FunctionProto
std::string function(const std::string& name, const std::string& nodes, const std::string& rest = "") {
  std::string body;
  body = part(1, name) + part(10, "own") + part(4, "x") + part(5, "y") + part(9, part(1, "") + number(2, 17)) + part(9, part(1, "own") + number(2, 1));
  return part(25, body + nodes + rest);
}
// A node of a function's body is field 7, of a graph field 1.
std::string in_function(const std::string& graph_node) { return std::string(1, '\x3A') + graph_node.substr(1); }
std::string call(const std::string& name, const std::string& from, const std::string& to, const std::string& rest = "") {
  return node(name, {from}, {to}, part(7, "own") + rest);
}

TEST(OnnxFile, FunctionsTakeAttributesFromTheirCall) {
  const std::string body = in_function(node("Constant", {}, {"y"}, attribute("value_int", 2, part(21, "level"))));
  const std::string with_default = part(11, part(1, "level") + number(20, 2) + number(3, 7));
  const std::string bytes = model(input("x") + call("F", "x", "a", attribute("level", 2, number(3, 5))) + call("F", "x", "b") + output("a") + output("b"),
                                  function("F", body, with_default));
  const auto result = read(bytes);
  ASSERT_TRUE(result.has_value()) << result.error().to_string();
  const auto outputs = interpret(*result, {{"x", Tensor::scalar(1.0f)}});
  ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();
  EXPECT_EQ(outputs->at("a").tensor()->data<int64_t>()[0], 5);
  EXPECT_EQ(outputs->at("b").tensor()->data<int64_t>()[0], 7);
  EXPECT_THAT(model_refusal(model(input("x") + call("F", "x", "y") + output("y"), function("F", body))),
              HasSubstr("function F: node 0 (Constant): attribute value_int: the function has no attribute level"));
}

TEST(OnnxFile, RefusesFunctionsThatCallThemselvesOrGrowWithoutBound) {
  const std::string graph = input("x") + call("F0", "x", "y") + output("y");
  EXPECT_THAT(model_refusal(model(graph, function("F0", in_function(call("F0", "x", "y"))))), HasSubstr("function F0: calls itself"));
  // Each calls the next one ten times: 10^12 nodes in a few kilobytes.
  std::string bomb;
  for (int i = 0; i < 12; ++i) {
    std::string body;
    for (int k = 0; k < 10; ++k) {
      body += in_function(call(fmt::format("F{}", i + 1), k == 0 ? "x" : fmt::format("v{}", k - 1), k == 9 ? "y" : fmt::format("v{}", k)));
    }
    bomb += function(fmt::format("F{}", i), body);
  }
  bomb += function("F12", in_function(node("Identity", {"x"}, {"y"})));
  EXPECT_THAT(model_refusal(model(graph, bomb)), HasSubstr("more than 1048576 nodes"));
  // Few nodes and long names: 10^4 nodes of 256 KiB.
  std::string heavy;
  for (int i = 0; i < 4; ++i) {
    std::string body;
    for (int k = 0; k < 10; ++k) {
      body += in_function(call(fmt::format("F{}", i + 1), k == 0 ? "x" : fmt::format("v{}", k - 1), k == 9 ? "y" : fmt::format("v{}", k)));
    }
    heavy += function(fmt::format("F{}", i), body);
  }
  const std::string long_name(256 << 10, 'n');
  heavy += function("F4", in_function(node("Identity", {"x"}, {long_name})) + in_function(node("Identity", {long_name}, {"y"})));
  EXPECT_THAT(model_refusal(model(graph, heavy)), HasSubstr("bytes"));
  std::string chain;
  for (int i = 0; i < 5000; ++i) chain += function(fmt::format("F{}", i), in_function(call(fmt::format("F{}", i + 1), "x", "y")));
  chain += function("F5000", in_function(node("Identity", {"x"}, {"y"})));
  EXPECT_THAT(model_refusal(model(graph, chain)), HasSubstr("functions call each other deeper than 32"));
}

// Everything that a model's structs hold, as text.
std::string dump(const Graph& graph);
std::string dump(const Tensor& tensor) {
  std::string text = fmt::format("{} [{}] ", dtype_name(tensor.dtype()), fmt::join(tensor.dims(), ","));
  if (tensor.dtype() == DType::string) return text + fmt::format("{}", fmt::join(tensor.values<std::string>(), "|"));
  for (uint64_t i = 0; i < tensor.bytes(); ++i) text += fmt::format("{:02x}", static_cast<unsigned>(tensor.raw()[i]));
  return text;
}
std::string dump(const Type& type) {
  std::string text = fmt::format("{}/{}", static_cast<int>(type.kind), dtype_name(type.dtype));
  if (type.element) text += "<" + dump(*type.element) + ">";
  if (type.shape) {
    for (const Type::Dim& dim : *type.shape) text += fmt::format(" {}:{}", dim.value, dim.symbol);
    text += ".";
  }
  return text;
}
std::string dump(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& one : nodes) {
    text += fmt::format("{} {} {} {} ({}) -> ({})\n", one.name, one.op, one.domain, one.overload, fmt::join(one.inputs, ","), fmt::join(one.outputs, ","));
    for (const auto& [name, value] : one.attributes) {
      text += fmt::format("  {} {} {} {} '{}' [{}] [{}] [{}] {} @{}\n", name, static_cast<int>(value.kind), value.number, value.integer, value.text,
                          fmt::join(value.numbers, ","), fmt::join(value.integers, ","), fmt::join(value.texts, ","), dump(value.type), value.reference);
      for (const Tensor& each : value.tensors) text += "  " + dump(each) + "\n";
      for (const auto& graph : value.graphs) text += "{" + dump(*graph) + "}\n";
    }
  }
  return text;
}
std::string dump(const Graph& graph) {
  std::string text = graph.name + "\n";
  for (const auto* values : {&graph.inputs, &graph.outputs, &graph.values}) {
    for (const ValueInfo& value : *values) text += value.name + " " + dump(value.type) + "\n";
    text += "--\n";
  }
  for (const auto& [name, value] : graph.initializers) text += name + " " + dump(value) + "\n";
  return text + dump(graph.nodes);
}
std::string dump(const Model& whole) {
  std::string text = fmt::format("{} {}\n", whole.ir_version, whole.producer);
  for (const auto& [domain, version] : whole.opsets) text += fmt::format("{} {}\n", domain, version);
  for (const auto& [key, value] : whole.metadata) text += fmt::format("{}={}\n", key, value);
  for (const Function& each : whole.functions) {
    text += fmt::format("{} {} {} ({}) -> ({}) {}\n", each.domain, each.name, each.overload, fmt::join(each.inputs, ","), fmt::join(each.outputs, ","),
                        fmt::join(each.attributes, ","));
    for (const auto& [domain, version] : each.opsets) text += fmt::format("{} {}\n", domain, version);
    Node defaults;
    defaults.attributes = each.defaults;
    text += dump({defaults}) + dump(each.nodes);
  }
  return text + dump(whole.graph);
}

class WrittenModel : public ::testing::Test {
 protected:
  void expect_unchanged(const Model& model, const std::string& what) {
    const Status written = write_model(model, path_);
    ASSERT_TRUE(written.ok()) << what << written.to_string();
    const auto again = read_model(path_);
    ASSERT_TRUE(again.has_value()) << what << again.error().to_string();
    EXPECT_EQ(dump(*again), dump(model)) << what;
  }
  void TearDown() override { fs::remove(path_); }

  const std::string path_ = (fs::path(::testing::TempDir()) / fmt::format("onnx_written_{}.onnx", ::getpid())).string();
};

TEST_F(WrittenModel, IsReadAsItWas) {
  Model model;
  model.ir_version = 10;
  model.producer = "test";
  model.opsets = {{"", 17}, {"own", 1}};
  model.metadata = {{"key", "value"}};
  Graph& graph = model.graph;
  graph.name = "main";
  graph.inputs = {{"x", {.kind = Type::Kind::tensor, .dtype = DType::f16, .shape = {{{3, ""}, {-1, "n"}, {-1, ""}}}}},
                  {"scalar", {.kind = Type::Kind::tensor, .dtype = DType::i4, .shape = {std::vector<Type::Dim>()}}},
                  {"any", {.kind = Type::Kind::tensor, .dtype = DType::c128}},
                  {"list", {.kind = Type::Kind::sequence, .element = std::make_shared<const Type>(Type{.kind = Type::Kind::tensor, .dtype = DType::u8})}},
                  {"maybe", {.kind = Type::Kind::optional, .element = std::make_shared<const Type>(Type{.kind = Type::Kind::tensor})}}};
  graph.initializers["floats"] = Tensor::of<float>({2}, {1.5f, -0.0f});
  graph.initializers["fours"] = Tensor::of<i4>({3}, {{-8}, {7}, {-1}});
  graph.initializers["twos"] = Tensor::of<u2>({5}, {{3}, {0}, {2}, {1}, {3}});
  graph.initializers["texts"] = Tensor::of<std::string>({2, 1}, {"a", ""});
  graph.initializers["none"] = Tensor(DType::boolean, {0, 2});
  auto branch = std::make_shared<Graph>();
  branch->outputs = {{"x", {}}};
  Node all{.name = "n", .op = "Identity", .inputs = {"x"}, .outputs = {"y"}};
  all.attributes = {{"a", {.kind = Attribute::Kind::number, .number = 0.5f}},
                    {"b", {.kind = Attribute::Kind::integer, .integer = -3}},
                    {"c", {.kind = Attribute::Kind::text, .text = ""}},
                    {"d", {.kind = Attribute::Kind::tensor, .tensors = {Tensor::scalar<int64_t>(4)}}},
                    {"e", {.kind = Attribute::Kind::graph, .graphs = {branch}}},
                    {"f", {.kind = Attribute::Kind::type, .type = graph.inputs[3].type}},
                    {"g", {.kind = Attribute::Kind::numbers, .numbers = {1, 2}}},
                    {"h", {.kind = Attribute::Kind::integers}},
                    {"i", {.kind = Attribute::Kind::texts, .texts = {"p", "q"}}},
                    {"j", {.kind = Attribute::Kind::tensors, .tensors = {Tensor::scalar(true), Tensor::scalar(1.0)}}},
                    {"k", {.kind = Attribute::Kind::graphs, .graphs = {branch, branch}}}};
  graph.nodes = {all, {.op = "F", .domain = "own", .overload = "v", .inputs = {"", "y"}, .outputs = {"z"}}};
  graph.outputs = {{"z", {}}};
  Function function{.name = "F", .domain = "own", .overload = "v", .inputs = {"p", "q"}, .outputs = {"r"}, .attributes = {"must"}};
  function.defaults["may"] = {.kind = Attribute::Kind::integers, .integers = {1, 2}};
  Node inside{.op = "Identity", .inputs = {"q"}, .outputs = {"r"}};
  inside.attributes["u"] = {.kind = Attribute::Kind::text, .reference = "must"};
  function.nodes = {inside};
  function.opsets = {{"", 18}};
  model.functions = {function};
  expect_unchanged(model, "by hand");
}

TEST_F(WrittenModel, OfEveryCaseIsReadAsItWas) {
  int models = 0;
  for (const char* suite : {"onnx_ops", "onnx_graph"}) {
    for (const auto& file : fs::directory_iterator(fs::path("tests/cases") / suite / "files")) {
      const auto model = read_model(file.path().string());
      if (!model) continue;  // those that must be refused
      ++models;
      expect_unchanged(*model, file.path().string());
    }
  }
  EXPECT_GT(models, 0);
}

TEST(OnnxFile, ReadsOrRefusesEveryBeginningOfAFile) {
  const std::string whole = model(input("x") + initializer(tensor(FLOAT, {2}, raw_data(raw({1.0f, 2.0f})), "w")) +
                                      call("F", "x", "y", attribute("level", 2, number(3, 5))) + output("y"),
                                  function("F", in_function(node("Identity", {"x"}, {"y"}))));
  ASSERT_EQ(model_refusal(whole), "read");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto result = read(whole.substr(0, size));
    EXPECT_TRUE(result || !result.error().message().empty()) << size;
  }
}

TEST(Interpreter, StopsAtTheLimitsOfARun) {
  Model model;
  model.opsets[""] = 17;
  model.graph.initializers["dims"] = Tensor::of<int64_t>({2}, {1 << 15, 1 << 15});
  model.graph.nodes = {{.name = "big", .op = "ConstantOfShape", .inputs = {"dims"}, .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  const auto bytes = interpret(model, {}, {.made_bytes = 1 << 20});
  ASSERT_FALSE(bytes.has_value());
  EXPECT_THAT(bytes.error().to_string(), HasSubstr("resource exhausted: node 0 (ConstantOfShape, \"big\"): more than 1048576 bytes"));
  const auto nodes = interpret(model, {}, {.nodes = 0});
  ASSERT_FALSE(nodes.has_value());
  EXPECT_EQ(nodes.error().code(), Code::resource_exhausted);
}

}  // namespace
}  // namespace headrace::onnx

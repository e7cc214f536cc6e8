#pragma once
// An ONNX model in memory, as its file says it: plain structs without protobuf, names as they are written there. What reads, checks and
// writes files is onnx/file.h. Specification: the ONNX IR and operator documents (onnx 1.23, IR 14, opset 28).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/tensor.h"

namespace headrace::onnx {

struct Graph;

// A type as a graph declares it; -1: a dim of which nothing is known. `symbol` names dims that must agree.
struct Type {
  enum class Kind : uint8_t { unknown, tensor, sequence, optional };
  struct Dim {
    int64_t value = -1;
    std::string symbol;
  };
  Kind kind = Kind::unknown;
  DType dtype = DType::f32;                // tensors
  std::optional<std::vector<Dim>> shape;   // tensors; absent: not even the rank is known
  std::shared_ptr<const Type> element;     // sequences and optionals
};

std::string describe(std::span<const Type::Dim> shape);  // "[batch, 3, ?]"
std::string describe(const Type& type);                  // "f32 [batch, 3, 224, 224]", "sequence of i64 [?]", "unknown"

struct Attribute {
  enum class Kind : uint8_t { number, integer, text, tensor, graph, type, numbers, integers, texts, tensors, graphs };
  Kind kind = Kind::integer;
  float number = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  std::vector<Tensor> tensors;                        // `tensor` has one
  std::vector<std::shared_ptr<const Graph>> graphs;   // `graph` has one
  Type type;
  std::string reference;  // in a function's body: the function's attribute that stands here; "" for none
};

struct Node {
  std::string name, op, domain;  // domain "" is the standard one ("ai.onnx")
  std::string overload;
  std::vector<std::string> inputs, outputs;  // "": left out
  int64_t opset = 0;  // of its domain, where it is not the model's: a node out of a function; 0: as the model imports it
  std::map<std::string, Attribute> attributes;
  // How errors name it: "node 3 (Conv, \"stem/conv\")".
  std::string describe(size_t index) const;
};

struct ValueInfo {
  std::string name;
  Type type;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // in an order in which they can run
  std::vector<ValueInfo> inputs, outputs, values;
  std::map<std::string, Tensor> initializers;  // one with an input's name is that input's default
};

struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;               // without a default
  std::map<std::string, Attribute> defaults;
  std::vector<Node> nodes;
  std::map<std::string, int64_t> opsets;             // by domain
};

struct Model {
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // by domain; "" is the standard one
  Graph graph;
  std::vector<Function> functions;
  std::map<std::string, std::string> metadata;
};

}  // namespace headrace::onnx

#pragma once
// Runs a model on the host, operator by operator: the reference behind every faster way. A model is prepared once: operators are looked
// up, names become places, functions are expanded, and each value's last reader is known, behind which the value goes.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "onnx/model.h"

namespace headrace::onnx {

// What one run may do at most, for models that are not trusted. Tensors are counted when they are made, whatever becomes of them.
struct RunLimits {
  uint64_t nodes = std::numeric_limits<uint64_t>::max();  // calls of operators and of graphs in them, those of loops' bodies counted
  uint64_t made_bytes = std::numeric_limits<uint64_t>::max();
};

// What one run may still do. Errors: resource_exhausted.
class RunBudget {
 public:
  explicit RunBudget(const RunLimits& limits) : left_(limits), limits_(limits) {}
  Status charge(uint64_t bytes);
  Status count_nodes(uint64_t nodes);

 private:
  RunLimits left_;
  const RunLimits limits_;
};

// Immutable once it is made; run() is thread-safe.
class Interpreter {
 public:
  // Errors: unsupported for operators that are not known, malformed for values that nothing gives, resource_exhausted for functions that
  // expand to more than kMaxNodes nodes or graphs deeper than kMaxDepth.
  static Result<Interpreter> make(std::shared_ptr<const Model> model);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  static constexpr int64_t kMaxNodes = 1 << 20;
  static constexpr int kMaxDepth = 64;

  const Model& model() const;
  // Outputs by name. `inputs`: by name; those with an initializer may be left out. Errors: invalid_argument for inputs (missing, unknown,
  // of another type, rank or dims than declared), resource_exhausted for the limits, otherwise what the operators say, with the node.
  Result<std::map<std::string, Value>> run(const std::map<std::string, Value>& inputs, const RunLimits& limits = {}) const;

 private:
  struct Prepared;
  explicit Interpreter(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

// The values of a graph's inputs in its order; an empty one takes its initializer. Errors: as Interpreter::run has them for inputs.
Result<std::vector<Value>> bind_inputs(const Graph& graph, const std::map<std::string, Value>& inputs);

// Prepares and runs once.
Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs,
                                               const RunLimits& limits = {});

}  // namespace headrace::onnx

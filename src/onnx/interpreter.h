#pragma once
// Runs a model on the host, operator by operator: the reference behind every faster way. A model is prepared once: operators are looked
// up, names become places, functions are expanded, and each value's last reader is known, behind which the value goes.

#include <map>
#include <memory>
#include <string>

#include "onnx/model.h"

namespace headrace::onnx {

struct InterpreterOptions {
  int64_t max_node_runs = 0;  // calls of operators in one run(), those of loops' bodies counted; 0: no bound
};

// Immutable once it is made; run() is thread-safe.
class Interpreter {
 public:
  // Errors: unsupported for operators that are not known, malformed for values that nothing gives, resource_exhausted for functions that
  // expand to more than kMaxNodes nodes or graphs deeper than kMaxDepth.
  static Result<Interpreter> make(std::shared_ptr<const Model> model, const InterpreterOptions& options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  static constexpr int64_t kMaxNodes = 1 << 20;
  static constexpr int kMaxDepth = 64;

  const Model& model() const;
  // Outputs by name. `inputs`: by name; those with an initializer may be left out. Errors: invalid_argument for inputs (missing, unknown,
  // of another type, rank or dims than declared), otherwise what the operators say, with the node.
  Result<std::map<std::string, Value>> run(const std::map<std::string, Value>& inputs) const;

 private:
  struct Prepared;
  explicit Interpreter(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

// Prepares and runs once.
Result<std::map<std::string, Value>> interpret(const Model& model, const std::map<std::string, Value>& inputs);

}  // namespace headrace::onnx

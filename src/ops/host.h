#pragma once
// host(x0, x1, ...) -> y0, y1, ...: an operator of a graph that has no kernel of its own, computed by a function on the host. Its types
// are given, not inferred: whoever makes the node knows them. Any dtype with bytes of its own.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace headrace::ops {

class HostFunction {
 public:
  virtual ~HostFunction() = default;
  // Inputs are packed; an input left out has no data. Writes every output. Errors: what the data shows; the outputs are then void.
  virtual Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const = 0;
};

struct HostAttrs {
  std::string name;  // "TopK"
  std::shared_ptr<const HostFunction> function;
  std::vector<ValueType> outputs;
  bool pure = true;  // the same inputs give the same outputs
  bool operator==(const HostAttrs&) const = default;
  std::string describe() const { return name; }
};
extern const Op host;

// Runs the node's function; what it reports goes to the step's errors. On the calling thread.
void run_host(const StepContext& step, const NodeArgs& args);

}  // namespace headrace::ops

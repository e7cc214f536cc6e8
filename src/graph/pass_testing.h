#pragma once
// For the tests of passes: run one pass alone, and a few lines to write the graph it sees.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/passes.h"
#include "ops/matmul.h"

namespace headrace::pass_testing {

// Every pass but `name` is skipped. Returns its hits.
inline int run_alone(Graph& graph, const std::string& name, const DtypePolicy& policy = {}, DeviceKind device = DeviceKind::cpu) {
  PassOptions options;
  options.policy = policy;
  options.device = device;
  for (const Pass& pass : all_passes()) {
    if (pass.name != name) options.skip.insert(std::string(pass.name));
  }
  const auto reports = run_passes(graph, options);
  if (!reports) {
    ADD_FAILURE() << reports.error().to_string();
    return -1;
  }
  for (const PassReport& report : *reports) {
    if (report.name == name) return report.hits;
  }
  ADD_FAILURE() << name << ": no such pass";
  return -1;
}

inline ValueId node(Graph& graph, const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name) {
  auto outputs = graph.add_node(op, std::move(attrs), std::move(inputs), std::move(name));
  if (!outputs) {
    ADD_FAILURE() << outputs.error().to_string();
    return kNone;
  }
  return outputs->at(0);
}

inline ValueId weight(Graph& graph, const std::string& name, Format format, std::vector<int64_t> dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return graph.add_weight(name, format, shape, WeightRecipe{{{name, 0, dims[0]}}});
}

// `module`.weight [rows, columns] and, when asked for, `module`.bias [rows].
inline ValueId linear(Graph& graph, ValueId x, const std::string& module, Format format, int64_t rows, int64_t columns,
                      bool bias = false) {
  std::vector<ValueId> inputs = {x, weight(graph, module + ".weight", format, {rows, columns})};
  if (bias) inputs.push_back(weight(graph, module + ".bias", Format::f32, {rows}));
  return node(graph, ops::matmul, ops::MatmulAttrs{}, inputs, module);
}

// x f32 [T, columns]
struct WithInput {
  Graph graph;
  ValueId x;
  explicit WithInput(int64_t columns) {
    const Dim tokens = Dim::symbol(graph.symbols.add("T", 8));
    x = graph.add_input("x", DType::f32, {tokens, columns});
  }
};

}  // namespace headrace::pass_testing

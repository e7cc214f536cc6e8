#pragma once
// Builds a graph without an error check after every line: the first error is kept, later calls do nothing and return
// kNone, and finish() reports it. For code that writes a program top to bottom (models, importers).

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace headrace {

class GraphBuilder {
 public:
  Graph graph;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Keeps the first error.
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // The outputs of a new node. After an error: `num_outputs` times kNone.
  std::vector<ValueId> nodes(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name,
                             size_t num_outputs) {
    if (ok()) {
      auto outputs = graph.add_node(op, std::move(attrs), std::move(inputs), std::move(name));
      if (outputs) {
        CHECK(outputs->size() == num_outputs);
        return *std::move(outputs);
      }
      fail(std::move(outputs).error());
    }
    return std::vector<ValueId>(num_outputs, kNone);
  }
  // The one output of a new node.
  ValueId node(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name) {
    return nodes(op, std::move(attrs), std::move(inputs), std::move(name), 1)[0];
  }
  // A node that has an effect and no output.
  void effect(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name) {
    nodes(op, std::move(attrs), std::move(inputs), std::move(name), 0);
  }
  void output(std::string name, ValueId value) {
    if (ok()) graph.set_output(std::move(name), value);
  }

  // Where a part starts, and back to there: nodes, values and an error that came since are gone. Ids of values that stay stay.
  struct Mark {
    size_t values = 0, nodes = 0;
  };
  Mark mark() const { return {graph.values.size(), graph.nodes.size()}; }
  void rewind(const Mark& mark) {
    graph.values.resize(mark.values);
    graph.nodes.resize(mark.nodes);
    status_ = Status();
  }

  // The verified graph, or the first error. The builder is empty afterwards.
  Result<Graph> finish() {
    if (ok()) fail(verify(graph));
    if (!ok()) return tl::unexpected<Status>(status_);
    return std::move(graph);
  }

 private:
  Status status_;
};

}  // namespace headrace

#pragma once
// What became of a model for one size of its inputs: its programs node by node, with the nodes of the file that each stands for, what it
// costs, what it took beside what the machine could do, and why it is not better; what runs on the host between programs, and why.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/session.h"
#include "runtime/roof.h"

namespace headrace::onnx {

struct ExplainedNode {
  NodeId id = kNone;
  std::string op, name;
  std::string type;                  // of its first output: "f32 [1, 64, 56, 56]"
  std::string kernel;                // "avx512"; "view" for one that costs nothing, "reference" for an operator of the host
  std::string isa;                   // the least set that the kernel needs; "" without a kernel
  std::string precision;             // "f32"; "i64 > f32" where it changes
  std::vector<std::string> origins;  // nodes of the file; empty for what passes and layouts added
  double flops = 0, bytes = 0;       // bytes: the fewest that memory must move
  std::optional<double> seconds;     // median
  std::optional<double> roof_share;  // the time that the roof allows over `seconds`; above 1 where caches serve
  bool memory_bound = false;         // the harder roof: memory's, else arithmetic's
  std::string why;                   // why it is not better
  bool reference = false;
};

struct ExplainedProgram {
  std::vector<std::string> inputs;   // "image: f32 [1, 3, 224, 224]"
  std::vector<PassReport> passes;
  std::vector<ExplainedNode> nodes;
  size_t num_steps = 0;              // nodes of the file that it covers
  std::vector<std::string> folded;   // those that no node stands for: computed at compile time, or read by nobody
  int64_t planned_bytes = 0, live_set_bound = 0, naive_bytes = 0;
  int32_t num_stages = 0;
  size_t num_runs = 0;               // that were timed
  double seconds() const;            // all nodes'
  double flops() const;
  std::optional<double> roof_share() const;
};

// A plan of one section of one graph.
struct ExplainedPart {
  std::string place;  // "graph", "graph, behind 1 host part", "node 3 (If), then_branch", "node 4 (Loop), graph 0"
  std::optional<ExplainedProgram> program;
  std::vector<std::pair<std::string, std::string>> host;  // nodes that run between programs, and why
  size_t unplanned = 0;                                   // nodes whose types only a run tells
};

struct ExplainOptions {
  // Timed runs on these values. Empty `values`: nothing runs, and `dims` says what the inputs' open dims are.
  std::map<std::string, Value> values;
  std::map<std::string, int64_t> dims;
  int runs = 5;
  const runtime::RoofRow* roof = nullptr;  // null: no share of it
};

// Nobody else may use the session meanwhile. Errors: those of Session::run and Session::input_facts; invalid_argument for a session of
// reference operators.
Result<std::vector<ExplainedPart>> explain(const Session& session, const ExplainOptions& options);

}  // namespace headrace::onnx

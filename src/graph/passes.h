#pragma once
// The ordered list of rewrites (passes.def), each in a file of passes/: named, skippable by name, timed, verified after.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace headrace {

// What the arithmetic may use; an input of the build, never a choice inside a kernel.
struct DtypePolicy {
  enum class Activation : uint8_t {
    f32,    // --exact
    int8,   // 8-bit activations in blocks of 32 where the weight is block-quantized; elsewhere f32 or see bf16_products
    bf16,   // between the linears; weights must be bf16
  };
  Activation activation = Activation::int8;
  DType residual = DType::f32;
  DType accumulate = DType::f32;
  DType logits = DType::f32;
  DType kv = DType::f16;
  // With int8: two terms of activation (some 15 bits, twice the dot products) in the linears that make queries, keys, values
  // and the logits of `sample`; one term in all others.
  bool two_terms_where_sensitive = true;
  // With int8: activations of bf16 weights are rounded to bf16. It pays where the machine multiplies bf16 natively.
  bool bf16_products = false;

  // What an accelerator multiplies natively.
  static DtypePolicy bf16() { return {Activation::bf16, DType::f32, DType::f32, DType::f32, DType::bf16}; }
  static DtypePolicy exact() { return {Activation::f32, DType::f32, DType::f32, DType::f32, DType::f32}; }
};

struct PassOptions {
  std::set<std::string, std::less<>> skip;  // names of passes.def; "all" skips every one
  DtypePolicy policy;
  DeviceKind device = DeviceKind::cpu;
};

struct Pass {
  std::string_view name;
  std::string_view summary;  // one sentence, for --help and the docs
  // Rewrites the graph; returns how many places matched. Errors: internal.
  Result<int> (*run)(Graph& graph, const PassOptions& options);
};

struct PassReport {
  std::string_view name;
  int hits = 0;
  double ms = 0;
  bool skipped = false;
};

std::span<const Pass> all_passes();
// Runs the list in order, verifying after each. Errors: invalid_argument for an unknown name in `skip`; internal with the
// pass's name when a pass fails or breaks the graph.
Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options);

}  // namespace headrace

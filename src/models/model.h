#pragma once
// A model family is one short file that builds its programs as graphs from a configuration; models.def lists the
// families by Hugging Face `model_type`. It names no device, dtype, quantization format, rank or KV layout.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "io/config_map.h"
#include "io/model_source.h"

namespace headrace::models {

// The largest count of a step, and all that bounds E and H, whose inputs take no room in a plan of memory. Far above any
// machine; low enough that no product of two sizes of a step overflows.
inline constexpr int64_t kMaxStepCount = int64_t{1} << 24;

// Bounds of the symbols of a step program.
struct StepLimits {
  int64_t max_tokens = 512;      // T: tokens of one step
  int64_t max_seqs = 16;         // S
  int64_t max_blocks = 512;      // B: KV blocks of one sequence, a column count of the block table
  int64_t max_context = 0;       // tokens of one sequence; 0: not known yet
  int64_t num_slots = 17;        // sequences that may be alive: the length of the last-token state
  int64_t max_logit_rows = 48;   // R: rows that want logits
};

// The format and shape of a checkpoint tensor, by Hugging Face name; null when the checkpoint lacks it.
struct TensorInfo {
  Format format;
  std::vector<int64_t> shape;
};
using TensorLookup = std::function<const TensorInfo*(std::string_view name)>;
// Of the tensors that the source has now; it holds copies.
TensorLookup tensors_of(const io::ModelSource& source);

struct BuildContext {
  const io::ConfigMap& config;
  TensorLookup lookup;
  DtypePolicy policy;
  StepLimits limits;
};

// One layer's KV, in layer order. Equal specs form a group.
struct ModelInfo {
  std::string model_type;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t max_position_embeddings = 0;  // the context that the model was trained for
  int64_t embedding_size = 0;           // more than 0: an embedder, whose program is build_embed's
  std::vector<KvSpec> layer_kv;
  std::vector<int32_t> eos_token_ids;   // from the configuration; may be empty
  double num_parameters = 0;            // counted from the weights of the program
};

struct ModelFamily {
  std::string_view model_type;
  Result<ModelInfo> (*info)(const BuildContext& context);
  // The `step` program. Inputs carry the names of StepPlan's fields (see runtime/step_plan.h); outputs are "tokens"
  // i32 [R], "logits" f32 [R, vocab], "logprobs" f32 [R], "top_ids" i32 [R, kMaxLogprobs] and "top_logprobs" f32 [R,
  // kMaxLogprobs] (ops/logprobs.h) and, by name, "hidden.N". Null for a family that only embeds.
  Result<Graph> (*build_step)(const BuildContext& context) = nullptr;
  // The `embed` program of an embedder: every sequence of a step is there whole, from position 0. Output "embeddings",
  // f32 [S, embedding_size]. Null for a family that only generates.
  Result<Graph> (*build_embed)(const BuildContext& context) = nullptr;
};

// Errors: unsupported for an unknown model_type; the message lists those that are known.
Result<const ModelFamily*> find_family(std::string_view model_type);
std::span<const ModelFamily* const> all_families();

// Drops every other output and what only they needed: all but "hidden.N" for serving, "hidden.N" alone for a drafter.
// A sampler whose tokens are dropped goes too, although it writes "last_token".
void keep_outputs(Graph& graph, const std::vector<std::string>& names);

}  // namespace headrace::models

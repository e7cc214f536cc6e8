#pragma once
// The one table of weights: how GGUF and Hugging Face name the same tensor, and its extents in terms of the
// configuration. A further architecture is a row of families and the rows of weights that it adds.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

struct Family {
  std::string_view gguf_architecture;  // general.architecture
  std::string_view model_type;         // config.json's model_type
  // GGUF permutes q and k rows of this family so that rotation pairs neighbours (2i, 2i + 1) instead of
  // halves.
  bool gguf_rope_interleaved;
  // GGUF stores norm weights of this family with the one that the checkpoint leaves out.
  bool gguf_norms_plus_one = false;
};

enum class Extent : uint8_t { none, vocab, hidden, intermediate, q_heads, kv_heads, head_dim };

struct WeightRow {
  std::string_view families;  // model_types, separated by spaces; empty for every one
  bool per_layer;             // names follow "blk.N." and "model.layers.N."
  std::string_view gguf;      // without ".weight" or ".bias"
  std::string_view hf;
  Extent rows, columns;  // of the weight, [rows, columns]; a vector has no columns
  bool optional;         // present in some checkpoints only
};

// Errors: unsupported, naming the one asked for and those that are known.
Result<const Family*> family_of_gguf(std::string_view architecture);
Result<const Family*> family_of_model_type(std::string_view model_type);

// The Hugging Face name of a GGUF tensor; the name itself where the table has none.
std::string hf_name(const Family& family, std::string_view gguf_name);

// The GGUF name of a Hugging Face tensor; empty where the table has none.
std::string gguf_name(const Family& family, std::string_view hf_name);
// The family as which GGUF stores a model_type: its own, or llama for those that GGUF calls so. Errors: unsupported.
Result<const Family*> family_in_gguf(std::string_view model_type);

std::span<const WeightRow> weight_rows();
bool belongs(const WeightRow& row, const Family& family);

}  // namespace headrace::io

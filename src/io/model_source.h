#pragma once
// One opened checkpoint, whatever its container: configuration under Hugging Face names, tensors under Hugging Face
// names, bytes mapped from disk. GGUF is read by gguf.h and presented here; safetensors folders and dummy weights
// implement the same class, so that models/ and runtime/ never learn where weights come from.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/config_map.h"
#include "io/vocab_metadata.h"
#include "quant/format.h"

namespace headrace::io {

struct SourceTensor {
  std::string name;            // the Hugging Face name: model.layers.0.self_attn.q_proj.weight
  Format format = Format::f32;
  std::vector<int64_t> shape;  // outermost first: a linear's weight is [out_features, in_features]
  uint64_t bytes = 0;

  // Slices of the outermost dimension that are whole blocks: the elements of a vector, but a vector of blocks is one row.
  int64_t rows() const {
    if (shape.empty()) return 1;
    return shape.size() == 1 && format_info(format).block_elements > 1 ? 1 : shape[0];
  }
  uint64_t row_bytes() const { return rows() == 0 ? 0 : bytes / static_cast<uint64_t>(rows()); }
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // Opens a GGUF file (any shard of a split one opens all) or a Hugging Face folder. Errors: not_found, malformed,
  // unsupported.
  static Result<std::unique_ptr<ModelSource>> open(const std::string& path);
  // A folder or file with a config.json and no weights: every tensor is random normal (mean 0, standard deviation
  // 0.02; norms are 1 + noise), a function of (seed, name) alone, in `format`.
  static Result<std::unique_ptr<ModelSource>> open_dummy(const std::string& path, uint64_t seed, Format format);

  virtual const ConfigMap& config() const = 0;  // model_type, hidden_size, ... under their HF names
  virtual std::span<const SourceTensor> tensors() const = 0;
  virtual const SourceTensor* find(std::string_view name) const = 0;

  // The raw bytes of rows [begin, end) of `tensor`. Valid until the source is destroyed, or, where the source generates them in
  // `scratch` (dummy weights), until that is used again. Thread-safe for different scratch vectors.
  virtual Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                                  std::vector<std::byte>& scratch) const = 0;
  Result<std::span<const std::byte>> bytes(const SourceTensor& tensor, std::vector<std::byte>& scratch) const {
    return rows(tensor, 0, tensor.rows(), scratch);
  }
  // These rows were packed elsewhere: the pages that they fill may leave memory.
  virtual void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const = 0;

  // The vocabulary that the file itself carries. Errors: not_found where it lies elsewhere (a tokenizer.json beside the
  // weights, or nowhere for dummy weights); malformed.
  virtual Result<VocabMetadata> vocab() const;

  // What identifies the checkpoint for caches and /v1/models.
  virtual const std::string& path() const = 0;
};

}  // namespace headrace::io

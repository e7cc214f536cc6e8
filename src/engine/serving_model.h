#pragma once
// A checkpoint made ready to answer: weights on their device, tokenizer, chat template and engine. What `run`, `serve` and
// `bench` open. Thread-safe after open().

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/device.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "quant/format.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace headrace {
struct DtypePolicy;
}
namespace headrace::io {
class ModelSource;
struct VocabMetadata;
}
namespace headrace::runtime {
class LocalRunner;
struct RunnerOptions;
}

namespace headrace::engine {

// The tokenizer that a checkpoint carries: in its own metadata, or as tokenizer.json beside the weights. Errors: not_found,
// malformed, unsupported.
Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const io::ModelSource& source);
Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(io::VocabMetadata vocab);

struct ServingOptions {
  std::string name;               // of the model in /v1/models; empty: of the file or folder, without its ending
  EngineConfig config;
  bool exact = false;             // float32 activations, and KV unless kv_dtype says otherwise
  std::optional<DType> kv_dtype;  // of the cache; none: f16, bf16 off the CPU, and f32 with `exact`
  std::vector<std::string> skip_passes;
  DeviceId device;
  bool deterministic = false;     // off the CPU: only kernels that compute each row by itself
  Isa isa = detect_isa();
  bool dummy_weights = false;     // a config.json alone; the seed is 0
  Format dummy_format = Format::bf16;
  std::optional<Format> weights;  // rounded to this while they load (io/requantized_source.h)
  // Called from the opening thread with the fraction of weights packed, in [0, 1]; may be null.
  std::function<void(double fraction, std::string_view what)> progress;
};

struct ModelCard {
  std::string id;           // ServingOptions::name: what /v1/models lists
  std::string path;
  std::string model_type;
  int64_t vocab_size = 0;
  int64_t max_context = 0;
  int64_t embedding_size = 0;       // more than 0: an embedder
  double num_parameters = 0;
  uint64_t weight_bytes = 0;        // as packed: what one decode step reads at least
  double flops_per_token = 0;       // of the step program's matrix products, context 0
  uint64_t kv_bytes_per_token = 0;
  double load_seconds = 0;
};

struct RawOptions {
  bool add_special_tokens = true;  // BOS and the like, as the tokenizer adds them
  bool allow_special = true;       // special tokens written in the text are recognised, as `tokenizers` does
};

struct ChatOptions {
  // A JSON object of further template variables (tools, add_generation_prompt and the like), or "".
  std::string_view extra_json = {};
  // Special tokens written in messages and variables become control ids too. Off, nobody who writes a message, the
  // result of a tool or a description can end a turn or speak as the system.
  bool allow_special = false;
};

// What the arithmetic may use by these options.
DtypePolicy policy_of(const ServingOptions& options);

// The checkpoint that the options ask for: dummy weights, and weights in another format. Off the CPU matrices are rounded to bf16 but with
// `exact`. Errors: those of the source; unsupported for `weights` that the device does not multiply.
Result<std::unique_ptr<io::ModelSource>> open_source(const std::string& path, const ServingOptions& options);

// A runner on the device of the options, which fill all of `runner_options` but its sizes. Errors: those of LocalRunner::open and of the
// device's queue.
Result<std::unique_ptr<runtime::LocalRunner>> open_runner(const io::ModelSource& source, const ServingOptions& options,
                                                          runtime::RunnerOptions runner_options);

class ServingModel {
 public:
  static Result<std::unique_ptr<ServingModel>> open(const std::string& path, const ServingOptions& options);
  ~ServingModel();

  const ModelCard& card() const { return card_; }
  // The runner's program and its passes, for `inspect --plan` and the bench. Owned by the engine.
  const runtime::LocalRunner& runner() const { return *runner_; }

  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return chat_template_ != nullptr; }
  Engine& engine() { return *engine_; }

  // `messages_json`: an array of {role, content, ...}. Errors: those of ChatTemplate and Tokenizer; unsupported without a
  // template.
  Result<text::RenderedPrompt> render_chat(std::string_view messages_json, std::string_view extra_json = {}) const;
  Result<std::vector<int32_t>> encode_chat(std::string_view messages_json, const ChatOptions& options = {}) const;
  // A raw prompt.
  Result<std::vector<int32_t>> encode_raw(std::string_view prompt, const RawOptions& options = {}) const;
  // A text to embed, cut to what the model takes (encode_truncated).
  Result<std::vector<int32_t>> encode_input(std::string_view text) const;

 private:
  ServingModel() = default;
  ModelCard card_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_template_;
  std::map<std::string, std::string> special_tokens_;  // as TextParts
  runtime::LocalRunner* runner_ = nullptr;  // owned by engine_
  std::unique_ptr<Engine> engine_;
};

}  // namespace headrace::engine

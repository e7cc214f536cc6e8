#include "engine/serving_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "engine/embedding.h"
#include "engine/text_parts.h"
#include "engine/vocab_spec.h"
#include "io/model_source.h"
#include "io/requantized_source.h"
#include "runtime/local_runner.h"

namespace headrace::engine {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDummySeed = 0;

// Multiply-adds of the step's matrix products for one token, twice.
double flops_per_token(const Graph& graph) {
  Bindings one;
  for (int symbol = 0; symbol < graph.symbols.size(); ++symbol) one.set(static_cast<SymbolId>(symbol), 1);
  double flops = 0;
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) {
      if (input == kNone) continue;
      const Value& value = graph.values[input];
      const bool matrix = value.role == ValueRole::weight && value.type.shape.rank() == 2;
      if (matrix && node.op->name.starts_with("matmul")) flops += 2.0 * double(value.type.shape.elements(one));
    }
  }
  return flops;
}

}  // namespace

Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const io::ModelSource& source) {
  HR_ASSIGN_OR_RETURN(TextParts parts, open_text_parts(source));
  if (parts.tokenizer == nullptr) {
    return error(Code::not_found, "{}: no tokenizer in the file and no tokenizer.json beside it", source.path());
  }
  return std::move(parts.tokenizer);
}

Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(io::VocabMetadata vocab) {
  return text::Tokenizer::from_vocab(to_spec(std::move(vocab)));
}

DtypePolicy policy_of(const ServingOptions& options) {
  const bool on_cpu = options.device.kind == DeviceKind::cpu;
  DtypePolicy policy = options.exact ? DtypePolicy::exact() : on_cpu ? DtypePolicy() : DtypePolicy::bf16();
  policy.kv = options.kv_dtype.value_or(policy.kv);
  return policy;
}

Result<std::unique_ptr<io::ModelSource>> open_source(const std::string& path, const ServingOptions& options) {
  HR_ASSIGN_OR_RETURN(std::unique_ptr<io::ModelSource> source,
                      options.dummy_weights ? io::ModelSource::open_dummy(path, kDummySeed, options.dummy_format)
                                            : io::ModelSource::open(path));
  std::optional<Format> format = options.weights;
  if (options.device.kind != DeviceKind::cpu && !options.exact) {
    if (format && *format != Format::bf16) {
      return error(Code::unsupported, "--weights {}: this device multiplies bf16; leave the option out, or add --exact for float32",
                   format_info(*format).name);
    }
    const auto is_narrow = [](const io::SourceTensor& tensor) { return tensor.shape.size() != 2 || tensor.format == Format::bf16; };
    if (!std::ranges::all_of(source->tensors(), is_narrow)) format = Format::bf16;
  }
  if (!format) return source;
  return io::requantize(std::move(source), *format);
}

Result<std::unique_ptr<runtime::LocalRunner>> open_runner(const io::ModelSource& source, const ServingOptions& options,
                                                          runtime::RunnerOptions runner_options) {
  runner_options.policy = policy_of(options);
  runner_options.skip_passes = options.skip_passes;
  runner_options.isa = options.isa;
  runner_options.row_invariant = options.deterministic;
  if (options.progress) {
    runner_options.progress = [&](double fraction) { options.progress(fraction, "packing weights"); };
  }
  const auto threads = static_cast<int>(options.config.threads);
  const uint64_t memory = options.config.memory_bytes;
  HR_ASSIGN_OR_RETURN(std::shared_ptr<runtime::DeviceQueue> queue,
                      options.device.kind == DeviceKind::cpu ? runtime::DeviceQueue::cpu(threads, memory)
                                                             : runtime::DeviceQueue::cuda(options.device.index, threads, memory));
  return runtime::LocalRunner::open(source, std::move(queue), std::move(runner_options));
}

ServingModel::~ServingModel() = default;

Result<std::unique_ptr<ServingModel>> ServingModel::open(const std::string& path, const ServingOptions& options) {
  const TimePoint start = Clock::now();
  HR_RETURN_IF_ERROR(check_config(options.config));
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, open_source(path, options));
  HR_ASSIGN_OR_RETURN(TextParts parts, open_text_parts(*source));

  runtime::RunnerOptions runner_options;
  runner_options.model_name = options.name.empty() ? fs::path(path).stem().string() : options.name;
  runner_options.max_context = int32_t(options.config.max_context);
  runner_options.max_seqs = int32_t(options.config.max_seqs);
  runner_options.max_tokens = int32_t(options.config.max_batched_tokens);
  runner_options.kv_tokens = options.config.kv_tokens;
  HR_ASSIGN_OR_RETURN(auto runner, open_runner(*source, options, runner_options));

  std::unique_ptr<ServingModel> model(new ServingModel());
  ModelCard& card = model->card_;
  card.id = runner_options.model_name;
  card.path = path;
  card.model_type = runner->info().model_type;
  card.vocab_size = runner->info().vocab_size;
  card.max_context = runner->limits().max_context;
  card.embedding_size = runner->limits().embedding_size;
  card.num_parameters = runner->info().num_parameters;
  card.weight_bytes = runner->weight_bytes();
  card.flops_per_token = flops_per_token(runner->program().graph());
  for (const KvSpec& spec : runner->info().layer_kv) card.kv_bytes_per_token += uint64_t(spec.token_bytes());

  std::vector<int32_t> end_ids = runner->info().eos_token_ids;
  end_ids.insert(end_ids.end(), parts.end_ids.begin(), parts.end_ids.end());
  model->tokenizer_ = std::move(parts.tokenizer);
  model->chat_template_ = std::move(parts.chat_template);
  model->special_tokens_ = std::move(parts.special_tokens);
  model->runner_ = runner.get();
  model->engine_ = std::make_unique<Engine>(std::move(runner), options.config, std::move(end_ids));
  card.load_seconds = seconds_between(start, Clock::now());
  log_info("{}: ready in {:.2f} s, {} bytes of weights, context {}", card.id, card.load_seconds, card.weight_bytes,
           card.max_context);
  return model;
}

Result<text::RenderedPrompt> ServingModel::render_chat(std::string_view messages_json,
                                                       std::string_view extra_json) const {
  if (card_.embedding_size > 0) return error(Code::unsupported, "{}: makes embeddings and generates no text", card_.id);
  if (tokenizer_ == nullptr || chat_template_ == nullptr) {
    return error(Code::unsupported, "{}: carries no {}; use a raw prompt (--raw, /v1/completions)", card_.id,
                 tokenizer_ == nullptr ? "tokenizer" : "chat template");
  }
  // Templates write dicts in the order of their keys.
  using Json = nlohmann::ordered_json;
  Json variables = Json::object();
  if (!extra_json.empty()) {
    variables = Json::parse(extra_json, nullptr, false);
    if (!variables.is_object()) return error(Code::invalid_argument, "template variables: want a JSON object");
  }
  Json messages = Json::parse(messages_json, nullptr, false);
  if (!messages.is_array()) return error(Code::invalid_argument, "messages: want a JSON array");
  variables["messages"] = std::move(messages);
  variables.emplace("add_generation_prompt", true);
  // The checkpoint's, whatever the caller passes: a template's special tokens become control ids.
  for (const auto& [name, token] : special_tokens_) variables[name] = token;
  return chat_template_->render(variables.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Result<std::vector<int32_t>> ServingModel::encode_chat(std::string_view messages_json, const ChatOptions& options) const {
  HR_ASSIGN_OR_RETURN(const text::RenderedPrompt prompt, render_chat(messages_json, options.extra_json));
  text::EncodeOptions encode;
  encode.add_special_tokens = false;  // the template wrote them
  encode.special = options.allow_special ? text::SpecialTokens::everywhere : text::SpecialTokens::in_trusted;
  encode.trusted = prompt.trusted;
  HR_ASSIGN_OR_RETURN(text::Encoding encoding, tokenizer_->encode(prompt.text, encode));
  return std::move(encoding.ids);
}

Result<std::vector<int32_t>> ServingModel::encode_raw(std::string_view prompt, const RawOptions& options) const {
  if (tokenizer_ == nullptr) return error(Code::unsupported, "{}: carries no tokenizer", card_.id);
  text::EncodeOptions encode;
  encode.add_special_tokens = options.add_special_tokens;
  encode.special = options.allow_special ? text::SpecialTokens::everywhere : text::SpecialTokens::nowhere;
  HR_ASSIGN_OR_RETURN(text::Encoding encoding, tokenizer_->encode(prompt, encode));
  return std::move(encoding.ids);
}

Result<std::vector<int32_t>> ServingModel::encode_input(std::string_view text) const {
  if (tokenizer_ == nullptr) return error(Code::unsupported, "{}: carries no tokenizer", card_.id);
  return encode_truncated(*tokenizer_, text, engine_->limits().max_context);
}

}  // namespace headrace::engine

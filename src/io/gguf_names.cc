// Translates GGUF metadata in both directions. kKeys holds the plain renamings; what needs a thought has a function below.
#include "io/gguf_names.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headrace::io {
namespace {

enum class Kind : uint8_t { integer, number, text };

struct KeyRow {
  std::string_view gguf;  // after "ARCHITECTURE." unless it holds a full name
  std::string_view hf;
  Kind kind;
  bool required;
};

constexpr KeyRow kKeys[] = {
    {"embedding_length", "hidden_size", Kind::integer, true},
    {"block_count", "num_hidden_layers", Kind::integer, true},
    {"feed_forward_length", "intermediate_size", Kind::integer, true},
    {"attention.head_count", "num_attention_heads", Kind::integer, true},
    {"attention.head_count_kv", "num_key_value_heads", Kind::integer, false},
    {"attention.key_length", "head_dim", Kind::integer, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, false},
    {"attention.sliding_window", "sliding_window", Kind::integer, false},
    {"context_length", "max_position_embeddings", Kind::integer, true},
    {"vocab_size", "vocab_size", Kind::integer, false},
    {"rope.freq_base", "rope_theta", Kind::number, false},
    {"rope.scaling.type", "rope_scaling.rope_type", Kind::text, false},
    {"rope.scaling.factor", "rope_scaling.factor", Kind::number, false},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings", Kind::integer,
     false},
    {"rope.scaling.attn_factor", "rope_scaling.attention_factor", Kind::number, false},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", Kind::number, false},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", Kind::number, false},
};

constexpr std::pair<std::string_view, int32_t VocabMetadata::*> kTokenIds[] = {
    {"tokenizer.ggml.bos_token_id", &VocabMetadata::bos_id},     {"tokenizer.ggml.eos_token_id", &VocabMetadata::eos_id},
    {"tokenizer.ggml.unknown_token_id", &VocabMetadata::unk_id}, {"tokenizer.ggml.padding_token_id", &VocabMetadata::pad_id},
    {"tokenizer.ggml.eot_token_id", &VocabMetadata::eot_id},     {"tokenizer.ggml.cls_token_id", &VocabMetadata::cls_id},
    {"tokenizer.ggml.seperator_token_id", &VocabMetadata::sep_id}};

// A value per layer (as some architectures have) stands for itself when all are equal.
Result<int64_t> uniform(const GgufEntry& entry) {
  if (const auto value = entry.integer()) return *value;
  const GgufArray* array = entry.array();
  const auto values = array == nullptr ? std::nullopt : array->integers();
  if (!values || values->empty()) {
    return error(Code::malformed, "{} is of type {}; want an integer", entry.key, gguf_type_name(entry.type));
  }
  if (!std::ranges::all_of(*values, [&](int64_t value) { return value == values->front(); })) {
    return error(Code::unsupported, "{} differs between layers, which Headrace does not run", entry.key);
  }
  return values->front();
}

Status translate(const GgufEntry& entry, const KeyRow& row, ConfigMap& config) {
  switch (row.kind) {
    case Kind::integer: {
      HR_ASSIGN_OR_RETURN(const int64_t value, uniform(entry));
      config.set(std::string(row.hf), value);
      return Status();
    }
    case Kind::number: {
      const auto value = entry.number();
      if (!value || !std::isfinite(*value)) {
        return make_status(Code::malformed, "{} is of type {} or not finite; want a number", entry.key,
                           gguf_type_name(entry.type));
      }
      config.set(std::string(row.hf), *value);
      return Status();
    }
    case Kind::text: {
      const auto value = entry.string();
      if (!value) {
        return make_status(Code::malformed, "{} is of type {}; want a string", entry.key,
                           gguf_type_name(entry.type));
      }
      config.set(std::string(row.hf), std::string(*value));
      return Status();
    }
  }
  return Status();
}

// Values that GGUF leaves out because they follow from others.
Status fill_in(const GgufModel& model, const Family& family, ConfigMap& config) {
  HR_ASSIGN_OR_RETURN(const int64_t hidden, config.get_int("hidden_size", 1, int64_t{1} << 24));
  HR_ASSIGN_OR_RETURN(const int64_t heads, config.get_int("num_attention_heads", 1, 1 << 16));
  if (!config.has("num_key_value_heads")) config.set("num_key_value_heads", heads);
  if (!config.has("head_dim")) {
    if (hidden % heads != 0) {
      return make_status(
          Code::malformed,
          "{} heads do not divide the embedding length {}, and {}.attention.key_length is absent", heads,
          hidden, family.gguf_architecture);
    }
    config.set("head_dim", hidden / heads);
  }
  if (!config.has("vocab_size")) {
    const GgufEntry* tokens = model.find("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->array() != nullptr) {
      config.set("vocab_size", static_cast<int64_t>(tokens->array()->count()));
    } else if (const GgufModel::Tensor embedding = model.find_tensor("token_embd.weight")) {
      config.set("vocab_size", static_cast<int64_t>(embedding.info->dims[1]));
    }
  }
  config.set("tie_word_embeddings", !model.find_tensor("output.weight"));
  config.set("attention_bias", static_cast<bool>(model.find_tensor("blk.0.attn_q.bias")));
  config.set("mlp_bias", static_cast<bool>(model.find_tensor("blk.0.ffn_up.bias")));
  config.set("rope_interleaved", family.gguf_rope_interleaved);
  if (family.gguf_norms_plus_one) config.set("rms_norm_offset", 0.0);
  if (family.model_type == "gemma3_text") {
    // The file leaves these to its readers: the 27B model, known by its 62 layers, scales queries by the hidden size.
    const int64_t layers = config.get_int_or("num_hidden_layers", 0, 0, int64_t{1} << 32).value_or(0);
    const int64_t head_dim = config.get_int_or("head_dim", 0, 0, int64_t{1} << 32).value_or(0);
    config.set("query_pre_attn_scalar", layers == 62 ? hidden / heads : head_dim);
  }
  return Status();
}

// Rotary settings: a part of the head only, factors per frequency, and the older single-number scale.
Status rotary(const GgufModel& model, const Family& family, ConfigMap& config) {
  const std::string prefix = std::string(family.gguf_architecture) + ".rope.";
  if (const GgufEntry* entry = model.find(prefix + "dimension_count")) {
    HR_ASSIGN_OR_RETURN(const int64_t rotated, uniform(*entry));
    HR_ASSIGN_OR_RETURN(const int64_t head_dim, config.get_int("head_dim", 1, 1 << 16));
    if (rotated < 2 || rotated > head_dim || rotated % 2 != 0) {
      return make_status(Code::malformed, "{} is {}; want an even number in 2..{} (the head's width)",
                         entry->key, rotated, head_dim);
    }
    if (rotated != head_dim) {
      config.set("partial_rotary_factor", static_cast<double>(rotated) / static_cast<double>(head_dim));
    }
  }
  if (const GgufEntry* entry = model.find(prefix + "scale_linear")) {
    const auto factor = entry->number();
    if (!factor || !(*factor > 0))
      return make_status(Code::malformed, "{}: want a number above 0", entry->key);
    if (*factor != 1.0 && !config.has("rope_scaling.rope_type")) {
      config.set("rope_scaling.rope_type", std::string("linear"));
      config.set("rope_scaling.factor", *factor);
    }
  }
  if (config.has("rope_scaling.rope_type") && config.get_string("rope_scaling.rope_type").value() == "none") {
    config.set("rope_scaling.rope_type", std::string("default"));
  }
  // Converters write Llama 3's scaling as a tensor of divisors, one per frequency.
  const GgufModel::Tensor factors = model.find_tensor("rope_freqs.weight");
  if (!factors) return Status();
  constexpr uint64_t kMaxFactors = 4096;
  if (factors.info->format != Format::f32 || factors.info->rank != 1 || factors.info->dims[0] > kMaxFactors) {
    return make_status(Code::malformed, "rope_freqs.weight: want one row of at most {} f32 values",
                       kMaxFactors);
  }
  HR_RETURN_IF_ERROR(check_finite_blocks(Format::f32, factors.data()).with_context("rope_freqs.weight"));
  std::vector<float> values(factors.info->dims[0]);
  format_info(Format::f32).decode(factors.data().data(), static_cast<int64_t>(values.size()), values.data());
  config.set("rope_scaling.freq_factors", std::vector<double>(values.begin(), values.end()));
  return Status();
}

// Token ids that generation needs. The file's are unsigned; "none" is an absent key.
Status token_ids(const GgufModel& model, ConfigMap& config) {
  static constexpr std::pair<std::string_view, std::string_view> kIds[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token_id"},
      {"tokenizer.ggml.eos_token_id", "eos_token_id"},
      {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
  for (const auto& [gguf, hf] : kIds) {
    const GgufEntry* entry = model.find(gguf);
    if (entry == nullptr) continue;
    HR_RETURN_IF_ERROR(translate(*entry, {gguf, hf, Kind::integer, false}, config));
  }
  return Status();
}

Result<std::string> text_or_empty(const GgufModel& model, std::string_view key) {
  const GgufEntry* entry = model.find(key);
  if (entry == nullptr) return std::string();
  const auto text = entry->string();
  if (!text)
    return error(Code::malformed, "{} is of type {}; want a string", key, gguf_type_name(entry->type));
  return std::string(*text);
}

Result<std::vector<std::string>> texts(const GgufModel& model, std::string_view key) {
  const GgufEntry* entry = model.find(key);
  if (entry == nullptr) return std::vector<std::string>();
  const auto items = entry->array() == nullptr ? std::nullopt : entry->array()->strings();
  if (!items) return error(Code::malformed, "{}: want an array of strings", key);
  return std::vector<std::string>(items->begin(), items->end());
}

// An id inside a vocabulary of `count`, or -1 where the key is absent.
Result<int32_t> id_or_none(const GgufModel& model, std::string_view key, size_t count) {
  const GgufEntry* entry = model.find(key);
  if (entry == nullptr) return -1;
  const auto id = entry->integer();
  if (!id || *id < 0 || *id >= static_cast<int64_t>(count)) {
    return error(Code::malformed, "{}: want a token id in 0..{}, got {}", key,
                 static_cast<int64_t>(count) - 1,
                 id ? fmt::format("{}", *id) : std::string(gguf_type_name(entry->type)));
  }
  return static_cast<int32_t>(*id);
}

Result<bool> flag_or(const GgufModel& model, std::string_view key, bool fallback) {
  const GgufEntry* entry = model.find(key);
  if (entry == nullptr) return fallback;
  const auto flag = entry->boolean();
  if (!flag) return error(Code::malformed, "{} is of type {}; want a bool", key, gguf_type_name(entry->type));
  return *flag;
}

// The bytes of an array of 8-bit integers; empty when the key is absent.
Result<std::string> bytes_or_empty(const GgufModel& model, std::string_view key) {
  const GgufEntry* entry = model.find(key);
  if (entry == nullptr) return std::string();
  const auto values = entry->array() == nullptr ? std::nullopt : entry->array()->integers();
  if (!values || !std::all_of(values->begin(), values->end(), [](int64_t v) { return v >= -128 && v < 256; })) {
    return error(Code::malformed, "{}: want an array of bytes", key);
  }
  std::string out;
  out.reserve(values->size());
  for (const int64_t value : *values) out.push_back(static_cast<char>(value));
  return out;
}

// `values` (an array of scores or types) has one element per token, or the key is absent.
template <class Out, class In>
Status per_token(std::string_view key, const std::optional<std::vector<In>>& values, size_t tokens,
                 std::vector<Out>& out) {
  if (!values || values->size() != tokens) {
    return make_status(Code::malformed, "{}: want {} numbers, one per token, got {}", key, tokens,
                       values ? fmt::format("{}", values->size()) : "something else");
  }
  out.reserve(tokens);
  for (const In value : *values) out.push_back(static_cast<Out>(value));
  return Status();
}

// The rotation's keys as older files have them, which is how GGUF divides them: newer ones hold all in rope_parameters, one
// object for every layer or one for each kind.
ConfigMap with_older_rope_keys(const ConfigMap& config) {
  ConfigMap out = config;
  constexpr std::string_view kNewer = "rope_parameters.", kFull = "full_attention.", kSliding = "sliding_attention.";
  for (auto at = config.values().lower_bound(kNewer); at != config.values().end() && at->first.starts_with(kNewer); ++at) {
    std::string_view key = std::string_view(at->first).substr(kNewer.size());
    const bool sliding = key.starts_with(kSliding);
    if (sliding || key.starts_with(kFull)) key.remove_prefix(key.find('.') + 1);
    if (key != "rope_theta") {
      if (!sliding) out.set(fmt::format("rope_scaling.{}", key), at->second);
    } else {
      out.set(sliding ? "rope_local_base_freq" : "rope_theta", at->second);
    }
  }
  const auto type = out.values().find("rope_scaling.type");
  if (type != out.values().end() && !out.has("rope_scaling.rope_type")) out.set("rope_scaling.rope_type", type->second);
  return out;
}

// Whether the file leaves this key out although the configuration has it: no rotation to scale, or one that is a tensor
// (llama3); a window that GGUF's readers take from the architecture alone.
bool left_out(const KeyRow& row, const Family& family, std::string_view rope_type) {
  if (row.hf == "sliding_window") return family.model_type != "gemma3_text";
  return row.gguf.starts_with("rope.scaling.") && (rope_type == "default" || rope_type == "llama3");
}

Status add_key(const ConfigMap& config, const KeyRow& row, const std::string& key, GgufMetadata& metadata) {
  switch (row.kind) {
    case Kind::integer: {
      HR_ASSIGN_OR_RETURN(const int64_t value, config.get_int(row.hf, 0, std::numeric_limits<uint32_t>::max()));
      metadata.add_u32(key, static_cast<uint32_t>(value));
      return Status();
    }
    case Kind::number: {
      HR_ASSIGN_OR_RETURN(const double value, config.get_number(row.hf, -1e30, 1e30));
      metadata.add_f32(key, static_cast<float>(value));
      return Status();
    }
    case Kind::text: {
      HR_ASSIGN_OR_RETURN(const std::string value, config.get_string(row.hf));
      metadata.add_text(key, value);
      return Status();
    }
  }
  return Status();
}

}  // namespace

Status add_config(const ConfigMap& source, const Family& family, GgufMetadata& metadata) {
  ConfigMap config = with_older_rope_keys(source);
  HR_ASSIGN_OR_RETURN(const std::string rope_type, config.get_string_or("rope_scaling.rope_type", "default"));
  constexpr std::string_view kRopeTypes[] = {"default", "linear", "yarn", "llama3"};
  if (std::ranges::find(kRopeTypes, rope_type) == std::end(kRopeTypes)) {
    return make_status(Code::unsupported, "rope_type \"{}\": GGUF has keys for linear and yarn, and a tensor for llama3",
                       rope_type.substr(0, 64));
  }
  // Readers of GGUF want what transformers lets a file leave out.
  if (!config.has("rms_norm_eps")) config.set("rms_norm_eps", 1e-6);
  metadata.add_text("general.architecture", family.gguf_architecture);
  for (const KeyRow& row : kKeys) {
    const bool there = config.has(row.hf) && !left_out(row, family, rope_type);
    if (there || row.required) {
      HR_RETURN_IF_ERROR(add_key(config, row, fmt::format("{}.{}", family.gguf_architecture, row.gguf), metadata));
    }
  }
  HR_ASSIGN_OR_RETURN(const int64_t hidden, config.get_int("hidden_size", 1, 1 << 24));
  HR_ASSIGN_OR_RETURN(const int64_t heads, config.get_int("num_attention_heads", 1, 1 << 16));
  HR_ASSIGN_OR_RETURN(const int64_t head_dim, config.get_int_or("head_dim", std::max<int64_t>(hidden / heads, 1), 1, 1 << 16));
  HR_ASSIGN_OR_RETURN(const double rotated, config.get_number_or("partial_rotary_factor", 1.0, 0.0, 1.0));
  metadata.add_u32(fmt::format("{}.attention.value_length", family.gguf_architecture), static_cast<uint32_t>(head_dim));
  metadata.add_u32(fmt::format("{}.rope.dimension_count", family.gguf_architecture),
                   static_cast<uint32_t>(static_cast<double>(head_dim) * rotated));
  return Status();
}

void add_vocab(const VocabMetadata& vocab, GgufMetadata& metadata) {
  metadata.add_text("tokenizer.ggml.model", vocab.model);
  if (!vocab.pre.empty()) metadata.add_text("tokenizer.ggml.pre", vocab.pre);
  metadata.add_texts("tokenizer.ggml.tokens", vocab.tokens);
  if (!vocab.scores.empty()) metadata.add_f32s("tokenizer.ggml.scores", vocab.scores);
  if (!vocab.types.empty()) metadata.add_i32s("tokenizer.ggml.token_type", vocab.types);
  if (!vocab.merges.empty()) metadata.add_texts("tokenizer.ggml.merges", vocab.merges);
  for (const auto& [key, id] : kTokenIds) {
    if (vocab.*id >= 0) metadata.add_u32(key, static_cast<uint32_t>(vocab.*id));
  }
  metadata.add_bool("tokenizer.ggml.add_bos_token", vocab.add_bos);
  metadata.add_bool("tokenizer.ggml.add_eos_token", vocab.add_eos);
  metadata.add_bool("tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
  if (!vocab.chat_template.empty()) metadata.add_text("tokenizer.chat_template", vocab.chat_template);
}

Result<const Family*> gguf_family(const GgufModel& model) {
  HR_ASSIGN_OR_RETURN(const std::string architecture, text_or_empty(model, "general.architecture"));
  if (architecture.empty()) {
    return error(Code::malformed, "metadata 'general.architecture' is missing; want a model family's name");
  }
  return family_of_gguf(architecture);
}

Result<ConfigMap> config_from_gguf(const GgufModel& model, const Family& family) {
  ConfigMap config;
  config.set("model_type", std::string(family.model_type));
  for (const KeyRow& row : kKeys) {
    const std::string key = fmt::format("{}.{}", family.gguf_architecture, row.gguf);
    const GgufEntry* entry = model.find(key);
    if (entry != nullptr) {
      HR_RETURN_IF_ERROR(translate(*entry, row, config));
    } else if (row.required) {
      return error(Code::malformed, "metadata '{}' is missing; a {} model needs it", key,
                   family.gguf_architecture);
    }
  }
  HR_RETURN_IF_ERROR(fill_in(model, family, config));
  HR_RETURN_IF_ERROR(rotary(model, family, config));
  HR_RETURN_IF_ERROR(token_ids(model, config));
  return config;
}

Result<VocabMetadata> vocab_from_gguf(const GgufModel& model) {
  VocabMetadata vocab;
  HR_ASSIGN_OR_RETURN(vocab.model, text_or_empty(model, "tokenizer.ggml.model"));
  HR_ASSIGN_OR_RETURN(vocab.tokens, texts(model, "tokenizer.ggml.tokens"));
  if (vocab.model.empty() || vocab.tokens.empty()) {
    return error(Code::not_found,
                 "the file holds no vocabulary (tokenizer.ggml.model and tokenizer.ggml.tokens)");
  }
  constexpr size_t kMaxTokens = size_t{1} << 26;
  if (vocab.tokens.size() > kMaxTokens) {
    return error(Code::malformed, "a vocabulary of {} tokens; want at most {}", vocab.tokens.size(),
                 kMaxTokens);
  }
  HR_ASSIGN_OR_RETURN(vocab.pre, text_or_empty(model, "tokenizer.ggml.pre"));
  HR_ASSIGN_OR_RETURN(vocab.merges, texts(model, "tokenizer.ggml.merges"));
  HR_ASSIGN_OR_RETURN(vocab.chat_template, text_or_empty(model, "tokenizer.chat_template"));
  const size_t count = vocab.tokens.size();
  if (const GgufEntry* entry = model.find("tokenizer.ggml.scores")) {
    const auto values = entry->array() == nullptr ? std::nullopt : entry->array()->numbers();
    HR_RETURN_IF_ERROR(per_token(entry->key, values, count, vocab.scores));
  }
  if (const GgufEntry* entry = model.find("tokenizer.ggml.token_type")) {
    const auto values = entry->array() == nullptr ? std::nullopt : entry->array()->integers();
    HR_RETURN_IF_ERROR(per_token(entry->key, values, count, vocab.types));
  }
  for (const auto& [key, id] : kTokenIds) {
    HR_ASSIGN_OR_RETURN(vocab.*id, id_or_none(model, key, count));
  }
  // A SentencePiece vocabulary ("llama") starts texts with BOS and a space unless the file says otherwise.
  const bool sentencepiece = vocab.model == "llama";
  HR_ASSIGN_OR_RETURN(vocab.add_bos, flag_or(model, "tokenizer.ggml.add_bos_token", sentencepiece));
  HR_ASSIGN_OR_RETURN(vocab.add_eos, flag_or(model, "tokenizer.ggml.add_eos_token", vocab.model == "t5"));
  HR_ASSIGN_OR_RETURN(vocab.add_space_prefix,
                      flag_or(model, "tokenizer.ggml.add_space_prefix", sentencepiece));
  HR_ASSIGN_OR_RETURN(vocab.remove_extra_whitespaces,
                      flag_or(model, "tokenizer.ggml.remove_extra_whitespaces", false));
  // Readers of the format apply it to Unigram vocabularies alone.
  vocab.remove_extra_whitespaces &= vocab.model == "t5";
  HR_ASSIGN_OR_RETURN(vocab.lowercase, flag_or(model, "tokenizer.ggml.normalizer.lowercase", true));
  HR_ASSIGN_OR_RETURN(vocab.strip_accents,
                      flag_or(model, "tokenizer.ggml.normalizer.strip_accents", vocab.lowercase));
  HR_ASSIGN_OR_RETURN(vocab.precompiled_charsmap, bytes_or_empty(model, "tokenizer.ggml.precompiled_charsmap"));
  return vocab;
}

}  // namespace headrace::io

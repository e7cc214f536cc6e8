// BERT and what shares its shape (MiniLM, BGE, E5, GTE of the first generation): post-norm encoder, learned positions, every
// token sees its whole text. It embeds: the states of a text are pooled to one vector. Config and weight names as in Hugging
// Face's BertModel, whose pooler and heads are left alone.
#include "models/blocks.h"
#include "models/pooling_config.h"

namespace headrace::models {
namespace {

struct BertConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  int64_t max_position_embeddings = 0, type_vocab_size = 0;
  double layer_norm_eps = 0;
  ops::UnaryKind hidden_act = ops::UnaryKind::gelu_erf;
  Pooling pooling;
  std::string prefix;  // of every weight's name: "bert." where the checkpoint has a head
};

Result<BertConfig> read_config(const BuildContext& context) {
  const io::ConfigMap& config = context.config;
  BertConfig c;
  HR_ASSIGN_OR_RETURN(c.vocab_size, config.get_int("vocab_size", 1, 1 << 22));
  HR_ASSIGN_OR_RETURN(c.hidden_size, config.get_int("hidden_size", 1, 1 << 17));
  HR_ASSIGN_OR_RETURN(c.intermediate_size, config.get_int("intermediate_size", 1, 1 << 20));
  HR_ASSIGN_OR_RETURN(c.num_hidden_layers, config.get_int("num_hidden_layers", 1, 1024));
  HR_ASSIGN_OR_RETURN(c.num_attention_heads, config.get_int("num_attention_heads", 1, 1024));
  if (c.hidden_size % c.num_attention_heads != 0) {
    return error(Code::malformed, "config hidden_size: want a multiple of num_attention_heads {}, got {}",
                 c.num_attention_heads, c.hidden_size);
  }
  HR_ASSIGN_OR_RETURN(c.max_position_embeddings, config.get_int_or("max_position_embeddings", 512, 1, 1 << 24));
  HR_ASSIGN_OR_RETURN(c.type_vocab_size, config.get_int_or("type_vocab_size", 2, 1, 1 << 16));
  HR_ASSIGN_OR_RETURN(c.layer_norm_eps, config.get_number_or("layer_norm_eps", 1e-12, 0.0, 1.0));
  HR_ASSIGN_OR_RETURN(const std::string act, config.get_string_or("hidden_act", "gelu"));
  HR_ASSIGN_OR_RETURN(c.hidden_act, ops::parse_hidden_act(act));
  HR_ASSIGN_OR_RETURN(const std::string positions, config.get_string_or("position_embedding_type", "absolute"));
  if (positions != "absolute") {
    return error(Code::unsupported, "config position_embedding_type: want \"absolute\", got \"{}\"", positions.substr(0, 64));
  }
  HR_ASSIGN_OR_RETURN(const bool is_decoder, config.get_bool_or("is_decoder", false));
  if (is_decoder) return error(Code::unsupported, "config is_decoder: want false, got true: BERT runs as an encoder only");
  HR_ASSIGN_OR_RETURN(c.pooling, read_pooling(config, c.max_position_embeddings));
  if (context.lookup("embeddings.word_embeddings.weight") == nullptr) c.prefix = "bert.";
  return c;
}

ValueId self_attention(StepProgram& step, const BertConfig& c, ValueId x, const std::string& module) {
  const ValueId q = step.linear(x, module + ".self.query", c.hidden_size, true);
  const ValueId k = step.linear(x, module + ".self.key", c.hidden_size, true);
  const ValueId v = step.linear(x, module + ".self.value", c.hidden_size, true);
  const ValueId mixed =
      step.attention_bidirectional(q, k, v, static_cast<int32_t>(c.num_attention_heads), module + ".self");
  return step.linear(mixed, module + ".output.dense", c.hidden_size, true);
}

ValueId mlp(StepProgram& step, const BertConfig& c, ValueId x, const std::string& module) {
  const ValueId up = step.linear(x, module + ".intermediate.dense", c.intermediate_size, true);
  return step.linear(step.activation(up, c.hidden_act, module + ".act_fn"), module + ".output.dense", c.hidden_size, true);
}

ValueId embed(StepProgram& step, const BertConfig& c) {
  const std::string at = c.prefix + "embeddings";
  ValueId h = step.token_rows(at + ".word_embeddings", c.vocab_size, c.hidden_size);
  h = step.add(h, step.segment_rows(at + ".token_type_embeddings", c.type_vocab_size, c.hidden_size), at + ".with_segment");
  h = step.add(h, step.position_rows(at + ".position_embeddings", c.max_position_embeddings, c.hidden_size),
               at + ".with_position");
  return step.layer_norm(h, at + ".LayerNorm", c.layer_norm_eps);
}

Result<Graph> build_embed(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const BertConfig c, read_config(context));
  StepProgram step(context, {});

  ValueId h = embed(step, c);
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string at = fmt::format("{}encoder.layer.{}", c.prefix, layer);
    step.hidden(layer, h);
    h = step.add(h, self_attention(step, c, h, at + ".attention"), at + ".attention_residual");
    h = step.layer_norm(h, at + ".attention.output.LayerNorm", c.layer_norm_eps);
    h = step.add(h, mlp(step, c, h, at), at + ".mlp_residual");
    h = step.layer_norm(h, at + ".output.LayerNorm", c.layer_norm_eps);
  }
  step.hidden(static_cast<int32_t>(c.num_hidden_layers), h);
  step.embeddings(h, c.pooling);
  return step.finish();
}

Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const BertConfig c, read_config(context));
  HR_ASSIGN_OR_RETURN(const Graph program, build_embed(context));
  ModelInfo info;
  info.model_type = "bert";
  info.vocab_size = c.vocab_size;
  info.hidden_size = info.embedding_size = c.hidden_size;
  info.num_layers = c.num_hidden_layers;
  info.max_position_embeddings = c.pooling.max_length;
  info.num_parameters = count_parameters(program, context.lookup);
  return info;
}

}  // namespace

extern const ModelFamily bert_family;
const ModelFamily bert_family = {.model_type = "bert", .info = info, .build_embed = build_embed};

}  // namespace headrace::models

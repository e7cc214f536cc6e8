// The families and the weights. Lookups are linear: a dozen rows, asked once per tensor at load.
#include "io/weight_names.h"

#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr Family kFamilies[] = {
    {"llama", "llama", true},
    {"", "mistral", false},  // GGUF calls it llama
    {"qwen2", "qwen2", false},
    {"qwen3", "qwen3", false},
    {"gemma3", "gemma3_text", false, true},
};

constexpr WeightRow kWeights[] = {
    // families, per layer, GGUF, Hugging Face, rows, columns, optional
    {"", false, "token_embd", "model.embed_tokens", Extent::vocab, Extent::hidden, false},
    {"", false, "output_norm", "model.norm", Extent::hidden, Extent::none, false},
    {"", false, "output", "lm_head", Extent::vocab, Extent::hidden, true},
    {"", true, "attn_norm", "input_layernorm", Extent::hidden, Extent::none, false},
    {"", true, "attn_q", "self_attn.q_proj", Extent::q_heads, Extent::hidden, false},
    {"", true, "attn_k", "self_attn.k_proj", Extent::kv_heads, Extent::hidden, false},
    {"", true, "attn_v", "self_attn.v_proj", Extent::kv_heads, Extent::hidden, false},
    {"", true, "attn_output", "self_attn.o_proj", Extent::hidden, Extent::q_heads, false},
    {"llama mistral qwen2 qwen3", true, "ffn_norm", "post_attention_layernorm", Extent::hidden, Extent::none, false},
    {"gemma3_text", true, "post_attention_norm", "post_attention_layernorm", Extent::hidden, Extent::none, false},
    {"gemma3_text", true, "ffn_norm", "pre_feedforward_layernorm", Extent::hidden, Extent::none, false},
    {"gemma3_text", true, "post_ffw_norm", "post_feedforward_layernorm", Extent::hidden, Extent::none, false},
    {"qwen3 gemma3_text", true, "attn_q_norm", "self_attn.q_norm", Extent::head_dim, Extent::none, false},
    {"qwen3 gemma3_text", true, "attn_k_norm", "self_attn.k_norm", Extent::head_dim, Extent::none, false},
    {"", true, "ffn_gate", "mlp.gate_proj", Extent::intermediate, Extent::hidden, false},
    {"", true, "ffn_up", "mlp.up_proj", Extent::intermediate, Extent::hidden, false},
    {"", true, "ffn_down", "mlp.down_proj", Extent::hidden, Extent::intermediate, false},
};

template <class Key>
Result<const Family*> find_family(std::string_view wanted, std::string_view what, Key key) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (key(family).empty()) continue;
    if (key(family) == wanted) return &family;
    known += known.empty() ? "" : ", ";
    known += key(family);
  }
  return error(Code::unsupported, "{} '{}' is not one that Headrace runs; it knows {}", what,
               shown_name(wanted), known);
}

constexpr std::string_view kGgufLayers = "blk.", kHfLayers = "model.layers.";

// "blk.12.attn_q" is layer "12" and "attn_q"; no layer in other names. Numbers are as the writer spells them:
// no sign, no leading zero, so that two names never lead to one.
struct Split {
  std::string_view layer;
  std::string_view rest;
};
Split split_layer(std::string_view name, std::string_view layers) {
  if (!name.starts_with(layers)) return {"", name};
  const size_t end = name.find('.', layers.size());
  if (end == std::string_view::npos) return {"", name};
  const std::string_view digits = name.substr(layers.size(), end - layers.size());
  const bool number = !digits.empty() && digits.size() <= 6 &&
                      digits.find_first_not_of("0123456789") == digits.npos &&
                      (digits.size() == 1 || digits[0] != '0');
  return number ? Split{digits, name.substr(end + 1)} : Split{"", name};
}

}  // namespace

std::span<const WeightRow> weight_rows() {
  return kWeights;
}

Result<const Family*> family_of_gguf(std::string_view architecture) {
  return find_family(architecture, "general.architecture",
                     [](const Family& f) { return f.gguf_architecture; });
}
Result<const Family*> family_of_model_type(std::string_view model_type) {
  return find_family(model_type, "model_type", [](const Family& f) { return f.model_type; });
}

Result<const Family*> family_in_gguf(std::string_view model_type) {
  HR_ASSIGN_OR_RETURN(const Family* family, family_of_model_type(model_type));
  return family->gguf_architecture.empty() ? family_of_gguf("llama") : family;
}

bool belongs(const WeightRow& row, const Family& family) {
  if (row.families.empty()) return true;
  std::string_view rest = row.families;
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    if (rest.substr(0, space) == family.model_type) return true;
    rest = space == rest.npos ? std::string_view() : rest.substr(space + 1);
  }
  return false;
}

namespace {

// `name`, whose parts stand in the column `from`, spelled by the column `to`; empty where the table has none.
std::string renamed(const Family& family, std::string_view name, std::string_view WeightRow::*from, std::string_view from_layers,
                    std::string_view WeightRow::*to, std::string_view to_layers) {
  const size_t dot = name.rfind('.');
  const std::string_view suffix = dot == name.npos ? "" : name.substr(dot);
  if (suffix != ".weight" && suffix != ".bias") return {};
  const auto [layer, rest] = split_layer(name.substr(0, dot), from_layers);
  for (const WeightRow& row : kWeights) {
    if (row.*from != rest || row.per_layer == layer.empty() || !belongs(row, family)) continue;
    return row.per_layer ? fmt::format("{}{}.{}{}", to_layers, layer, row.*to, suffix) : fmt::format("{}{}", row.*to, suffix);
  }
  return {};
}

}  // namespace

std::string hf_name(const Family& family, std::string_view gguf_name) {
  std::string name = renamed(family, gguf_name, &WeightRow::gguf, kGgufLayers, &WeightRow::hf, kHfLayers);
  return name.empty() ? std::string(gguf_name) : name;
}

std::string gguf_name(const Family& family, std::string_view hf_name) {
  return renamed(family, hf_name, &WeightRow::hf, kHfLayers, &WeightRow::gguf, kGgufLayers);
}

}  // namespace headrace::io

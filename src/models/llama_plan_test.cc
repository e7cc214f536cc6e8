// The step program of SmolLM2-135M's shape: how large its plan is beside the bound, and how it is fused.
#include <gtest/gtest.h>

#include <map>

#include "graph/memory_plan.h"
#include "graph/passes.h"
#include "models/model.h"

namespace headrace::models {
namespace {

// HuggingFaceTB/SmolLM2-135M-Instruct's config.json.
struct SmolLm2 {
  io::ConfigMap config;
  std::map<std::string, TensorInfo, std::less<>> tensors;
  SmolLm2() {
    const std::pair<const char*, int64_t> integers[] = {
        {"vocab_size", 49152},       {"hidden_size", 576},       {"intermediate_size", 1536},
        {"num_hidden_layers", 30},   {"num_attention_heads", 9}, {"num_key_value_heads", 3},
        {"max_position_embeddings", 8192}};
    for (const auto& [key, value] : integers) config.set(key, value);
    config.set("rope_theta", 100000.0);
    config.set("tie_word_embeddings", true);
    add("model.embed_tokens", {49152, 576});
    add("model.norm", {576});
    for (int layer = 0; layer < 30; ++layer) {
      const std::string at = fmt::format("model.layers.{}.", layer);
      add(at + "input_layernorm", {576});
      add(at + "post_attention_layernorm", {576});
      for (const char* square : {"q_proj", "o_proj"}) add(at + "self_attn." + square, {576, 576});
      for (const char* narrow : {"k_proj", "v_proj"}) add(at + "self_attn." + narrow, {192, 576});
      for (const char* wide : {"gate_proj", "up_proj"}) add(at + "mlp." + wide, {1536, 576});
      add(at + "mlp.down_proj", {576, 1536});
    }
  }
  void add(const std::string& module, std::vector<int64_t> shape) {
    const Format format = shape.size() == 1 ? Format::f32 : Format::q4_1;
    tensors[module + ".weight"] = {format, std::move(shape)};
  }
};

TEST(SmolLm2Plan, ReachesTheLiveSetBoundInEveryBucket) {
  const SmolLm2 model;
  const TensorLookup lookup = [&](std::string_view name) {
    const auto found = model.tensors.find(name);
    return found == model.tensors.end() ? nullptr : &found->second;
  };
  const BuildContext context{model.config, lookup, {}, {}};
  const auto info = (*find_family("llama"))->info(context);
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->num_parameters, 134515008.0);  // the model card's 135M

  for (const bool fused : {true, false}) {
    auto graph = (*find_family("llama"))->build_step(context);
    ASSERT_TRUE(graph) << graph.error().to_string();
    keep_outputs(*graph, {"tokens", "logits", "logprobs", "top_ids", "top_logprobs"});
    PassOptions options;
    if (!fused) options.skip = {"all"};
    ASSERT_TRUE(run_passes(*graph, options));
    for (const int64_t tokens : {1, 16, 512}) {
      Bindings bucket = graph->symbols.upper_bounds();
      bucket.set(0, tokens);
      const MemoryPlan plan = plan_memory(*graph, bucket, std::vector<int64_t>(graph->nodes.size(), 0));
      EXPECT_EQ(plan.arena_bytes, plan.live_set_bound) << tokens << " tokens";
      EXPECT_LT(plan.arena_bytes, plan.naive_bytes) << tokens << " tokens";
      EXPECT_LT(tokens == 512 ? plan.arena_bytes * 50 : 0, plan.naive_bytes);
    }
  }
}

}  // namespace
}  // namespace headrace::models

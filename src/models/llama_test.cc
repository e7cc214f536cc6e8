// The passes on a whole model, and what a family says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/passes.h"
#include "models/host_stepper.h"
#include "models/model.h"

namespace headrace::models {
namespace {

using testing::build;
using testing::Built;
using testing::GoldenCheckpoint;
using testing::HostStepper;
using testing::ints;
using ::testing::HasSubstr;

const ModelFamily& llama() {
  const auto family = find_family("llama");
  EXPECT_TRUE(family);
  return **family;
}

// ---- passes on a whole model -----------------------------------------------------------------------------------

std::map<std::string, HostTensor> run_once(const GoldenCheckpoint& checkpoint, const DtypePolicy& policy,
                                           std::set<std::string, std::less<>> skip) {
  Built built = build(checkpoint, policy, std::move(skip));
  HostStepper stepper(std::move(built.graph), built.info, checkpoint.host_weights());
  return stepper.step({{0, ints(checkpoint.golden.at("ids.0"))}, {1, ints(checkpoint.golden.at("ids.1"))}});
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.dims, b.dims);
  double largest = 0;
  for (size_t i = 0; i < a.values.size(); ++i) largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  return largest;
}

TEST(LlamaPasses, WithAnyPassSkippedTheOutputsAreTheSame) {
  const GoldenCheckpoint checkpoint("tiny_decoders/untied_biases", Format::q8_0);
  const auto exact = run_once(checkpoint, DtypePolicy::exact(), {});
  DtypePolicy eight_bit = DtypePolicy::exact();
  eight_bit.activation = DtypePolicy::Activation::int8;
  const auto quantized = run_once(checkpoint, eight_bit, {});
  std::vector<std::string> names = {"all"};
  for (const Pass& pass : all_passes()) names.emplace_back(pass.name);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    for (const auto& [output, want] : exact) {
      // The references compute in float64: fusing changes rounding at most.
      EXPECT_LT(largest_difference(run_once(checkpoint, DtypePolicy::exact(), {name}).at(output), want), 1e-9) << output;
    }
    const bool floats = name == "all" || name == "quantize_activations";
    const auto got = run_once(checkpoint, eight_bit, {name});
    for (const auto& [output, want] : floats ? exact : quantized) {
      EXPECT_LT(largest_difference(got.at(output), want), 1e-9) << output;
    }
  }
  // And 8-bit activations do change numbers, a little: logits here have a deviation near 2.
  const double change = largest_difference(quantized.at("logits"), exact.at("logits"));
  EXPECT_GT(change, 1e-4);
  EXPECT_LT(change, 0.5);
}

TEST(LlamaPasses, FuseWhatTheyAreMeantToFuse) {
  const GoldenCheckpoint checkpoint("tiny_decoders/tied", Format::q8_0);
  const BuildContext context{checkpoint.config, checkpoint.lookup(), {}, {}};
  auto graph = llama().build_step(context);
  ASSERT_TRUE(graph);
  keep_outputs(*graph, {"tokens"});
  const auto reports = run_passes(*graph, {});
  ASSERT_TRUE(reports) << reports.error().to_string();
  std::map<std::string_view, int> hits;
  for (const PassReport& report : *reports) hits[report.name] = report.hits;
  EXPECT_EQ(hits["merge_linears"], 4);         // qkv and gate/up, two layers
  EXPECT_EQ(hits["add_rms_norm"], 3);          // not the last norm: gather_rows stands between
  EXPECT_EQ(hits["gated_activation"], 2);
  EXPECT_EQ(hits["quantize_activations"], 9);  // four a layer and the head
  std::map<std::string_view, int> ops;
  for (const Node& node : graph->nodes) ++ops[node.op->name];
  const std::map<std::string_view, int> want = {
      {"select_tokens", 1}, {"embed", 1},     {"rms_norm", 2},         {"add_rms_norm", 3},     {"quantize_rows", 9},
      {"matmul_q8", 9},     {"rope", 4},      {"slice_columns", 10},   {"kv_write", 2},         {"attention", 2},
      {"add", 1},           {"sample", 1},    {"gated_activation", 2}, {"gather_rows", 1}};
  EXPECT_EQ(ops, want);
}

TEST(LlamaOutputs, KeepingHiddenStatesAloneDropsWhatStandsBehindThem) {
  const GoldenCheckpoint checkpoint("tiny_decoders/tied");
  const BuildContext context{checkpoint.config, checkpoint.lookup(), {}, {}};
  auto graph = llama().build_step(context);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->outputs.size(), 8u);  // hidden.0, hidden.1, hidden.2, logits, tokens, logprobs, top_ids, top_logprobs
  keep_outputs(*graph, {"hidden.1", "no such output"});
  ASSERT_EQ(graph->outputs.size(), 1u);
  EXPECT_TRUE(verify(*graph).ok());
  const std::string text = graph->to_string();
  EXPECT_THAT(text, ::testing::Not(HasSubstr("sample(")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("lm_head")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("layers.1.mlp")));
  EXPECT_THAT(text, HasSubstr("@kv.1)"));  // the cache of the second layer is still filled
}

// ---- information and refusals ------------------------------------------------------------------------------------

TEST(LlamaInfo, CountsParametersAndDescribesTheCache) {
  const GoldenCheckpoint checkpoint("tiny_decoders/tied");
  const BuildContext context{checkpoint.config, checkpoint.lookup(), DtypePolicy::exact(), {}};
  const auto info = llama().info(context);
  ASSERT_TRUE(info) << info.error().to_string();
  double elements = 0;
  for (const auto& [name, tensor] : checkpoint.weights) elements += static_cast<double>(tensor.values.size());
  EXPECT_EQ(info->num_parameters, elements);
  EXPECT_EQ(info->model_type, "llama");
  EXPECT_EQ(info->vocab_size, 131);
  EXPECT_EQ(info->max_position_embeddings, 256);
  EXPECT_THAT(info->eos_token_ids, ::testing::ElementsAre(2));
  const KvSpec kv{KvKind::self, 2, 16, 0, DType::f32};
  EXPECT_THAT(info->layer_kv, ::testing::ElementsAre(kv, kv));
}

TEST(FindFamily, AnUnknownTypeIsRefusedWithTheKnownOnes) {
  const auto family = find_family("mamba" + std::string(1000, 'x'));
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code(), Code::unsupported);
  EXPECT_THAT(family.error().message(), HasSubstr("Headrace runs: llama"));
  EXPECT_LT(family.error().message().size(), 200u);
}

std::string refusal(const GoldenCheckpoint& checkpoint, StepLimits limits = {}) {
  const BuildContext context{checkpoint.config, checkpoint.lookup(), {}, limits};
  const auto info = llama().info(context);
  const auto graph = llama().build_step(context);
  EXPECT_EQ(static_cast<bool>(info), static_cast<bool>(graph));
  return graph ? "accepted" : graph.error().message();
}

TEST(LlamaConfig, HostileValuesAreRefusedByName) {
  using Value = io::ConfigMap::Value;
  const std::vector<std::pair<std::string, std::vector<Value>>> rows = {
      {"vocab_size", {int64_t{0}, int64_t{-1}, INT64_MAX, std::string("many"), 1.5}},
      {"hidden_size", {int64_t{0}, INT64_MAX, int64_t{97}, int64_t{1} << 31}},
      {"intermediate_size", {int64_t{0}, INT64_MAX, int64_t{161}}},
      {"num_hidden_layers", {int64_t{0}, INT64_MAX, int64_t{3}, int64_t{1024}}},
      {"num_attention_heads", {int64_t{0}, INT64_MAX, int64_t{5}, int64_t{7}}},
      {"num_key_value_heads", {int64_t{0}, INT64_MAX, int64_t{4}, int64_t{3}}},
      {"head_dim", {int64_t{0}, int64_t{15}, INT64_MAX, int64_t{32}}},
      {"max_position_embeddings", {int64_t{0}, INT64_MAX}},
      {"rms_norm_eps", {-1.0, std::nan(""), 2.0}},
      {"rope_theta", {0.0, -1.0, std::nan(""), HUGE_VAL}},
      {"rope_scaling.rope_type", {std::string("no such kind"), int64_t{3}}},
      {"rope_scaling.freq_factors", {std::vector<double>{1, 2}, std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1}}},
      {"hidden_act", {std::string("no such activation"), true}},
      {"tie_word_embeddings", {false, std::string("yes")}},
      {"attention_bias", {true, int64_t{2}}},
      {"mlp_bias", {true}},
  };
  for (const auto& [key, values] : rows) {
    for (size_t index = 0; index < values.size(); ++index) {
      GoldenCheckpoint checkpoint("tiny_decoders/tied");
      checkpoint.config.set(key, values[index]);
      const std::string message = refusal(checkpoint);
      EXPECT_NE(message, "accepted") << key << " " << index;
      EXPECT_LT(message.size(), 400u);
    }
  }
}

TEST(LlamaConfig, ABadEndOfSequenceIdIsRefused) {
  GoldenCheckpoint checkpoint("tiny_decoders/tied");
  for (const io::ConfigMap::Value& value :
       {io::ConfigMap::Value(int64_t{131}), io::ConfigMap::Value(std::vector<int64_t>{2, -1})}) {
    checkpoint.config.set("eos_token_id", value);
    const BuildContext context{checkpoint.config, checkpoint.lookup(), {}, {}};
    const auto info = llama().info(context);
    ASSERT_FALSE(info);
    EXPECT_THAT(info.error().message(), HasSubstr("eos_token_id"));
  }
}

TEST(LlamaWeights, AMissingOrMisshapenTensorIsNamedWithWhatWasWanted) {
  GoldenCheckpoint checkpoint("tiny_decoders/tied");
  checkpoint.infos["model.layers.1.mlp.up_proj.weight"].shape = {96, 160};
  EXPECT_EQ(refusal(checkpoint),
            "tensor model.layers.1.mlp.up_proj.weight: want shape [160, 96] (by the configuration), got [96, 160]");
  checkpoint.infos.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(refusal(checkpoint),
            "tensor model.layers.1.mlp.up_proj.weight: want shape [160, 96], the checkpoint has no such tensor");
}

TEST(LlamaWeights, ARowThatIsNotWholeBlocksIsRefused) {
  GoldenCheckpoint checkpoint("tiny_decoders/tied");
  checkpoint.infos["model.layers.0.self_attn.q_proj.weight"].format = Format::q4_k;
  EXPECT_EQ(refusal(checkpoint),
            "tensor model.layers.0.self_attn.q_proj.weight: want rows of whole q4_k blocks of 256, got rows of 96");
}

TEST(LlamaLimits, CountsOutOfRangeAreRefused) {
  const GoldenCheckpoint checkpoint("tiny_decoders/tied");
  for (const StepLimits& limits : {StepLimits{0, 1, 1, 1}, StepLimits{1, -1, 1, 1}, StepLimits{1, 1, INT64_MAX, 1}}) {
    EXPECT_THAT(refusal(checkpoint, limits), HasSubstr("step limits: want counts from 1"));
  }
}

}  // namespace
}  // namespace headrace::models

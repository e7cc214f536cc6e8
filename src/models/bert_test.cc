// Golden values: transformers' BertModel in float64 (tools/golden/bert_tiny.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "graph/passes.h"
#include "io/sentence_config.h"
#include "models/host_stepper.h"
#include "models/model.h"

namespace headrace::models {
namespace {

using testing::GoldenCheckpoint;
using ::testing::HasSubstr;

const ModelFamily& bert() {
  const auto family = find_family("bert");
  EXPECT_TRUE(family);
  return **family;
}

// A checkpoint with what sentence-transformers put beside it.
GoldenCheckpoint checkpoint_of(const std::string& name) {
  GoldenCheckpoint checkpoint("bert_tiny/" + name);
  const Status status =
      io::read_sentence_config(headrace::testing::golden_path("bert_tiny/" + name), checkpoint.config);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return checkpoint;
}

constexpr StepLimits kLimits{.max_tokens = 512, .max_seqs = 8, .max_blocks = 1, .num_slots = 1};

HostValue ints(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {HostTensor{DType::i32, {count}, std::move(values)}, nullptr, nullptr};
}

// The outputs for `texts` in one step, by the ops' float64 references.
std::map<std::string, HostTensor> embed_by_references(const GoldenCheckpoint& checkpoint, bool passes,
                                                      const std::vector<std::vector<double>>& texts) {
  const BuildContext context{checkpoint.config, checkpoint.lookup(), DtypePolicy::exact(), kLimits};
  auto graph = bert().build_embed(context);
  if (!graph) {
    ADD_FAILURE() << graph.error().to_string();
    return {};
  }
  const auto reports = run_passes(*graph, {passes ? decltype(PassOptions::skip){} : decltype(PassOptions::skip){"all"},
                                           DtypePolicy::exact()});
  EXPECT_TRUE(reports.has_value());
  std::vector<double> ids, positions, start = {0};
  for (const std::vector<double>& text : texts) {
    for (size_t i = 0; i < text.size(); ++i) positions.push_back(static_cast<double>(i));
    ids.insert(ids.end(), text.begin(), text.end());
    start.push_back(static_cast<double>(ids.size()));
  }
  Bindings sizes;
  for (int symbol = 0; symbol < graph->symbols.size(); ++symbol) {
    const std::string& name = graph->symbols.names()[symbol];
    const size_t size = name == "T" ? ids.size() : name == "S" ? texts.size() : 1;
    sizes.set(static_cast<SymbolId>(symbol), static_cast<int64_t>(size));
  }
  std::map<std::string, HostValue> values = {
      {"positions", ints(positions)}, {"token_src", ints(ids)}, {"query_start", ints(start)}};
  // Everything else is zeros: segments, and what only a decoder reads.
  for (const Value& value : graph->values) {
    if ((value.role != ValueRole::input && value.role != ValueRole::state) || values.count(value.name) != 0) continue;
    HostTensor zeros{value.type.dtype, {}, std::vector<double>(static_cast<size_t>(value.type.shape.elements(sizes)), 0)};
    for (const Dim& dim : value.type.shape) zeros.dims.push_back(dim.eval(sizes));
    values[value.name] = {std::move(zeros), nullptr, nullptr};
  }
  auto outputs = interpret(*graph, sizes, values, checkpoint.host_weights());
  if (!outputs) {
    ADD_FAILURE() << outputs.error().to_string();
    return {};
  }
  return *std::move(outputs);
}

// Rows [first, first + want.dims[0]) of `got` against all of `want`; a vector is one row.
void expect_rows(const HostTensor& got, int64_t first, const HostTensor& want) {
  const int64_t width = want.dims.back();
  ASSERT_EQ(got.dims[1], width);
  for (size_t i = 0; i < want.values.size(); ++i) {
    ASSERT_NEAR(got.values[static_cast<size_t>(first * width) + i], want.values[i], 2e-6) << "element " << i;
  }
}

class BertGolden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, BertGolden, ::testing::Values("mean", "cls"),
                         [](const auto& row) { return std::string(row.param); });

// The two short texts share a step.
TEST_P(BertGolden, HiddenStatesAndEmbeddingsEqualTheReference) {
  const GoldenCheckpoint checkpoint = checkpoint_of(GetParam());
  const auto& golden = checkpoint.golden;
  const std::vector<double>&first = golden.at("ids.0").values, &second = golden.at("ids.1").values;
  for (const bool passes : {true, false}) {
    SCOPED_TRACE(passes ? "all passes" : "no pass");
    const auto out = embed_by_references(checkpoint, passes, {first, second});
    const auto behind = static_cast<int64_t>(first.size());
    for (const std::string layer : {"hidden.1", "hidden.2"}) {
      expect_rows(out.at(layer), 0, golden.at(layer + ".0"));
      expect_rows(out.at(layer), behind, golden.at(layer + ".1"));
    }
    expect_rows(out.at("embeddings"), 0, golden.at("embedding.0"));
    expect_rows(out.at("embeddings"), 1, golden.at("embedding.1"));
  }
}

TEST(Bert, ItsInfoSaysThatItEmbedsAndHowLongATextMayBe) {
  const GoldenCheckpoint mean = checkpoint_of("mean"), cls = checkpoint_of("cls");
  const auto of = [](const GoldenCheckpoint& checkpoint) {
    return bert().info({checkpoint.config, checkpoint.lookup(), DtypePolicy(), kLimits});
  };
  const auto first = of(mean), second = of(cls);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->embedding_size, 60);
  EXPECT_EQ(first->max_position_embeddings, 320);
  EXPECT_EQ(second->max_position_embeddings, 24);  // sentence_bert_config.json
  EXPECT_TRUE(first->layer_kv.empty());
  double elements = 0;
  for (const auto& [name, tensor] : mean.weights) elements += static_cast<double>(tensor.values.size());
  EXPECT_EQ(first->num_parameters, elements);
}

TEST(Bert, OldNamesOfNormsAreRead) {
  GoldenCheckpoint checkpoint = checkpoint_of("mean");
  const auto rename = [](auto& map) {
    std::remove_reference_t<decltype(map)> renamed;
    for (auto& [name, value] : map) {
      std::string old = name;
      if (old.ends_with("LayerNorm.weight")) old.replace(old.rfind(".weight"), 7, ".gamma");
      if (old.ends_with("LayerNorm.bias")) old.replace(old.rfind(".bias"), 5, ".beta");
      renamed[old] = std::move(value);
    }
    map = std::move(renamed);
  };
  rename(checkpoint.weights);
  rename(checkpoint.infos);
  const auto out = embed_by_references(checkpoint, true, {checkpoint.golden.at("ids.0").values});
  expect_rows(out.at("embeddings"), 0, checkpoint.golden.at("embedding.0"));
}

TEST(Bert, WhatItCannotRunIsRefusedByName) {
  struct Row {
    const char* key;
    io::ConfigMap::Value value;
    const char* message;
  };
  const Row rows[] = {
      {"num_attention_heads", int64_t{7}, "hidden_size: want a multiple of num_attention_heads 7, got 60"},
      {"position_embedding_type", std::string("relative_key"), "position_embedding_type: want \"absolute\""},
      {"is_decoder", true, "is_decoder: want false"},
      {"hidden_act", std::string("mish"), "hidden_act \"mish\" is not known"},
      {"vocab_size", int64_t{96}, "embeddings.word_embeddings.weight: want shape [96, 60]"},
      {"pooling_mode", std::string("cls+mean"), "pooling \"cls+mean\" is not known"},
      {"sentence_modules", std::vector<std::string>{"Transformer", "Pooling", "Dense"}, "got Transformer, Pooling, Dense"},
      {"sentence_lower_case", true, "do_lower_case is true"},
      {"max_seq_length", int64_t{0}, "max_seq_length"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.key);
    GoldenCheckpoint checkpoint = checkpoint_of("mean");
    checkpoint.config.set(row.key, row.value);
    const auto info = bert().info({checkpoint.config, checkpoint.lookup(), DtypePolicy(), kLimits});
    ASSERT_FALSE(info.has_value());
    EXPECT_THAT(info.error().message(), HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace headrace::models

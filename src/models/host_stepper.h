#pragma once
// For tests of model families: a checkpoint held as doubles, and a runner that steps a program by its ops' references the
// way the engine would, with paged KV whose blocks lie out of order.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "graph/interpret.h"
#include "graph/passes.h"
#include "io/config_map.h"
#include "io/safetensors.h"
#include "models/kv_groups.h"
#include "models/model.h"
#include "testing/golden.h"

namespace headrace::models::testing {

// The tensors of a small safetensors file, decoded.
inline std::map<std::string, HostTensor> read_tensors(const std::filesystem::path& path) {
  std::map<std::string, HostTensor> tensors;
  const auto file = io::SafetensorsFile::open(path.string());
  if (!file) {
    ADD_FAILURE() << file.error().to_string();
    return tensors;
  }
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    HostTensor host{DType::f32, tensor.shape, {}};
    const auto elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<int64_t>());
    std::vector<float> values(elements);
    format_info(tensor.format).decode(file->data(tensor).data(), elements, values.data());
    host.values.assign(values.begin(), values.end());
    tensors[tensor.name] = std::move(host);
  }
  return tensors;
}

// A folder of tests/golden: config.json, model.safetensors, golden.safetensors.
struct GoldenCheckpoint {
  io::ConfigMap config;
  std::map<std::string, HostTensor> weights, golden;
  std::map<std::string, TensorInfo> infos;

  // `matrix_format`: what lookup says of the matrices, so that passes see a quantized model.
  explicit GoldenCheckpoint(const std::string& name, Format matrix_format = Format::bf16) {
    const std::filesystem::path folder = headrace::testing::golden_path(name);
    std::ifstream file(folder / "config.json");
    std::stringstream text;
    text << file.rdbuf();
    auto parsed = io::ConfigMap::from_json(text.str());
    if (!parsed) {
      ADD_FAILURE() << name << ": " << parsed.error().to_string();
      return;
    }
    config = *std::move(parsed);
    weights = read_tensors(folder / "model.safetensors");
    golden = read_tensors(folder / "golden.safetensors");
    for (const auto& [tensor, host] : weights) {
      infos[tensor] = {host.dims.size() == 1 ? Format::bf16 : matrix_format, host.dims};
    }
  }
  TensorLookup lookup() const {
    return [this](std::string_view name) {
      const auto found = infos.find(std::string(name));
      return found == infos.end() ? nullptr : &found->second;
    };
  }
  // The rows that a recipe names, one part below the other.
  HostWeights host_weights() const {
    return [this](const Value& weight) -> Result<HostTensor> {
      HostTensor host;
      for (const WeightPart& part : weight.recipe.parts) {
        const HostTensor& source = weights.at(part.source);
        const int64_t width = static_cast<int64_t>(source.values.size()) / source.dims[0];
        const int64_t end = part.end < 0 ? source.dims[0] : part.end;
        host.values.insert(host.values.end(), source.values.begin() + part.begin * width,
                           source.values.begin() + end * width);
      }
      for (const Dim& dim : weight.type.shape) host.dims.push_back(dim.constant());
      return host;
    };
  }
};

// Bounds of the programs that HostStepper can step, 64 tokens a sequence: the reference computes with the sizes alone, but
// for the slots.
constexpr StepLimits stepper_limits() {
  return {.max_tokens = 64, .max_seqs = 64, .max_blocks = 4, .max_context = 64, .num_slots = 2, .max_logit_rows = 64};
}

struct Built {
  ModelInfo info;
  Graph graph;
};
// The family that the configuration names, with the passes that are not skipped.
inline Built build(const GoldenCheckpoint& checkpoint, const DtypePolicy& policy, std::set<std::string, std::less<>> skip) {
  const auto family = find_family(checkpoint.config.get_string("model_type").value());
  EXPECT_TRUE(family);
  if (!family) return {};
  const BuildContext context{checkpoint.config, checkpoint.lookup(), policy, stepper_limits()};
  auto info = (*family)->info(context);
  auto graph = (*family)->build_step(context);
  EXPECT_TRUE(info && graph) << (info ? "" : info.error().to_string());
  if (!info || !graph) return {};
  const auto reports = run_passes(*graph, {std::move(skip), policy});
  EXPECT_TRUE(reports) << (reports ? "" : reports.error().to_string());
  return {*std::move(info), *std::move(graph)};
}

inline std::vector<int> ints(const HostTensor& tensor) { return {tensor.values.begin(), tensor.values.end()}; }

class HostStepper {
 public:
  static constexpr int kSeqs = stepper_limits().num_slots, kBlocks = stepper_limits().max_blocks;

  HostStepper(Graph graph, const ModelInfo& info, HostWeights weights)
      : graph_(std::move(graph)), weights_(std::move(weights)) {
    const int num_blocks = 1 + kSeqs * kBlocks;
    for (size_t layer = 0; layer < info.layer_kv.size(); ++layer) {
      const KvSpec& spec = info.layer_kv[layer];
      auto kv = std::make_shared<HostKv>(HostKv{spec, num_blocks, {}, {}});
      kv->keys.assign(int64_t{num_blocks} * spec.heads * spec.head_dim * kKvBlockTokens, NAN);
      kv->values = kv->keys;
      values_[fmt::format("kv.{}", layer)] = HostValue{{}, kv, nullptr};
    }
    for (const int32_t group : group_of_layer(info.layer_kv)) num_groups_ = std::max(num_groups_, group + 1);
    HostTensor tokens{DType::i32, {kSeqs}, std::vector<double>(kSeqs, -7)};
    values_["last_token"] = HostValue{tokens, nullptr, std::make_shared<HostTensor>(tokens)};
  }

  // Tokens that one sequence advances by; -(seq + 1) is the token sampled last.
  struct Chunk {
    int seq;
    std::vector<int> tokens;
  };
  // Logits are wanted for every token; the sample of each chunk's last row becomes that sequence's last token.
  std::map<std::string, HostTensor> step(const std::vector<Chunk>& chunks) {
    std::map<std::string, std::vector<double>> fields;
    fields["query_start"] = {0};
    for (const Chunk& chunk : chunks) {
      for (const int token : chunk.tokens) {
        const int position = length_[chunk.seq]++;
        fields["token_src"].push_back(token);
        fields["positions"].push_back(position);
        const int slot = block(chunk.seq, position / kKvBlockTokens) * kKvBlockTokens + position % kKvBlockTokens;
        for (int group = 0; group < num_groups_; ++group) fields[fmt::format("kv_slot.{}", group)].push_back(slot);
        fields["logit_rows"].push_back(static_cast<double>(fields["logit_rows"].size()));
        fields["sample_slot"].push_back(-1);
        fields["sample_pos"].push_back(position + 1);
      }
      fields["sample_slot"].back() = chunk.seq;
      fields["query_start"].push_back(static_cast<double>(fields["token_src"].size()));
      fields["context_len"].push_back(length_[chunk.seq]);
      for (int group = 0; group < num_groups_; ++group) {
        auto& table = fields[fmt::format("block_table.{}", group)];
        for (int index = 0; index < kBlocks; ++index) table.push_back(block(chunk.seq, index));
      }
    }
    const size_t tokens = fields["token_src"].size();
    for (const char* zero : {"temperature", "min_p", "frequency_penalty", "presence_penalty", "top_k", "seed_lo", "seed_hi",
                             "stream", "num_logprobs", "output_start"}) {
      fields[zero].assign(tokens, 0);
    }
    for (const char* one : {"top_p", "typical_p", "repetition_penalty"}) fields[one].assign(tokens, 1);
    for (const char* starts : {"bias_start", "history_start"}) fields[starts].assign(tokens + 1, 0);
    fields["target"].assign(tokens, -1);

    Bindings sizes;
    for (int symbol = 0; symbol < graph_.symbols.size(); ++symbol) {
      const std::string& name = graph_.symbols.names()[symbol];
      sizes.set(static_cast<SymbolId>(symbol), name == "S" ? static_cast<int64_t>(chunks.size())
                                               : name == "B" ? kBlocks
                                               : name == "E" || name == "H" ? 0
                                                                            : static_cast<int64_t>(tokens));
    }
    for (const Value& value : graph_.values) {
      if (value.role != ValueRole::input) continue;
      HostTensor tensor{value.type.dtype, {}, fields[value.name]};
      for (const Dim& dim : value.type.shape) tensor.dims.push_back(dim.eval(sizes));
      values_[value.name] = HostValue{std::move(tensor), nullptr, nullptr};
    }
    auto outputs = interpret(graph_, sizes, values_, weights_);
    if (!outputs) {
      ADD_FAILURE() << outputs.error().to_string();
      return {};
    }
    return *std::move(outputs);
  }

 private:
  // Never block 0, never in order.
  int block(int seq, int index) const { return kSeqs * kBlocks - (index * kSeqs + seq); }

  Graph graph_;
  HostWeights weights_;
  std::map<std::string, HostValue> values_;
  int length_[kSeqs] = {};
  int num_groups_ = 0;
};

}  // namespace headrace::models::testing

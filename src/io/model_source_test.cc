// Golden: tests/golden/tiny_llama.gguf (see gguf_test.cc). Config keys are those of Hugging Face's
// LlamaConfig.
#include "io/model_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "io/random_weights.h"
#include "testing/golden.h"

namespace headrace::io {
namespace {

constexpr std::string_view kConfig = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false,
  "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "eos_token_id": [1, 2], "pad_token_id": null})";

class ModelSourceTest : public ::testing::Test {
 protected:
  std::string write(std::string_view text, std::string_view extension = "json") {
    path_ = fmt::format("{}headrace_model_source_test.{}", ::testing::TempDir(), extension);
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  ~ModelSourceTest() override {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  std::string path_;
};

TEST_F(ModelSourceTest, AGgufFileAppearsUnderHuggingFaceNames) {
  const auto source = ModelSource::open(testing::golden_path("tiny_llama.gguf"));
  ASSERT_TRUE(source) << source.error().message();
  const ConfigMap& config = (*source)->config();
  EXPECT_EQ(config.get_string("model_type"), "llama");
  EXPECT_EQ(config.get_int("hidden_size", 1, 1000), 64);
  EXPECT_EQ(config.get_int("num_hidden_layers", 1, 1000), 1);
  EXPECT_EQ(config.get_int("intermediate_size", 1, 1000), 96);
  EXPECT_EQ(config.get_int("num_attention_heads", 1, 1000), 4);
  EXPECT_EQ(config.get_int("num_key_value_heads", 1, 1000), 2);
  EXPECT_EQ(config.get_int("head_dim", 1, 1000), 16);
  EXPECT_EQ(config.get_int("vocab_size", 1, 1000), 8);
  EXPECT_EQ(config.get_int("max_position_embeddings", 1, 1000), 128);
  EXPECT_FLOAT_EQ(static_cast<float>(config.get_number("rms_norm_eps", 0, 1).value()), 1e-5f);
  EXPECT_EQ(config.get_number("rope_theta", 0, 1e9), 500000.0);
  EXPECT_EQ(config.get_string("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(config.get_number("rope_scaling.factor", 1, 100), 2.0);
  EXPECT_EQ(config.get_bool("tie_word_embeddings"), true);
  EXPECT_EQ(config.get_bool("rope_interleaved"), true);
  EXPECT_EQ(config.get_int("eos_token_id", 0, 7), 2);

  const SourceTensor* k = (*source)->find("model.layers.0.self_attn.k_proj.weight");
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->shape, (std::vector<int64_t>{32, 64}));
  EXPECT_EQ(k->format, Format::q4_1);
  std::vector<std::byte> scratch;
  EXPECT_EQ((*source)->bytes(*k, scratch).value().size(), k->bytes);
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
        "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"}) {
    EXPECT_NE((*source)->find(name), nullptr) << name;
  }
  EXPECT_EQ((*source)->find("lm_head.weight"), nullptr);
}

TEST_F(ModelSourceTest, AGgufFileCarriesItsVocabulary) {
  const auto source = ModelSource::open(testing::golden_path("tiny_llama.gguf"));
  ASSERT_TRUE(source);
  const Result<VocabMetadata> vocab = (*source)->vocab();
  ASSERT_TRUE(vocab) << vocab.error().message();
  EXPECT_EQ(vocab->model, "gpt2");
  EXPECT_EQ(vocab->pre, "smollm");
  EXPECT_EQ(vocab->tokens.size(), 8u);
  EXPECT_EQ(vocab->tokens[1], "<|im_start|>");
  EXPECT_EQ(vocab->types, (std::vector<int32_t>{3, 3, 3, 1, 1, 1, 1, 4}));
  EXPECT_EQ(vocab->scores[7], 0.5f);
  EXPECT_EQ(vocab->merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocab->bos_id, 1);
  EXPECT_EQ(vocab->eos_id, 2);
  EXPECT_EQ(vocab->unk_id, 0);
  EXPECT_EQ(vocab->pad_id, -1);
  EXPECT_FALSE(vocab->add_bos);
  EXPECT_EQ(vocab->chat_template, "{{ messages }}");
}

TEST_F(ModelSourceTest, AnUnknownArchitectureIsNamedWithThoseThatAreKnown) {
  std::ifstream file(testing::golden_path("tiny_llama.gguf"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const size_t at = bytes.find("llama");
  bytes.replace(at, 5, "mamba");
  const auto source = ModelSource::open(write(bytes, "gguf"));
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code(), Code::unsupported);
  EXPECT_NE(source.error().message().find("'mamba' is not one that Headrace runs; it knows llama"),
            std::string::npos)
      << source.error().message();
}

TEST(SourceTensor, RowsAreWholeBlocksAndMakeUpTheTensor) {
  const SourceTensor tensors[] = {{.name = "matrix", .format = Format::q8_0, .shape = {3, 64}, .bytes = 204},
                                  {.name = "vector", .format = Format::f32, .shape = {64}, .bytes = 256},
                                  {.name = "vector of blocks", .format = Format::q8_0, .shape = {64}, .bytes = 68},
                                  {.name = "scalar", .format = Format::bf16, .shape = {}, .bytes = 2},
                                  {.name = "nothing", .format = Format::f32, .shape = {0, 4}, .bytes = 0}};
  for (const SourceTensor& tensor : tensors) {
    EXPECT_EQ(static_cast<uint64_t>(tensor.rows()) * tensor.row_bytes(), tensor.bytes) << tensor.name;
    EXPECT_EQ(tensor.row_bytes() % static_cast<uint64_t>(format_info(tensor.format).block_bytes), 0u) << tensor.name;
  }
}

TEST_F(ModelSourceTest, AnyShardOfASplitGgufFileOpensAll) {
  // Shards written by the `gguf` package: five tensors, each filled with its own number.
  constexpr std::string_view kNames[] = {"model.embed_tokens.weight", "model.norm.weight",
                                         "model.layers.0.self_attn.q_proj.weight",
                                         "model.layers.0.self_attn.k_proj.weight", "lm_head.weight"};
  for (const char* shard : {"00001", "00003"}) {
    const std::string path = testing::golden_path(fmt::format("tiny_split-{}-of-00003.gguf", shard));
    const auto source = ModelSource::open(path);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->tensors().size(), 5u);
    EXPECT_EQ((*source)->config().get_bool("tie_word_embeddings"), false);
    for (int i = 0; i < 5; ++i) {
      const SourceTensor* tensor = (*source)->find(kNames[i]);
      ASSERT_NE(tensor, nullptr) << kNames[i];
      std::vector<std::byte> scratch;
      float first = -1;
      std::memcpy(&first, (*source)->bytes(*tensor, scratch)->data(), sizeof(first));
      EXPECT_EQ(first, static_cast<float>(i));
      (*source)->drop(*tensor, 0, tensor->rows());
    }
  }
}

TEST_F(ModelSourceTest, AMissingOrRenamedShardIsRefusedByName) {
  const std::filesystem::path golden = testing::golden_path("");
  const std::filesystem::path folder = ::testing::TempDir() + "headrace_split_test";
  std::filesystem::create_directory(folder);
  const auto copy = [&](std::string_view from, std::string_view to) {
    std::filesystem::copy_file(golden / from, folder / to, std::filesystem::copy_options::overwrite_existing);
    return (folder / to).string();
  };
  const std::string first = copy("tiny_split-00001-of-00003.gguf", "m-00001-of-00003.gguf");
  copy("tiny_split-00002-of-00003.gguf", "m-00002-of-00003.gguf");
  const auto missing = ModelSource::open(first);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::not_found);
  EXPECT_NE(missing.error().message().find("m-00003-of-00003.gguf"), std::string::npos)
      << missing.error().message();
  copy("tiny_split-00002-of-00003.gguf", "m-00003-of-00003.gguf");
  const auto twice = ModelSource::open(first);
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message().find("it says that it is shard 2 of 3; its name says 3 of 3"),
            std::string::npos)
      << twice.error().message();
  const auto alone = ModelSource::open(copy("tiny_split-00001-of-00003.gguf", "other.gguf"));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message().find("want a name that ends in -00001-of-00003.gguf"), std::string::npos)
      << alone.error().message();
  std::filesystem::remove_all(folder);
}

TEST_F(ModelSourceTest, ALanguageModelInsideAWiderCheckpointAppearsUnderItsOwnNames) {
  const std::filesystem::path golden = testing::golden_path("tiny_decoders/gemma3");
  const std::filesystem::path folder = ::testing::TempDir() + "headrace_wrapped_test";
  std::filesystem::create_directory(folder);
  const auto read = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  std::ofstream(folder / "config.json") << R"({"model_type": "gemma3", "text_config": )" << read(golden / "config.json") << "}";
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    // The file's own header with other names, its tensors behind it.
    const std::string file = read(golden / "model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof(size));
    std::string header = file.substr(8, size);
    for (size_t at = 0; (at = header.find("\"model.", at)) != header.npos;) header.replace(at + 1, 6, prefix), at += 8;
    while (header.size() % 8 != 0) header += ' ';
    const uint64_t longer = header.size();
    std::ofstream out(folder / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&longer), sizeof(longer));
    out << header << file.substr(8 + size);
    out.close();
    const auto source = ModelSource::open(folder.string());
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->config().get_string("model_type").value(), "gemma3_text");
    EXPECT_EQ((*source)->config().get_int("hidden_size", 1, 1000).value(), 64);
    for (const char* name : {"model.embed_tokens.weight", "model.layers.2.self_attn.q_norm.weight"}) {
      EXPECT_NE((*source)->find(name), nullptr) << prefix << " " << name;
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(ModelSourceTest, DummyWeightsFollowFromAConfigAlone) {
  const auto source = ModelSource::open_dummy(write(kConfig), 7, Format::q8_0);
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->tensors().size(), 3u + 2 * 9);
  const SourceTensor* down = (*source)->find("model.layers.1.mlp.down_proj.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape, (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(down->format, Format::q8_0);
  const SourceTensor* norm = (*source)->find("model.norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->format, Format::f32);
  std::vector<std::byte> scratch;
  const auto bytes = (*source)->bytes(*norm, scratch);
  ASSERT_TRUE(bytes);
  std::vector<float> values(64);
  std::memcpy(values.data(), bytes->data(), bytes->size());
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / 64, 1.0, 0.01);
  EXPECT_EQ((*source)->vocab().error().code(), Code::not_found);
}

TEST_F(ModelSourceTest, DummyWeightsDependOnSeedAndNameOnly) {
  const auto read = [&](uint64_t seed, std::string_view name) {
    const auto source = ModelSource::open_dummy(write(kConfig), seed, Format::bf16);
    std::vector<std::byte> scratch;
    (void)(*source)->bytes(*(*source)->find(name), scratch).value();
    return scratch;
  };
  const auto first = read(1, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(first, read(1, "model.layers.0.self_attn.k_proj.weight"));
  // Any rows are the same numbers, at offsets of any alignment.
  for (const Format format : {Format::bf16, Format::q8_0}) {
    const auto source = ModelSource::open_dummy(write(kConfig), 1, format);
    for (const SourceTensor& tensor : (*source)->tensors()) {
      std::vector<std::byte> scratch, again;
      const auto whole = (*source)->bytes(tensor, scratch).value();
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{1, 7}, {5, tensor.rows()}, {3, 3}}) {
        const auto some = (*source)->rows(tensor, begin, end, again).value();
        const auto want = whole.subspan(begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
        EXPECT_TRUE(std::ranges::equal(some, want)) << tensor.name << " rows " << begin << " to " << end;
      }
    }
  }
  EXPECT_NE(first, read(2, "model.layers.0.self_attn.k_proj.weight"));
  EXPECT_NE(first, read(1, "model.layers.1.self_attn.k_proj.weight"));
}

TEST_F(ModelSourceTest, ADummyThatCannotBeMadeIsExplained) {
  EXPECT_EQ(ModelSource::open_dummy(write(kConfig), 1, Format::q6_k).error().code(), Code::invalid_argument);
  EXPECT_EQ(ModelSource::open_dummy(write("{\"model_type\": \"llama\""), 1, Format::f32).error().code(),
            Code::malformed);
  const auto missing = ModelSource::open_dummy(write("{\"model_type\": \"llama\"}"), 1, Format::f32);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("'vocab_size' is missing"), std::string::npos)
      << missing.error().message();
  EXPECT_EQ(ModelSource::open_dummy("/nonexistent", 1, Format::f32).error().code(), Code::not_found);
}

TEST(RandomWeights, AreNormalWithTheAskedMeanAndDeviation) {
  constexpr size_t kCount = 1 << 18;
  std::vector<float> values(kCount);
  fill_normal(random_key(3, "w"), 0, 0.5f, 0.02f, values);
  double sum = 0, squares = 0;
  size_t inside = 0;
  for (const float value : values) {
    const double z = (value - 0.5) / 0.02;
    sum += z;
    squares += z * z;
    inside += std::fabs(z) < 1.0;
  }
  // Five standard errors of each statistic; 68.27% of a normal lies within one deviation.
  EXPECT_NEAR(sum / kCount, 0.0, 5.0 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5.0 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(static_cast<double>(inside) / kCount, 0.6827, 5.0 * 0.4654 / std::sqrt(kCount));
}

TEST(ConfigMap, FlattensObjectsAndKeepsTypes) {
  const Result<ConfigMap> config = ConfigMap::from_json(kConfig);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->get_number("rope_scaling.factor", 0, 100), 8.0);
  EXPECT_EQ(config->get_number("hidden_size", 0, 100), 64.0);
  EXPECT_FALSE(config->has("pad_token_id"));
  EXPECT_EQ(std::get<std::vector<int64_t>>(config->values().at("eos_token_id")),
            (std::vector<int64_t>{1, 2}));
}

TEST(ConfigMap, AValueOutOfRangeOrOfAnotherTypeIsNamedWithWhatWasWanted) {
  const ConfigMap config =
      ConfigMap::from_json(R"({"a": 5, "b": "x", "c": 1.5, "e": 99999999999999999999})").value();
  EXPECT_EQ(config.get_int("a", 1, 4).error().message(), "config: 'a' is 5; want an integer in 1..4");
  EXPECT_EQ(config.get_int("b", 1, 4).error().message(), "config: 'b' is \"x\"; want an integer in 1..4");
  EXPECT_EQ(config.get_int("c", 1, 4).error().code(), Code::malformed);
  EXPECT_EQ(config.get_int("z", 1, 4).error().message(), "config: 'z' is missing; want an integer in 1..4");
  EXPECT_EQ(config.get_int_or("z", 3, 1, 4), 3);
  EXPECT_FALSE(config.get_int_or("b", 3, 1, 4));
  EXPECT_FALSE(config.get_int("e", 0, std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(config.get_string("a").error().code(), Code::malformed);
  EXPECT_EQ(config.get_bool("a").error().code(), Code::malformed);
}

TEST(ConfigMap, BrokenOrBottomlessJsonIsRefused) {
  EXPECT_EQ(ConfigMap::from_json("{\"a\": }").error().message(), "config: not valid JSON at byte 7");
  EXPECT_EQ(ConfigMap::from_json("[1]").error().code(), Code::malformed);
  EXPECT_EQ(ConfigMap::from_json("{\"a\": 1e999}").error().code(), Code::malformed);
  EXPECT_EQ(ConfigMap::from_json("").error().code(), Code::malformed);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_EQ(ConfigMap::from_json(deep).error().code(), Code::malformed);
  EXPECT_EQ(ConfigMap::from_json(deep + "1" + std::string(100000, '}')).error().code(), Code::malformed);
}

}  // namespace
}  // namespace headrace::io

// Folders as the `transformers` library writes them: file names and the index's keys are its own.
#include "io/hf_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace headrace::io {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";

class HfFolder : public ::testing::Test {
 protected:
  HfFolder() : folder_(::testing::TempDir() + "headrace_hf_source_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    write("config.json", R"({"model_type": "llama", "hidden_size": 2})");
  }
  ~HfFolder() override { std::filesystem::remove_all(folder_); }

  void write(std::string_view name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  // A file with one tensor: f32 [2], both elements `value`.
  void write_weights(std::string_view file, std::string_view tensor, float value) {
    const std::string header =
        fmt::format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}})", tensor);
    const uint64_t length = header.size();
    const float values[2] = {value, value};
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    write(file, bytes + header + std::string(reinterpret_cast<const char*>(values), 8));
  }
  Result<std::unique_ptr<ModelSource>> open() const { return ModelSource::open(folder_.string()); }
  std::string refusal() const {
    const auto source = open();
    return source ? "accepted" : source.error().message();
  }
  static float first_value(const ModelSource& source, std::string_view name) {
    std::vector<std::byte> scratch;
    float value = -1;
    std::memcpy(&value, source.bytes(*source.find(name), scratch)->data(), sizeof(value));
    return value;
  }

  std::filesystem::path folder_;
};

TEST_F(HfFolder, OneFileOfWeightsStandsBesideTheConfig) {
  write_weights("model.safetensors", "model.norm.weight", 3);
  const auto source = open();
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->config().get_int("hidden_size", 1, 9), 2);
  ASSERT_NE((*source)->find("model.norm.weight"), nullptr);
  EXPECT_EQ((*source)->find("model.norm.weight")->shape, std::vector<int64_t>{2});
  EXPECT_EQ(first_value(**source, "model.norm.weight"), 3);
  EXPECT_EQ((*source)->find("other"), nullptr);
  EXPECT_EQ((*source)->vocab().error().code(), Code::not_found);
}

TEST_F(HfFolder, TheGenerationConfigAddsItsEndsToThoseOfTheConfig) {
  write_weights("model.safetensors", "a", 1);
  const auto ends = [&](std::string_view config, std::string_view generation) {
    write("config.json", config);
    write("generation_config.json", generation);
    const auto source = open();
    if (!source) return std::vector<int64_t>{-1};
    const auto found = (*source)->config().values().find("eos_token_id");
    if (found == (*source)->config().values().end()) return std::vector<int64_t>{};
    return std::get<std::vector<int64_t>>(found->second);
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(ends(R"({"eos_token_id": 1})", R"({"eos_token_id": [1, 106]})"), (Ids{1, 106}));
  EXPECT_EQ(ends(R"({"eos_token_id": [3, 4]})", R"({"eos_token_id": 5})"), (Ids{3, 4, 5}));
  EXPECT_EQ(ends("{}", R"({"eos_token_id": 5, "temperature": 0.6})"), (Ids{5}));
  EXPECT_EQ(ends("{}", R"({"eos_token_id": null})"), (Ids{}));
  write("generation_config.json", R"({"eos_token_id": "five"})");
  EXPECT_NE(refusal().find("generation_config.json"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("eos_token_id"), std::string::npos) << refusal();
}

TEST_F(HfFolder, ShardsAreThoseOfTheIndex) {
  write_weights("model-00001-of-00002.safetensors", "a", 1);
  write_weights("model-00002-of-00002.safetensors", "b", 2);
  write(kIndex, R"({"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors",
                    "b": "model-00002-of-00002.safetensors"}})");
  const auto source = open();
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->tensors().size(), 2u);
  EXPECT_EQ(first_value(**source, "a"), 1);
  EXPECT_EQ(first_value(**source, "b"), 2);
}

TEST_F(HfFolder, AnIndexThatDisagreesWithItsShardsIsRefused) {
  write_weights("one.safetensors", "a", 1);
  write_weights("two.safetensors", "a", 2);
  write(kIndex, R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})");
  EXPECT_NE(refusal().find("tensor 'b' should lie in one.safetensors, which does not hold it"),
            std::string::npos)
      << refusal();
  write(kIndex, R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_NE(refusal().find("gone.safetensors"), std::string::npos) << refusal();
  write_weights("two.safetensors", "b", 2);
  write(kIndex, R"({"weight_map": {"a": "two.safetensors", "b": "one.safetensors"}})");
  EXPECT_NE(refusal().find("tensor 'a' should lie in two.safetensors"), std::string::npos) << refusal();
}

TEST_F(HfFolder, WhatTheFolderLacksIsNamed) {
  EXPECT_NE(refusal().find("holds no weights: want model.safetensors or model.safetensors.index.json"),
            std::string::npos);
  write("pytorch_model.bin", "");
  EXPECT_EQ(open().error().code(), Code::unsupported);
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_EQ(open().error().code(), Code::not_found);
  EXPECT_NE(refusal().find("config.json"), std::string::npos);
  write("config.json", "{");
  EXPECT_NE(refusal().find("config.json: config: not valid JSON"), std::string::npos) << refusal();
}

TEST(ShardIndex, NamesThatLeaveTheFolderAreRefused) {
  for (const std::string_view name :
       {"../x.safetensors", "/etc/x.safetensors", "a/../x.safetensors", "sub/x.safetensors",
        "..\\\\x.safetensors", ".safetensors", "x.bin", "", "x.safetensors\\u0000"}) {
    const auto parsed = parse_shard_index(fmt::format(R"({{"weight_map": {{"w": "{}"}}}})", name));
    ASSERT_FALSE(parsed) << name;
    EXPECT_NE(parsed.error().message().find("plain name"), std::string::npos) << parsed.error().message();
  }
}

TEST(ShardIndex, OtherShapesOfJsonAreRefused) {
  for (const std::string_view json :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})", R"({"weight_map": {"w": 1}})",
        R"({"weight_map": {"w": "x.safetensors")"}) {
    EXPECT_FALSE(parse_shard_index(json)) << json;
  }
}

}  // namespace
}  // namespace headrace::io

// Chats over the text files of a folder, against transformers' apply_chat_template (tests/golden/chat_folders, made by
// tools/golden/chat_folders.py), on the weights of tests/golden/tiny_decoders/tied.
#include "engine/text_parts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/serving_model.h"
#include "io/model_source.h"
#include "testing/golden.h"

namespace headrace::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using headrace::testing::golden_path;

class ChatFolder : public ::testing::TestWithParam<const char*> {
 protected:
  ChatFolder() : folder_(fs::path(::testing::TempDir()) / "headrace_text_parts_test") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    for (const std::string& from : {std::string("tiny_decoders/tied"), "chat_folders/" + std::string(GetParam())}) {
      for (const auto& entry : fs::directory_iterator(golden_path(from))) {
        fs::copy(entry.path(), folder_ / entry.path().filename());
      }
    }
  }
  ~ChatFolder() override { fs::remove_all(folder_); }

  void write(const char* name, std::string_view text) const { std::ofstream(folder_ / name, std::ios::binary) << text; }
  std::unique_ptr<ServingModel> open() const {
    auto model = ServingModel::open(folder_.string(), {});
    EXPECT_TRUE(model) << model.error().message();
    return model ? std::move(*model) : nullptr;
  }
  std::string refusal() const {
    const auto source = io::ModelSource::open(folder_.string());
    EXPECT_TRUE(source) << source.error().message();
    const auto parts = open_text_parts(**source);
    return parts ? "accepted" : parts.error().message();
  }
  Json golden() const { return Json::parse(std::ifstream(folder_ / "golden.json")); }

  const fs::path folder_;
};

TEST_P(ChatFolder, AChatHasTheIdsThatTransformersGivesIt) {
  const auto model = open();
  ASSERT_NE(model, nullptr);
  const Json chats = golden()["chats"];
  ASSERT_EQ(chats.size(), 3u);
  for (const Json& chat : chats) {
    const auto ids = model->encode_chat(chat["messages"].dump());
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, chat["ids"].get<std::vector<int32_t>>());
  }
}

TEST_P(ChatFolder, ACallerCannotNameTheSpecialTokens) {
  const auto model = open();
  ASSERT_NE(model, nullptr);
  const Json chat = golden()["chats"][0];
  const auto ids = model->encode_chat(chat["messages"].dump(), R"({"bos_token": "<|system|>", "eos_token": "<|system|>"})");
  ASSERT_TRUE(ids) << ids.error().message();
  EXPECT_EQ(*ids, chat["ids"].get<std::vector<int32_t>>());
}

TEST_P(ChatFolder, FilesThatSaySomethingElseAreRefusedByNameAndKey) {
  fs::remove(folder_ / "chat_template.jinja");
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "tokenizer_config.json: not a JSON object"},
      {"{\"bos_token\":", "tokenizer_config.json: not a JSON object"},
      {R"({"cls_token": 5})", "tokenizer_config.json: cls_token: want a text"},
      {R"({"cls_token": {"special": true}})", "tokenizer_config.json: cls_token: want a text"},
      {R"({"chat_template": 5})", "tokenizer_config.json: chat_template: want a text, or a list"},
      {R"({"chat_template": [{"name": "rag", "template": ""}, 3]})", "chat_template: want a text, or a list"},
      {R"({"chat_template": "{% if %}"})", "tokenizer_config.json: "}};
  for (const auto& [config, message] : cases) {
    write("tokenizer_config.json", config);
    EXPECT_NE(refusal().find(message), std::string::npos) << config << ": " << refusal();
  }
  write("tokenizer_config.json", "{}");
  EXPECT_EQ(refusal(), "accepted");
  write("tokenizer.json", "{}");
  EXPECT_NE(refusal().find("tokenizer.json"), std::string::npos) << refusal();
  fs::remove(folder_ / "tokenizer.json");
  write("tokenizer.model", "");
  EXPECT_NE(refusal().find("holds a tokenizer.model and no tokenizer.json"), std::string::npos) << refusal();
}

INSTANTIATE_TEST_SUITE_P(Golden, ChatFolder, ::testing::Values("own_file", "named_list"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace headrace::engine

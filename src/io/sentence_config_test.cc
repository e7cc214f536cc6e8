#include "io/sentence_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SentenceConfig : public ::testing::Test {
 protected:
  SentenceConfig() : folder_(fs::temp_directory_path() / fmt::format("headrace_sentence_{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~SentenceConfig() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  void write_modules(const std::string& path) {
    write("modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                             {"type": "sentence_transformers.models.Pooling", "path": ")" + path + R"("},
                             {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}])");
  }
  Status read() { return read_sentence_config(folder_.string(), config_); }

  fs::path folder_;
  ConfigMap config_;
};

TEST_F(SentenceConfig, WithoutFilesNothingIsAdded) {
  EXPECT_TRUE(read().ok());
  EXPECT_TRUE(config_.values().empty());
}

TEST_F(SentenceConfig, ModulesPoolingAndLengthBecomeKeys) {
  write_modules("1_Pooling");
  write("1_Pooling/config.json", R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})");
  write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(std::get<std::vector<std::string>>(config_.values().at("sentence_modules")),
            (std::vector<std::string>{"Transformer", "Pooling", "Normalize"}));
  EXPECT_EQ(*config_.get_string("pooling_mode"), "mean");
  EXPECT_EQ(*config_.get_int("max_seq_length", 0, 1000), 256);
  EXPECT_FALSE(*config_.get_bool("sentence_lower_case"));
}

TEST_F(SentenceConfig, SeveralWaysOfPoolingAreJoinedAndAnAbsentLengthStaysAbsent) {
  write_modules("1_Pooling");
  write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_lasttoken": true})");
  write("sentence_bert_config.json", R"({"max_seq_length": null})");
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(*config_.get_string("pooling_mode"), "cls+last");
  EXPECT_FALSE(config_.has("max_seq_length"));
}

TEST_F(SentenceConfig, PathsThatLeaveTheFolderAreRefused) {
  for (const char* path : {"../other", "/etc", "a/b", "..", ".hidden", "a\\\\b"}) {
    SCOPED_TRACE(path);
    write_modules(path);
    const Status status = read();
    EXPECT_EQ(status.code(), Code::malformed);
    EXPECT_THAT(status.message(), HasSubstr("want the plain name of a folder"));
  }
}

TEST_F(SentenceConfig, WhatIsMalformedIsNamed) {
  struct Row {
    const char* file;
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"modules.json", "{}", "modules.json: want a JSON list"},
      {"modules.json", "[1]", "module 0: want a type"},
      {"modules.json", "[{\"type\": 3}]", "module 0: want a type"},
      {"modules.json", "not json", "modules.json: want a JSON list"},
      {"1_Pooling/config.json", "{}", "1_Pooling/config.json: no pooling_mode_* is true"},
      {"1_Pooling/config.json", "[]", "want a JSON object"},
      {"sentence_bert_config.json", R"({"max_seq_length": 0})", "'max_seq_length' is 0"},
      {"sentence_bert_config.json", R"({"max_seq_length": "long"})", "'max_seq_length' is \"long\""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    write_modules("1_Pooling");
    write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
    write("sentence_bert_config.json", "{}");
    write(row.file, row.text);
    EXPECT_THAT(read().message(), HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace headrace::io

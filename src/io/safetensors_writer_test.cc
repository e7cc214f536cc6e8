// What is written is read back with safetensors.h and ModelSource::open(), which are tested on files of the `safetensors` package. The
// division into shards is worked by hand: files are filled in order while they hold at most so many bytes, as save_pretrained's do.
#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false})";

class SafetensorsWriting : public ::testing::Test {
 protected:
  SafetensorsWriting() : folder_(fs::path(::testing::TempDir()) / "headrace_safetensors_writer_test") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    std::ofstream(folder_ / "config.json") << kConfig;
  }
  ~SafetensorsWriting() override { fs::remove_all(folder_); }

  std::string out() const { return (folder_ / "out").string(); }
  std::unique_ptr<ModelSource> dummy(uint64_t seed) const {
    auto source = ModelSource::open_dummy(folder_.string(), seed, Format::bf16);
    EXPECT_TRUE(source) << source.error().message();
    return *std::move(source);
  }
  // Three threads, without the thread team of runtime/.
  static void on_team(const std::function<void(Team&)>& work) {
    TeamState state(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&state, &work, rank] {
        Team team(state, rank);
        work(team);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Status write(const ModelSource& source, uint64_t shard_bytes) const {
    HR_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::create(out(), kConfig, source, shard_bytes));
    HR_RETURN_IF_ERROR(writer->write(on_team, nullptr));
    return writer->finish();
  }
  static std::vector<std::byte> bytes_of(const ModelSource& source, const SourceTensor& tensor) {
    std::vector<std::byte> scratch;
    const auto bytes = source.bytes(tensor, scratch);
    EXPECT_TRUE(bytes) << bytes.error().message();
    return {bytes->begin(), bytes->end()};
  }
  static void expect_same(const ModelSource& got, const ModelSource& want) {
    ASSERT_EQ(got.tensors().size(), want.tensors().size());
    for (const SourceTensor& tensor : want.tensors()) {
      SCOPED_TRACE(tensor.name);
      const SourceTensor* found = got.find(tensor.name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->format, tensor.format);
      EXPECT_EQ(found->shape, tensor.shape);
      EXPECT_EQ(bytes_of(got, *found), bytes_of(want, tensor));
    }
  }
  // The files of the folder but for config.json, by name.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out())) names.push_back(entry.path().filename().string());
    std::erase(names, "config.json");
    std::sort(names.begin(), names.end());
    return names;
  }

  const fs::path folder_;
};

TEST_F(SafetensorsWriting, TheFolderHoldsTheDummyWeightsOfItsSeed) {
  const auto source = dummy(7);
  ASSERT_TRUE(write(*source, 1 << 30).ok());
  EXPECT_EQ(files(), std::vector<std::string>{"model.safetensors"});
  const auto read = ModelSource::open(out());
  ASSERT_TRUE(read) << read.error().message();
  expect_same(**read, *source);
  EXPECT_EQ((*read)->config().get_int("vocab_size", 1, 1000), 100);
  const auto other = dummy(8);
  const SourceTensor* head = other->find("lm_head.weight");
  EXPECT_NE(bytes_of(*other, *head), bytes_of(**read, *(*read)->find("lm_head.weight")));
}

TEST_F(SafetensorsWriting, ShardsAreFilledInOrderAndLeadToTheSameTensors) {
  const auto source = dummy(0);
  // embed_tokens has 12,800 bytes, the norm 256, lm_head 12,800: the third would make 25,856.
  ASSERT_TRUE(write(*source, 25'855).ok());
  const auto read = ModelSource::open(out());
  ASSERT_TRUE(read) << read.error().message();
  expect_same(**read, *source);
  const std::vector<std::string> names = files();
  ASSERT_GT(names.size(), 3u);
  EXPECT_EQ(names.front(), fmt::format("model-00001-of-{:05}.safetensors", names.size() - 1));
  EXPECT_EQ(names.back(), "model.safetensors.index.json");
  const auto first = SafetensorsFile::open(out() + "/" + names.front());
  ASSERT_TRUE(first) << first.error().message();
  ASSERT_EQ(first->tensors().size(), 2u);
  EXPECT_EQ(first->tensors()[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(first->tensors()[1].name, "model.norm.weight");
  EXPECT_EQ(first->tensors()[0].offset % 8, 0u);
  EXPECT_EQ(first->metadata().at("format"), "pt");
  for (const std::string& name : names) {
    if (name.ends_with(".json")) continue;
    const auto shard = SafetensorsFile::open(out() + "/" + name);
    ASSERT_TRUE(shard) << shard.error().message();
    uint64_t bytes = 0;
    for (const SafetensorsTensor& tensor : shard->tensors()) bytes += tensor.bytes;
    EXPECT_LE(bytes, 25'855u) << name;
  }
}

TEST_F(SafetensorsWriting, ATensorLargerThanAShardHasOneOfItsOwn) {
  const auto source = dummy(0);
  ASSERT_TRUE(write(*source, 1).ok());
  EXPECT_EQ(files().size(), source->tensors().size() + 1);
  const auto read = ModelSource::open(out());
  ASSERT_TRUE(read) << read.error().message();
  expect_same(**read, *source);
}

TEST_F(SafetensorsWriting, AFolderThatIsThereIsRefusedUnlessItIsEmpty) {
  const auto source = dummy(0);
  fs::create_directory(out());
  ASSERT_TRUE(write(*source, 1 << 30).ok());
  const Status status = write(*source, 1 << 30);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("is there already"), std::string::npos) << status.message();
}

TEST_F(SafetensorsWriting, OneThatIsBeingWrittenIsRefusedAndStays) {
  const auto source = dummy(0);
  const auto first = SafetensorsWriter::create(out(), kConfig, *source, 1 << 30);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(write(*source, 1 << 30).code(), Code::invalid_argument);
  ASSERT_TRUE((*first)->write(on_team, nullptr).ok());
  ASSERT_TRUE((*first)->finish().ok());
  expect_same(**ModelSource::open(out()), *source);
}

TEST_F(SafetensorsWriting, WhatIsStoppedLeavesNothingBehind) {
  const auto source = dummy(0);
  {
    const auto writer = SafetensorsWriter::create(out(), kConfig, *source, 20'000);
    ASSERT_TRUE(writer) << writer.error().message();
    EXPECT_TRUE(fs::exists(out() + ".part"));
    EXPECT_EQ((*writer)->write(on_team, [](double fraction) { return fraction < 0.5; }).code(), Code::cancelled);
  }
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_FALSE(fs::exists(out() + ".part"));
}

TEST_F(SafetensorsWriting, FormatsOfBlocksAndMissingFoldersAreRefused) {
  const auto blocks = ModelSource::open_dummy(folder_.string(), 0, Format::q8_0);
  ASSERT_TRUE(blocks) << blocks.error().message();
  const Status refused = write(**blocks, 1 << 30);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("safetensors hold no q8_0"), std::string::npos) << refused.message();
  const auto source = dummy(0);
  EXPECT_EQ(SafetensorsWriter::create((folder_ / "no/such/out").string(), kConfig, *source, 1 << 30).error().code(), Code::not_found);
}

}  // namespace
}  // namespace headrace::io

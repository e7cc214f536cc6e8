// What is written is read back with gguf.h, which is tested on files of the `gguf` package.
#include "io/gguf_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/mapped_file.h"
#include "io/weight_names.h"
#include "testing/golden.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

class GgufWriting : public ::testing::Test {
 protected:
  GgufWriting() : folder_(fs::path(::testing::TempDir()) / "headrace_gguf_writer_test") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~GgufWriting() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "out.gguf").string(); }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  static std::unique_ptr<ModelSource> tiny() {
    auto source = ModelSource::open(testing::golden_path("tiny_llama.gguf"));
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
  Status write(const ModelSource& source, const GgufMetadata& metadata, const GgufWriter::Options& options = {}) {
    HR_ASSIGN_OR_RETURN(const auto writer, GgufWriter::create(path(), metadata, source, options));
    HR_RETURN_IF_ERROR(writer->write(on_team, nullptr));
    return writer->finish();
  }

  const fs::path folder_;
};

TEST_F(GgufWriting, EveryKindOfMetadataAndEveryTensorComeBackAsTheyWere) {
  const auto source = tiny();
  const auto original = GgufFile::open(testing::golden_path("tiny_llama.gguf"));
  ASSERT_TRUE(original);
  GgufMetadata metadata;
  for (const GgufEntry& entry : original->metadata()) metadata.add(entry);
  const Status status = write(*source, metadata, {.alignment = original->alignment()});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(files(), 1u);

  const auto copy = GgufFile::open(path());
  ASSERT_TRUE(copy) << copy.error().message();
  EXPECT_EQ(copy->version(), 3u);
  EXPECT_EQ(copy->alignment(), original->alignment());
  ASSERT_EQ(copy->metadata().size(), original->metadata().size());
  for (size_t i = 0; i < copy->metadata().size(); ++i) {
    GgufMetadata a, b;
    a.add(original->metadata()[i]);
    b.add(copy->metadata()[i]);
    EXPECT_EQ(a.bytes(), b.bytes()) << copy->metadata()[i].key;
  }
  ASSERT_EQ(copy->tensors().size(), original->tensors().size());
  for (size_t i = 0; i < copy->tensors().size(); ++i) {
    const GgufTensor &a = original->tensors()[i], &b = copy->tensors()[i];
    EXPECT_EQ(b.name, source->tensors()[i].name);
    EXPECT_EQ(b.format, a.format);
    EXPECT_EQ(b.dims, a.dims);
    EXPECT_TRUE(std::ranges::equal(original->data(a), copy->data(b))) << a.name;
  }
}

TEST_F(GgufWriting, ValuesAreWrittenAsTheTypeThatTheirKeyHas) {
  const auto source = tiny();
  GgufMetadata metadata;
  metadata.add_u32("u32", 4'000'000'000u);
  metadata.add_f32("f32", 1e-6f);
  metadata.add_bool("bool", true);
  metadata.add_text("text", "\xE2\x96\x81 a");
  const std::vector<std::string> texts = {"", "b c", std::string("\0x", 2)};
  metadata.add_texts("texts", texts);
  metadata.add_i32s("i32s", std::vector<int32_t>{-1, 3});
  metadata.add_f32s("f32s", std::vector<float>{0.5f});
  EXPECT_EQ(metadata.count(), 7u);
  ASSERT_TRUE(write(*source, metadata).ok());
  const auto file = GgufFile::open(path());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->find("u32")->integer(), 4'000'000'000);
  EXPECT_EQ(file->find("f32")->number(), double{1e-6f});
  EXPECT_EQ(file->find("bool")->boolean(), true);
  EXPECT_EQ(file->find("text")->string(), "\xE2\x96\x81 a");
  const auto read = file->find("texts")->array()->strings();
  EXPECT_TRUE(std::ranges::equal(*read, texts));
  EXPECT_EQ(file->find("i32s")->array()->integers(), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(file->find("f32s")->array()->numbers(), std::vector<double>{0.5});
}

TEST_F(GgufWriting, AFileThatIsThereIsReplacedOnRequestAlone) {
  std::ofstream(path()) << "mine";
  const auto source = tiny();
  const Status refused = write(*source, {});
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("out.gguf is there already; --force replaces it"), std::string::npos);
  EXPECT_EQ(*read_file(path()), "mine");
  EXPECT_TRUE(write(*source, {}, {.overwrite = true}).ok());
  EXPECT_TRUE(GgufFile::open(path()));
  EXPECT_EQ(files(), 1u);
}

TEST_F(GgufWriting, AWriteThatIsStoppedLeavesNothing) {
  const auto source = tiny();
  auto writer = GgufWriter::create(path(), {}, *source, {});
  ASSERT_TRUE(writer) << writer.error().message();
  EXPECT_TRUE(fs::exists((*writer)->part_path()));
  const auto second = GgufWriter::create(path(), {}, *source, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::unavailable);
  EXPECT_TRUE(fs::exists((*writer)->part_path()));
  EXPECT_EQ((*writer)->write(on_team, [](double) { return false; }).code(), Code::cancelled);
  writer->reset();
  EXPECT_EQ(files(), 0u);
}

TEST_F(GgufWriting, WhatTheSystemRefusesIsReportedWithThePath) {
  const auto source = tiny();
  const auto nowhere = GgufWriter::create((folder_ / "no" / "out.gguf").string(), {}, *source, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code(), Code::not_found);
  EXPECT_NE(nowhere.error().message().find("no/out.gguf.part: No such file"), std::string::npos) << nowhere.error().message();

  // A limit on the size of files stands in for a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1024, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status full = write(*source, {});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(full.code(), Code::resource_exhausted);
  EXPECT_NE(full.message().find("out.gguf.part"), std::string::npos) << full.message();
  EXPECT_EQ(files(), 0u);
}

TEST(WeightNames, TheTwoDirectionsAreOneTable) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma3"}) {
    const Family* family = family_of_gguf(architecture).value();
    for (const WeightRow& row : weight_rows()) {
      if (!belongs(row, *family)) continue;
      const std::string gguf = fmt::format("{}{}.weight", row.per_layer ? "blk.31." : "", row.gguf);
      EXPECT_EQ(gguf_name(*family, hf_name(*family, gguf)), gguf);
      EXPECT_NE(hf_name(*family, gguf), gguf);
    }
    EXPECT_EQ(gguf_name(*family, "model.layers.007.mlp.up_proj.weight"), "");
    EXPECT_EQ(gguf_name(*family, "vision_tower.weight"), "");
  }
  EXPECT_EQ(family_in_gguf("mistral").value()->gguf_architecture, "llama");
  EXPECT_EQ(family_in_gguf("bert").error().code(), Code::unsupported);
}

TEST_F(GgufWriting, WhatIsNoRegularFileIsNeitherReplacedNorFollowed) {
  const auto source = tiny();
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(write(*source, {}, {.overwrite = true}).code(), Code::invalid_argument);
  EXPECT_TRUE(fs::is_fifo(path()));
  fs::remove(path());
  // Nor at the name under which the file grows: a pipe without a reader would wait for ever.
  ASSERT_EQ(::mkfifo((path() + ".part").c_str(), 0600), 0);
  EXPECT_FALSE(write(*source, {}).ok());
  fs::remove(path() + ".part");
  const std::string victim = (folder_ / "victim").string();
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, path() + ".part");
  EXPECT_FALSE(write(*source, {}, {.overwrite = true}).ok());
  EXPECT_EQ(fs::file_size(victim), 8u);
  EXPECT_TRUE(fs::is_symlink(path() + ".part"));
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(GgufWriting, TheModelThatIsReadIsNotWrittenOver) {
  const std::string part = path() + ".part";
  fs::copy_file(testing::golden_path("tiny_llama.gguf"), part);
  const auto bytes = fs::file_size(part);
  const auto source = ModelSource::open(part);
  ASSERT_TRUE(source);
  EXPECT_EQ(write(**source, {}).code(), Code::invalid_argument);
  EXPECT_EQ(fs::file_size(part), bytes);
  EXPECT_TRUE(ModelSource::open(part));
}

TEST_F(GgufWriting, APartIsNoModelBeforeAllIsWritten) {
  const auto source = tiny();
  const auto writer = GgufWriter::create(path(), {}, *source, {});
  ASSERT_TRUE(writer);
  EXPECT_FALSE(GgufFile::open((*writer)->part_path()));
  ASSERT_TRUE((*writer)->write(on_team, nullptr).ok());
  EXPECT_TRUE(GgufFile::open((*writer)->part_path()));
}

}  // namespace
}  // namespace headrace::io

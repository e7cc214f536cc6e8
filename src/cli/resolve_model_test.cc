// MODEL as a path, a name of the catalogue and a name on a hub.
#include "cli/resolve_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/catalogue.h"
#include "testing/fake_hub.h"
#include "testing/scoped_environment.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

class ResolveModel : public ::testing::Test {
 protected:
  ResolveModel()
      : folder_(fs::path(::testing::TempDir()) / fmt::format("headrace_resolve_{}", ::getpid())),
        // The digest is FIPS 180-2's for "abc".
        hub_("org/tiny", {{"model.gguf", {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}}),
        environment_({{"HF_ENDPOINT", hub_.endpoint()},
                      {"HF_HOME", (folder_ / "hf").string()},
                      {"HF_HUB_CACHE", {}},
                      {"HF_HUB_OFFLINE", {}},
                      {"HF_TOKEN", {}},
                      {"HF_TOKEN_PATH", {}},
                      {"XDG_CACHE_HOME", (folder_ / "cache").string()}}) {
    fs::create_directories(folder_);
  }
  ~ResolveModel() override { fs::remove_all(folder_); }

  std::string refusal(const std::string& name, Code code) {
    const Result<std::string> path = resolve_model(name);
    EXPECT_FALSE(path) << *path;
    EXPECT_EQ(path.error().code(), code) << path.error().message();
    return path.error().message();
  }

  const fs::path folder_;
  const testing::FakeHub hub_;
  const testing::ScopedEnvironment environment_;
};

TEST_F(ResolveModel, TakesAPathThatExistsAsItIs) {
  const std::string file = (folder_ / "org").string();
  std::ofstream(file) << "x";
  EXPECT_EQ(*resolve_model(file), file);
  EXPECT_EQ(*resolve_model(folder_.string()), folder_.string());
  EXPECT_TRUE(hub_.requests().empty());
}

TEST_F(ResolveModel, FindsANameOfTheCatalogueWhereItIsFetchedTo) {
  EXPECT_NE(refusal("minilm", Code::not_found).find("fetch_model.py minilm"), std::string::npos);
  fs::create_directories(folder_ / "cache/headrace/minilm");
  EXPECT_EQ(*resolve_model("minilm"), (folder_ / "cache/headrace/minilm").string());
}

TEST_F(ResolveModel, FetchesANameOnAHub) {
  const auto path = resolve_model("org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(fs::path(*path).filename(), "model.gguf");
  EXPECT_EQ(fs::file_size(*path), 3u);
}

TEST_F(ResolveModel, SaysWhatElseANameCouldHaveBeen) {
  for (const std::string name : {"org/other", "smollm", "nothing.gguf"}) {
    const std::string says = refusal(name, Code::not_found);
    EXPECT_NE(says.find(name), std::string::npos) << says;
    EXPECT_NE(says.find("o such file or"), std::string::npos) << says;
    EXPECT_NE(says.find(io::catalogue_names()), std::string::npos) << says;
    EXPECT_NE(says.find("hub"), std::string::npos) << says;
  }
}

TEST_F(ResolveModel, AsksNoHubForAMistypedPath) {
  for (const std::string name : {"./org/tiny", "/org/tiny", "../org/tiny", "~/tiny", "models/tiny.gguf", "models/x.safetensors", "", "tiny"}) {
    refusal(name, Code::not_found);
  }
  EXPECT_TRUE(hub_.requests().empty());
}

TEST_F(ResolveModel, TheHelpNamesTheWholeCatalogue) {
  EXPECT_NE(kModelHelp.find(io::catalogue_names()), std::string_view::npos);
}

}  // namespace
}  // namespace headrace::cli

// The hub against a server on loopback that behaves like one and fails to order. Digests come from Python's hashlib and from
// `git hash-object`.
#include "io/hub.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "io/catalogue.h"
#include "io/digest.h"
#include "io/hub_cache.h"
#include "testing/fake_hub.h"
#include "testing/scoped_environment.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using testing::FakeHub;
using testing::FakeHubFaults;
using testing::FakeHubFile;

constexpr std::string_view kBigEtag = "ac64956bfb8b88d81f18a14627f9e7a1b5a9cdf2034344cbe78817d474154fb8";
constexpr size_t kBigBytes = 3'000'000;

// Bytes that repeat nowhere soon: the top byte of (i + seed) times Knuth's constant, modulo 2^32.
std::string pattern(uint32_t seed, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((static_cast<uint32_t>(i) + seed) * 2654435761u >> 24);
  return bytes;
}

FakeHubFile big() { return {pattern(0, kBigBytes), std::string(kBigEtag)}; }
FakeHubFile shard(int number) {
  return {pattern(static_cast<uint32_t>(number), 70000), number == 1
              ? "e67438102dec911984505d82cbcec91dd00c9256c522243011cc7b72e6046903"
              : "97e3734b0f65114758d693465a8f00db9219a3adada92462206cec7f715c31a6"};
}
FakeHubFile config() { return {R"({"model_type":"llama"})", "0972e95c1405cc1507c19dcbe784f7a36c930907", false}; }
FakeHubFile tokenizer() { return {"{}", "9e26dfeeb6e641a33dae4961196235bdb965b21b", false}; }
FakeHubFile index() {
  return {R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})",
          "882e6caa44ebc3cd41ab452d1ab15048a4863294", false};
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

class Hub : public ::testing::Test {
 protected:
  Hub() : cache_(fs::path(::testing::TempDir()) / fmt::format("headrace_hub_{}", ::getpid())) { fs::remove_all(cache_); }
  ~Hub() override { fs::remove_all(cache_); }

  HubOptions options(const std::string& endpoint) const {
    HubOptions options;
    options.endpoint = endpoint;
    options.cache = cache_.string();
    options.backoff_seconds = 0.001;
    options.stall_ms = 5000;
    return options;
  }
  Result<std::string> resolve(const FakeHub& hub, std::string_view name) { return resolve(name, options(hub.endpoint())); }
  Result<std::string> resolve(std::string_view name, const HubOptions& options) {
    HR_ASSIGN_OR_RETURN(const HubName parsed, parse_hub_name(name));
    return resolve_hub_model(parsed, options);
  }
  std::string repo_folder() const { return (cache_ / "models--org--tiny").string(); }
  std::string snapshot() const { return repo_folder() + "/snapshots/" + std::string(FakeHub::kCommit); }
  std::string blob(std::string_view etag) const { return repo_folder() + "/blobs/" + std::string(etag); }
  std::string partial(std::string_view etag) const { return blob(etag) + ".incomplete"; }

  void expect_error(const Result<std::string>& result, Code code, std::string_view says) {
    ASSERT_FALSE(result) << *result;
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    EXPECT_NE(result.error().message().find(says), std::string::npos) << result.error().message();
  }

  const fs::path cache_;
};

TEST_F(Hub, AFileLandsAsABlobWithARelativeLinkAndAReference) {
  const FakeHub hub("org/tiny", {{"sub/model.gguf", big()}});
  const auto path = resolve(hub, "org/tiny/sub/model.gguf");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(*path, snapshot() + "/sub/model.gguf");
  EXPECT_EQ(fs::read_symlink(*path).string(), "../../../blobs/" + std::string(kBigEtag));
  EXPECT_EQ(read(*path), big().content);
  EXPECT_EQ(read(repo_folder() + "/refs/main"), FakeHub::kCommit);
  EXPECT_FALSE(fs::exists(partial(kBigEtag)));
}

TEST_F(Hub, WhatIsThereIsNotFetchedAgain) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  ASSERT_TRUE(resolve(hub, "org/tiny/model.gguf"));
  ASSERT_TRUE(resolve(hub, "org/tiny/model.gguf"));
  EXPECT_EQ(hub.count("GET", true), 1);
  const size_t before = hub.requests().size();
  ASSERT_TRUE(resolve(hub, "org/tiny:" + std::string(FakeHub::kCommit) + "/model.gguf"));
  EXPECT_EQ(hub.requests().size(), before);  // a commit never changes: nothing is asked
}

TEST_F(Hub, ABlobThatAnotherToolFetchedIsLinkedOnly) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  write(blob(kBigEtag), big().content);
  const auto path = resolve(hub, "org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(read(*path), big().content);
  EXPECT_EQ(hub.count("GET", true), 0);
}

TEST_F(Hub, AShardedFolderComesWithItsTokenizerAndWithoutOtherWeights) {
  const FakeHub hub("org/tiny", {{"config.json", config()},
                                 {"tokenizer.json", tokenizer()},
                                 {"model.safetensors.index.json", index()},
                                 {"model-00001-of-00002.safetensors", shard(1)},
                                 {"model-00002-of-00002.safetensors", shard(2)},
                                 {"consolidated.safetensors", big()},
                                 {"README.md", tokenizer()}});
  const auto path = resolve(hub, "org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(*path, snapshot());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(*path)) names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "tokenizer.json", "model.safetensors.index.json",
                                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(read(*path + "/model-00002-of-00002.safetensors"), shard(2).content);
}

TEST_F(Hub, ASplitGgufComesWithAllItsShards) {
  const FakeHub hub("org/tiny", {{"m-00001-of-00002.gguf", shard(1)}, {"m-00002-of-00002.gguf", shard(2)}, {"mmproj-f16.gguf", big()}});
  const auto path = resolve(hub, "org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(*path, snapshot() + "/m-00001-of-00002.gguf");
  EXPECT_EQ(read(snapshot() + "/m-00002-of-00002.gguf"), shard(2).content);
}

TEST_F(Hub, SeveralGgufFilesAreListedAndAMissingOneIsNamed) {
  const FakeHub hub("org/tiny", {{"a-Q4_0.gguf", shard(1)}, {"a-Q8_0.gguf", shard(2)}});
  expect_error(resolve(hub, "org/tiny"), Code::invalid_argument, "\n  org/tiny/a-Q4_0.gguf\n  org/tiny/a-Q8_0.gguf");
  expect_error(resolve(hub, "org/tiny/a-Q5_0.gguf"), Code::not_found, "holds no a-Q5_0.gguf");
  EXPECT_EQ(hub.count("GET", true), 0);
}

TEST_F(Hub, ARepositoryWithoutReadableWeightsIsRefused) {
  const FakeHub hub("org/tiny", {{"config.json", config()}, {"pytorch_model.bin", shard(1)}});
  expect_error(resolve(hub, "org/tiny"), Code::unsupported, "pickled PyTorch weights");
}

TEST_F(Hub, ARevisionWithSlashesIsAskedForAndRemembered) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  ASSERT_TRUE(resolve(hub, "org/tiny:refs%2Fpr%2F1/model.gguf"));
  EXPECT_EQ(read(repo_folder() + "/refs/refs/pr/1"), FakeHub::kCommit);
  expect_error(resolve(hub, "org/tiny:v2"), Code::not_found, "revision v2");
  expect_error(resolve(hub, "org/other"), Code::not_found, "org/other");
}

TEST_F(Hub, TheTokenGoesToTheHubAndNeverToWhereItRedirects) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.token = "hf_secret"});
  expect_error(resolve(hub, "org/tiny"), Code::unauthenticated, "set HF_TOKEN");
  HubOptions with_token = options(hub.endpoint());
  with_token.token = "wrong";
  expect_error(resolve("org/tiny", with_token), Code::unauthenticated, "HF_TOKEN does not give access");
  with_token.token = "hf_secret";
  ASSERT_TRUE(resolve("org/tiny", with_token));
  int stored = 0;
  for (const FakeHub::Request& request : hub.requests()) {
    stored += request.storage;
    if (request.storage) {
      EXPECT_FALSE(request.headers.contains("authorization"));
    }
  }
  EXPECT_EQ(stored, 1);
}

TEST_F(Hub, ACutConnectionIsContinuedWhereItEnded) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.cuts = 2, .cut_after = 1'000'000});
  const auto path = resolve(hub, "org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(read(*path), big().content);
  std::vector<std::string> ranges;
  for (const FakeHub::Request& request : hub.requests()) {
    if (request.storage) ranges.push_back(request.headers.contains("range") ? request.headers.at("range") : "");
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"", "bytes=1000000-", "bytes=2000000-"}));
}

TEST_F(Hub, AHubThatKeepsCuttingEndsTheTriesAndTheNextRunContinues) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.cuts = 3, .cut_after = 1000});
  HubOptions three = options(hub.endpoint());
  three.tries = 3;
  expect_error(resolve("org/tiny", three), Code::unavailable, "with 2997000 bytes remaining");
  EXPECT_EQ(fs::file_size(partial(kBigEtag)), 3000u);
  ASSERT_TRUE(resolve("org/tiny", three));
  EXPECT_EQ(hub.requests().back().headers.at("range"), "bytes=3000-");
  EXPECT_EQ(read(snapshot() + "/model.gguf"), big().content);
}

TEST_F(Hub, AServerThatIgnoresRangesStartsTheFileAnew) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.cuts = 1, .cut_after = 500'000, .ignore_range = true});
  const auto path = resolve(hub, "org/tiny");
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(read(*path), big().content);
}

TEST_F(Hub, AnotherPartThanWasAskedForIsRefused) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.cuts = 1, .cut_after = 500'000, .shift_range = true});
  expect_error(resolve(hub, "org/tiny"), Code::malformed, "want Content-Range 'bytes 500000-2999999/3000000'");
}

TEST_F(Hub, WrongBytesAreThrownAway) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}, {"config.json", config()}, {"model.safetensors", shard(1)}});
  hub.set_faults({.wrong_bytes = true});
  expect_error(resolve(hub, "org/tiny/model.gguf"), Code::malformed, fmt::format("want SHA-256 {}", kBigEtag));
  EXPECT_FALSE(fs::exists(partial(kBigEtag)));
  EXPECT_FALSE(fs::exists(blob(kBigEtag)));
  EXPECT_FALSE(fs::exists(snapshot() + "/model.gguf"));
  expect_error(resolve(hub, "org/tiny"), Code::malformed, "git blob SHA-1");
}

TEST_F(Hub, APartialFileThatIsNotAPartOfTheFileCostsOneFreshStart) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  write(partial(kBigEtag), std::string(1000, 'x'));
  ASSERT_TRUE(resolve(hub, "org/tiny"));
  EXPECT_EQ(read(snapshot() + "/model.gguf"), big().content);
  EXPECT_EQ(hub.count("GET", true), 2);
}

TEST_F(Hub, APartialFileLongerThanTheFileIsDropped) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  write(partial(kBigEtag), std::string(kBigBytes + 1, 'x'));
  ASSERT_TRUE(resolve(hub, "org/tiny"));
  EXPECT_EQ(read(snapshot() + "/model.gguf"), big().content);
}

TEST_F(Hub, ABusyHubIsAskedAgainAFewTimes) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.busy = 4});
  ASSERT_TRUE(resolve(hub, "org/tiny"));
  hub.set_faults({.busy = 1000});
  fs::remove_all(cache_);
  const size_t before = hub.requests().size();
  expect_error(resolve(hub, "org/tiny"), Code::unavailable, "status 503");
  EXPECT_EQ(hub.requests().size(), before + 5);
}

TEST_F(Hub, AStalledTransferIsGivenUp) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.stall = true});
  HubOptions once = options(hub.endpoint());
  once.tries = 1;
  once.stall_ms = 300;
  expect_error(resolve("org/tiny", once), Code::unavailable, "nothing came for");
  EXPECT_EQ(fs::file_size(partial(kBigEtag)), kBigBytes / 2);
}

TEST_F(Hub, OfflineTakesWhatTheCacheHoldsAndAsksNobody) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  HubOptions offline = options(hub.endpoint());
  offline.offline = true;
  expect_error(resolve("org/tiny/model.gguf", offline), Code::not_found, "HF_HUB_OFFLINE is set");
  EXPECT_TRUE(hub.requests().empty());
  ASSERT_TRUE(resolve(hub, "org/tiny"));
  const size_t before = hub.requests().size();
  EXPECT_TRUE(resolve("org/tiny/model.gguf", offline));
  EXPECT_TRUE(resolve("org/tiny", offline));
  EXPECT_EQ(hub.requests().size(), before);
  fs::remove(blob(kBigEtag));  // a link to nowhere is not a file
  expect_error(resolve("org/tiny", offline), Code::not_found, "does not hold");
}

TEST_F(Hub, AHubThatIsAwayIsMadeUpForByTheCache) {
  std::string endpoint;
  {
    const FakeHub hub("org/tiny", {{"model.gguf", big()}});
    endpoint = hub.endpoint();
    ASSERT_TRUE(resolve(hub, "org/tiny"));
  }
  const auto path = resolve("org/tiny", options(endpoint));
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_EQ(read(*path), big().content);
  fs::remove_all(cache_);
  expect_error(resolve("org/tiny", options(endpoint)), Code::unavailable, "127.0.0.1");
}

TEST_F(Hub, ADiskWithoutRoomIsSaidBeforeTheDownload) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.announced_bytes = uint64_t{1} << 49});
  expect_error(resolve(hub, "org/tiny"), Code::resource_exhausted, "want 562949953421312 bytes");
  EXPECT_EQ(hub.count("GET", true), 0);
}

TEST_F(Hub, ADiskThatFillsUpKeepsWhatHasCome) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  // A limit on file sizes stands for the full disk.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit {1'000'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto full = resolve(hub, "org/tiny");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  expect_error(full, Code::resource_exhausted, "cannot write more than 1000000 of 3000000 bytes to " + partial(kBigEtag));
  EXPECT_EQ(fs::file_size(partial(kBigEtag)), 1'000'000u);
  ASSERT_TRUE(resolve(hub, "org/tiny"));
  EXPECT_EQ(hub.requests().back().headers.at("range"), "bytes=1000000-");
}

TEST_F(Hub, AFolderThatCannotBeWrittenIsNamed) {
  const FakeHub hub("org/tiny", {{"model.gguf", big()}});
  write(cache_.string(), "a file is in the way");
  const auto failed = resolve(hub, "org/tiny");
  expect_error(failed, Code::not_found, "cannot create " + repo_folder());
}

TEST_F(Hub, NamesFromTheServerCannotLeaveTheirFolder) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  for (const std::string_view name : {"../../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a//evil.gguf", "./evil.gguf", "",
                                      "evil\\u0000.gguf", "evil\\n.gguf", "a\\\\evil.gguf"}) {
    FakeHubFaults faults;
    faults.listing = fmt::format(R"({{"sha":"{}","siblings":[{{"rfilename":"{}"}}]}})", FakeHub::kCommit, name);
    hub.set_faults(faults);
    expect_error(resolve(hub, "org/tiny"), Code::malformed, "is no path inside a repository");
  }
  EXPECT_FALSE(fs::exists(repo_folder() + "/snapshots"));
}

TEST_F(Hub, ListingsOfAnotherShapeAreRefused) {
  const std::string commit(FakeHub::kCommit);
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"sha\":"), std::string(R"({"siblings":[]})"),
        std::string(R"({"sha":"main","siblings":[]})"), std::string(R"({"sha":"../../../../../../../../../../../../../aa","siblings":[]})"),
        R"({"sha":")" + commit + R"("})", R"({"sha":")" + commit + R"(","siblings":{}})", R"({"sha":")" + commit + R"(","siblings":[1]})",
        R"({"sha":")" + commit + R"(","siblings":[{"rfilename":1}]})", std::string(1'000'000, '[')}) {
    const auto listing = parse_hub_listing(text);
    ASSERT_FALSE(listing) << text.substr(0, 80);
    EXPECT_EQ(listing.error().code(), Code::malformed);
  }
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  FakeHubFaults faults;
  faults.listing = std::string(size_t{9} << 20, ' ');
  hub.set_faults(faults);
  expect_error(resolve(hub, "org/tiny"), Code::malformed, "more than 8388608 bytes");
}

TEST_F(Hub, AnEtagThatIsNoFileNameIsRefused) {
  for (const std::string_view etag : {"../../evil", "", "a/b", ".hidden", "a b"}) {
    const FakeHub hub("org/tiny", {{"model.gguf", {pattern(0, 10), std::string(etag)}}});
    expect_error(resolve(hub, "org/tiny"), Code::malformed, "want an ETag of letters and digits");
  }
}

TEST_F(Hub, AnIndexCannotNameWhatTheRepositoryDoesNotHold) {
  const FakeHub hub("org/tiny", {{"config.json", config()},
                                 {"model.safetensors.index.json",
                                  {R"({"weight_map":{"a":"gone.safetensors"}})", "9549074561c435436a69ea4441ab4d69a1c28837", false}}});
  expect_error(resolve(hub, "org/tiny"), Code::malformed, "names gone.safetensors, which the repository does not hold");
}

TEST_F(Hub, TwoAtOnceFetchAFileOnce) {
  FakeHub hub("org/tiny", {{"model.gguf", big()}});
  hub.set_faults({.slow_ms = 5});
  std::atomic<int> waited = 0, whole = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      HubOptions mine = options(hub.endpoint());
      bool seen = false;
      mine.progress = [&](const HubProgress& news) {
        if (news.phase == HubProgress::Phase::waiting && !seen) {
          seen = true;
          ++waited;
        }
        return true;
      };
      const auto path = resolve("org/tiny", mine);
      if (path && read(*path) == big().content) ++whole;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, 4);
  EXPECT_EQ(waited, 3);
  EXPECT_EQ(hub.count("GET", true), 1);
}

TEST_F(Hub, StoppingKeepsThePartAndProgressCountsAllFiles) {
  const FakeHub hub("org/tiny", {{"m-00001-of-00002.gguf", shard(1)}, {"m-00002-of-00002.gguf", shard(2)}});
  HubOptions stopped = options(hub.endpoint());
  stopped.progress = [](const HubProgress& news) { return news.phase != HubProgress::Phase::downloading || news.done == 0; };
  expect_error(resolve("org/tiny", stopped), Code::cancelled, "stopped");
  EXPECT_GT(fs::file_size(partial(shard(1).etag)), 0u);

  HubOptions watched = options(hub.endpoint());
  uint64_t last = 0, total = 0;
  bool ordered = true;
  watched.progress = [&](const HubProgress& news) {
    if (news.phase != HubProgress::Phase::downloading || news.done == 0) return true;
    ordered = ordered && news.done >= last;
    last = news.done;
    total = news.total;
    return true;
  };
  ASSERT_TRUE(resolve("org/tiny", watched));
  EXPECT_TRUE(ordered);
  EXPECT_EQ(total, 140'000u);
  EXPECT_EQ(last, 140'000u);
}

TEST(HubName, HasAnOrganisationANameARevisionAndAFile) {
  const auto name = parse_hub_name("Org-1/na.me_2:v1.0/sub/x.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->repo, "Org-1/na.me_2");
  EXPECT_EQ(name->revision, "v1.0");
  EXPECT_EQ(name->file, "sub/x.gguf");
  EXPECT_EQ(parse_hub_name("a/b")->revision, "main");
  EXPECT_EQ(parse_hub_name("a/b:refs%2Fpr%2F1")->revision, "refs/pr/1");
  for (const std::string_view wrong : {"", "a", "/a", "a/", "../a", "a/..", "a--b/c", "a/b:", "a/b:../x", "a/b/", "a/b/../c", "a b/c",
                                       "a/b:x y", "a/-b", "a/b.", "a/b:..%2F..%2Fx", "a/b//c", "a/b/c\n.gguf"}) {
    EXPECT_FALSE(parse_hub_name(wrong)) << wrong;
  }
}

TEST(HubName, KnowsTheShardsOfASplitFile) {
  const auto split = parse_split_name("Q4/m-00002-of-00003.gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->shard(3), "Q4/m-00003-of-00003.gguf");
  for (const std::string_view plain : {"m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf",
                                       "m-0000a-of-00002.gguf", "m-00001-of-99999.gguf"}) {
    EXPECT_FALSE(parse_split_name(plain)) << plain;
  }
}

// FIPS 180-2's example, and what `git hash-object` says of a file that holds it.
TEST(Digest, AgreesWithTheStandardAndWithGit) {
  const std::string path = ::testing::TempDir() + fmt::format("headrace_digest_{}", ::getpid());
  write(path, "abc");
  EXPECT_EQ(*digest_of_file(path, DigestKind::sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(*digest_of_file(path, DigestKind::git_blob_sha1), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  fs::remove(path);
  EXPECT_EQ(digest_of_file(path, DigestKind::sha256).error().code(), Code::not_found);
}

// The variables that HubOptions reads, all unset but `values`.
testing::ScopedEnvironment::Values only(const testing::ScopedEnvironment::Values& values) {
  testing::ScopedEnvironment::Values all = values;
  for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
    all.emplace(name, std::nullopt);
  }
  return all;
}

TEST(HubOptions, ComeFromTheVariablesThatOtherToolsRead) {
  {
    const testing::ScopedEnvironment environment(only({{"HOME", "/h"}}));
    EXPECT_EQ(hub_options_from_environment()->cache, "/h/.cache/huggingface/hub");
    EXPECT_FALSE(hub_options_from_environment()->offline);
  }
  {
    const testing::ScopedEnvironment environment(only({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HUB_OFFLINE", "True"}}));
    EXPECT_EQ(hub_options_from_environment()->cache, "/x/huggingface/hub");
    EXPECT_TRUE(hub_options_from_environment()->offline);
  }
  {
    const testing::ScopedEnvironment environment(only({{"HF_HOME", "/f"}, {"HF_ENDPOINT", "http://localhost:1/"}, {"HF_TOKEN", " hf_x\n"}}));
    EXPECT_EQ(hub_options_from_environment()->cache, "/f/hub");
    EXPECT_EQ(hub_options_from_environment()->endpoint, "http://localhost:1");
    EXPECT_EQ(hub_options_from_environment()->token, "hf_x");
  }
  {
    const std::string home = ::testing::TempDir() + fmt::format("headrace_home_{}", ::getpid());
    write(home + "/token", "hf_file\n");
    const testing::ScopedEnvironment environment(only({{"HF_HOME", home}, {"HF_HUB_CACHE", "/c"}}));
    EXPECT_EQ(hub_options_from_environment()->cache, "/c");
    EXPECT_EQ(hub_options_from_environment()->token, "hf_file");
    fs::remove_all(home);
  }
  for (const auto& [name, value] : std::map<std::string, std::string>{{"HF_ENDPOINT", "ftp://x"}, {"HF_TOKEN", "a\r\nX: b"}}) {
    const testing::ScopedEnvironment environment(only({{"HOME", "/h"}, {name, value}}));
    const auto wrong = hub_options_from_environment();
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(wrong.error().message().starts_with(name)) << wrong.error().message();
  }
}

TEST(Catalogue, SaysWhereAModelLiesOrHowToFetchIt) {
  const std::string cache = ::testing::TempDir() + fmt::format("headrace_catalogue_{}", ::getpid());
  const testing::ScopedEnvironment environment(only({{"XDG_CACHE_HOME", cache}}));
  const CatalogueEntry* entry = find_in_catalogue("smollm2");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(find_in_catalogue("smollm3"), nullptr);
  const auto missing = locate(*entry);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message().ends_with("python3 scripts/fetch_model.py smollm2")) << missing.error().message();
  write(cache + "/headrace/SmolLM2-135M-Instruct.Q4_1.gguf", "");
  EXPECT_EQ(*locate(*entry), cache + "/headrace/SmolLM2-135M-Instruct.Q4_1.gguf");
  fs::remove_all(cache);
}

}  // namespace
}  // namespace headrace::io

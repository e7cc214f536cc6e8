#include "server/router.h"

#include <gtest/gtest.h>

#include "testing/fake_backend.h"

namespace headrace::server {
namespace {

struct Harness {
  std::unique_ptr<Backend> backend = testing::make_fake_backend({});
  Metrics metrics{*backend};
  ServerContext context{*backend, metrics, 0};
  Router router{context, "secret"};

  // The status of a refusal, or 0.
  int refusal(std::string method, std::string path,
              std::vector<std::pair<std::string, std::string>> headers = {
                  {"authorization", "Bearer secret"}}) {
    const auto answer =
        router.admit({.method = std::move(method), .path = std::move(path), .headers = std::move(headers)});
    return answer ? answer->status : 0;
  }
};

TEST(Router, FindsEveryEndpoint) {
  Harness h;
  EXPECT_EQ(h.refusal("POST", "/v1/chat/completions"), 0);
  EXPECT_EQ(h.refusal("GET", "/v1/models"), 0);
  EXPECT_EQ(h.refusal("GET", "/v1/models/m"), 0);
  EXPECT_EQ(h.refusal("HEAD", "/health"), 0);
}

TEST(Router, TellsAnUnknownPathFromAWrongMethod) {
  Harness h;
  EXPECT_EQ(h.refusal("GET", "/nope"), 404);
  EXPECT_EQ(h.refusal("GET", "/v1/models/"), 404);
  EXPECT_EQ(h.refusal("GET", "/v1/models/a/b"), 404);
  EXPECT_EQ(h.refusal("POST", "//v1/completions"), 404);
  EXPECT_EQ(h.refusal("GET", "/v1/completions"), 405);
  EXPECT_EQ(h.refusal("DELETE", "/health"), 405);
}

TEST(Router, WantsTheKeyWhereItGuards) {
  Harness h;
  for (const char* path : {"/v1/models", "/metrics"}) {
    EXPECT_EQ(h.refusal("GET", path, {}), 401) << path;
    EXPECT_EQ(h.refusal("GET", path, {{"authorization", "Bearer secret2"}}), 401) << path;
    EXPECT_EQ(h.refusal("GET", path, {{"authorization", "Bearer secre"}}), 401) << path;
    EXPECT_EQ(h.refusal("GET", path, {{"authorization", "Bearer "}}), 401) << path;
    EXPECT_EQ(h.refusal("GET", path, {{"authorization", "Basic secret"}}), 401) << path;
    EXPECT_EQ(h.refusal("GET", path, {{"authorization", "bearer secret"}}), 0) << path;
  }
  for (const char* path : {"/", "/page.js", "/health"}) EXPECT_EQ(h.refusal("GET", path, {}), 0) << path;
}

TEST(Router, RefusesPagesOfOtherSites) {
  Harness h;
  EXPECT_EQ(
      h.refusal("POST", "/tokenize", {{"authorization", "Bearer secret"}, {"sec-fetch-site", "cross-site"}}),
      403);
  EXPECT_EQ(
      h.refusal("POST", "/tokenize", {{"authorization", "Bearer secret"}, {"sec-fetch-site", "same-origin"}}),
      0);
}

TEST(EqualKeys, ComparesWholeKeys) {
  EXPECT_TRUE(equal_keys("abc", "abc"));
  EXPECT_FALSE(equal_keys("abcabc", "abc"));
  EXPECT_FALSE(equal_keys("ab", "abc"));
  EXPECT_FALSE(equal_keys("", "abc"));
  EXPECT_FALSE(equal_keys("abd", "abc"));
}

}  // namespace
}  // namespace headrace::server

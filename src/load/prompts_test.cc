#include "load/prompts.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "testing/scripted_server.h"

namespace headrace::load {
namespace {

using nlohmann::json;
using testing::plain_reply;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;

int words_in(const std::string& text) {
  std::istringstream stream(text);
  int count = 0;
  for (std::string word; stream >> word;) ++count;
  return count;
}

Endpoint endpoint_of(const ScriptedServer& server) {
  return {.host = "127.0.0.1", .port = std::to_string(server.port())};
}

PromptOptions some_options() {
  PromptOptions options;
  options.model = "m";
  options.lengths = {{10, 3, 40}, {7, 8, 9}};
  return options;
}

std::unique_ptr<Prompts> made(const ScriptedServer& server, PromptOptions options) {
  auto prompts = Prompts::make(endpoint_of(server), std::move(options), 5);
  EXPECT_TRUE(prompts.has_value()) << prompts.error().to_string();
  return prompts ? std::move(*prompts) : nullptr;
}

// A tokenizer for which a word is a token and BOS comes first, as vLLM's endpoint says it.
ScriptedReply count_words(const ScriptedRequest& request) {
  if (request.path != "/tokenize") return plain_reply(404, "application/json", "{}");
  const json body = json::parse(request.body);
  const int count = words_in(body.at("prompt")) + (body.at("add_special_tokens").get<bool>() ? 1 : 0);
  return plain_reply(200, "application/json", json{{"count", count}}.dump());
}

TEST(Prompts, HaveTheLengthThatTheServerCountsWithItsSpecialTokens) {
  ScriptedServer server(count_words);
  const auto prompts = made(server, some_options());
  EXPECT_EQ(prompts->kind(), PromptKind::counted_words);
  EXPECT_EQ(prompts->note(), "");
  std::set<std::string> different;
  for (int64_t number = 0; number < 9; ++number) {
    const json body = json::parse(prompts->body(number));
    EXPECT_EQ(words_in(body.at("prompt")) + 1, prompts->prompt_tokens(number));
    EXPECT_EQ(body.at("max_tokens"), prompts->output_tokens(number));
    EXPECT_EQ(body.at("model"), "m");
    EXPECT_EQ(body.at("stream"), true);
    EXPECT_EQ(body.at("stream_options").at("include_usage"), true);
    EXPECT_EQ(body.at("ignore_eos"), true);
    EXPECT_EQ(body.at("temperature"), 0);
    different.insert(body.at("prompt"));
  }
  EXPECT_EQ(different.size(), 9u);
  EXPECT_EQ(prompts->prompt_tokens(4), 3);
}

TEST(Prompts, ASeedRepeatsThem) {
  ScriptedServer server(count_words);
  PromptOptions other = some_options();
  other.seed = 1;
  EXPECT_EQ(made(server, some_options())->body(5), made(server, some_options())->body(5));
  EXPECT_NE(made(server, some_options())->body(5), made(server, other)->body(5));
}

TEST(Prompts, SharedPrefixesComeInTurnBeforeTheLength) {
  ScriptedServer server(count_words);
  PromptOptions options = some_options();
  options.lengths = {{10}, {1}};
  options.shared_prefix = 20;
  options.num_prefixes = 2;
  const auto prompts = made(server, options);
  std::vector<std::string> texts;
  for (int64_t number = 0; number < 4; ++number) {
    texts.push_back(json::parse(prompts->body(number)).at("prompt"));
    EXPECT_EQ(words_in(texts.back()) + 1, 30);
    EXPECT_EQ(prompts->prompt_tokens(number), 30);
  }
  const auto prefix = [](const std::string& text) {
    std::istringstream stream(text);
    std::string out, word;
    for (int i = 0; i < 20 && stream >> word; ++i) out += word + " ";
    return out;
  };
  EXPECT_EQ(prefix(texts[0]), prefix(texts[2]));
  EXPECT_EQ(prefix(texts[1]), prefix(texts[3]));
  EXPECT_NE(prefix(texts[0]), prefix(texts[1]));
  EXPECT_NE(texts[0], texts[2]);
}

TEST(Prompts, ChatsHaveAMessageWhoseContentHasTheLength) {
  ScriptedServer server(count_words);
  PromptOptions options = some_options();
  options.api = Api::chat;
  options.ignore_eos = false;
  options.extra_body = R"({"temperature":0.5,"min_tokens":3})";
  const json body = json::parse(made(server, options)->body(0));
  EXPECT_EQ(body.at("messages").size(), 1u);
  EXPECT_EQ(body.at("messages")[0].at("role"), "user");
  EXPECT_EQ(words_in(body.at("messages")[0].at("content")), 10);
  EXPECT_FALSE(body.contains("ignore_eos"));
  EXPECT_EQ(body.at("temperature"), 0.5);
  EXPECT_EQ(body.at("min_tokens"), 3);
}

// llama.cpp's endpoint, over bytes: words have many tokens.
TEST(Prompts, AByteTokenizerOfLlamaCppGivesExactLengthsToo) {
  ScriptedServer server([](const ScriptedRequest& request) {
    const json body = json::parse(request.body);
    if (request.path != "/tokenize" || !body.contains("content")) return plain_reply(400, "application/json", "{}");
    return plain_reply(200, "application/json",
                       json{{"tokens", std::vector<int>(body.at("content").get<std::string>().size(), 65)}}.dump());
  });
  const auto prompts = made(server, some_options());
  EXPECT_EQ(prompts->note(), "");
  for (int64_t number = 0; number < 6; ++number) {
    EXPECT_EQ(json::parse(prompts->body(number)).at("prompt").get<std::string>().size(),
              static_cast<size_t>(prompts->prompt_tokens(number)));
  }
}

TEST(Prompts, WithoutATokenizerCompletionsGetIds) {
  ScriptedServer server([](const ScriptedRequest& request) {
    const json body = json::parse(request.body);
    if (request.path != "/v1/completions" || !body.at("prompt").is_array()) return plain_reply(404, "text/plain", "no");
    return plain_reply(200, "application/json", json{{"usage", {{"prompt_tokens", body.at("prompt").size()}}}}.dump());
  });
  PromptOptions options = some_options();
  options.shared_prefix = 4;
  const auto prompts = made(server, options);
  EXPECT_EQ(prompts->kind(), PromptKind::ids);
  const std::vector<int> first = json::parse(prompts->body(0)).at("prompt"),
                         second = json::parse(prompts->body(3)).at("prompt");
  EXPECT_EQ(first.size(), 14u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 4, second.begin()));
  EXPECT_NE(first, second);
}

TEST(Prompts, ElseTokensAreGuessedFromUsageAndThatIsSaid) {
  ScriptedServer server([](const ScriptedRequest& request) {
    const json body = json::parse(request.body);
    if (request.path != "/v1/chat/completions") return plain_reply(404, "text/plain", "no");
    const int words = words_in(body.at("messages")[0].at("content"));
    return plain_reply(200, "application/json", json{{"usage", {{"prompt_tokens", 2 * words}}}}.dump());
  });
  PromptOptions options = some_options();
  options.api = Api::chat;
  const auto prompts = made(server, options);
  EXPECT_EQ(prompts->kind(), PromptKind::guessed_words);
  EXPECT_THAT(prompts->note(), ::testing::HasSubstr("0.500 words"));
  EXPECT_EQ(words_in(json::parse(prompts->body(2)).at("messages")[0].at("content")), 20);
}

TEST(Prompts, AnExtraBodyThatIsNoObjectIsRefused) {
  ScriptedServer server(count_words);
  for (const char* extra : {"[]", "{", "1"}) {
    PromptOptions options = some_options();
    options.extra_body = extra;
    const auto prompts = Prompts::make(endpoint_of(server), options, 5);
    ASSERT_FALSE(prompts.has_value());
    EXPECT_EQ(prompts.error().code(), Code::invalid_argument);
  }
}

TEST(Prompts, TheFirstModelIsAskedFor) {
  ScriptedServer server([](const ScriptedRequest& request) {
    EXPECT_EQ(request.method + request.path, "GET/v1/models");
    return request.number == 0 ? plain_reply(200, "application/json", R"({"data":[{"id":"a/b"},{"id":"c"}]})")
                               : plain_reply(401, "application/json", R"({"error":"key"})");
  });
  EXPECT_EQ(first_model(endpoint_of(server), 5).value(), "a/b");
  const auto refused = first_model(endpoint_of(server), 5);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("401"));
}

TEST(Lengths, AreReadOrRefused) {
  const std::string path = ::testing::TempDir() + "lengths.json";
  const auto read = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return read_lengths(path);
  };
  const auto lengths = read(R"({"note":"x","prompt":[3,4],"output":[1,2]})");
  ASSERT_TRUE(lengths.has_value());
  EXPECT_EQ(lengths->prompt, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(lengths->output, (std::vector<int32_t>{1, 2}));
  for (const char* text :
       {"", "[]", "{", R"({"prompt":[1]})", R"({"prompt":[],"output":[]})", R"({"prompt":[1,2],"output":[1]})",
        R"({"prompt":[0],"output":[1]})", R"({"prompt":[1.5],"output":[1]})", R"({"prompt":[99999999],"output":[1]})"}) {
    const auto refused = read(text);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code(), Code::malformed);
  }
  std::remove(path.c_str());
  EXPECT_EQ(read_lengths(path).error().code(), Code::not_found);
}

}  // namespace
}  // namespace headrace::load

// What the fields of a request make of its answer. The model is the fake one: expectations come from FakeModel, asked without
// an engine or a server, and log-probabilities from its logits in float64.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/endpoints/common.h"
#include "testing/byte_tokenizer.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::byte_ids;
using testing::FakeModel;
using testing::FakeSampling;
using testing::fetch;
using testing::TestServer;

constexpr std::string_view kReply = "It drives the wheel. \xE2\x98\x83 Done.";
constexpr float kNever = -std::numeric_limits<float>::infinity();

// Draws any byte; `eos_one_in` as FakeModel's.
FakeModel bytes_model(int32_t eos_one_in = 0) {
  return {.vocab_size = testing::kByteVocab, .eos_id = testing::kByteEos, .eos_one_in = eos_one_in};
}
testing::FakeBackendOptions speaking() {
  return {.reply = std::string(kReply)};
}

json post(const TestServer& server, const json& more, const char* path = "/v1/completions") {
  json body = {{"model", "m"}};
  body.update(more);
  if (std::string_view(path) == "/v1/completions") {
    body.emplace("prompt", "abc");
  } else {
    body.emplace("messages", json::array({{{"role", "user"}, {"content", "abc"}}}));
  }
  const testing::RawResponse answer = fetch(server.port(), "POST", path, body.dump());
  json out = body.value("stream", false) && answer.status == 200 ? json::array() : json::parse(answer.body);
  if (out.is_object()) out["status"] = answer.status;
  if (out.is_array()) {
    for (const std::string& event : testing::sse_data(answer.body)) {
      if (event != "[DONE]") out.push_back(json::parse(event));
    }
  }
  return out;
}
json chat(const TestServer& server, const json& more) {
  return post(server, more, "/v1/chat/completions");
}

std::string label(int32_t id) {
  const std::string bytes = id == testing::kByteEos ? "" : std::string(1, static_cast<char>(id));
  return id < 128 || id == testing::kByteEos ? bytes : fmt::format("bytes:\\x{:02x}", id);
}
std::vector<std::string> labels(std::span<const int32_t> ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(label(id));
  return out;
}

std::vector<double> log_softmax(std::span<const float> logits) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  std::vector<double> out;
  for (const float x : logits) out.push_back(static_cast<double>(x) - std::log(sum));
  return out;
}

// The ids with the `n` highest, the lower id first on a tie.
std::vector<int32_t> best(const std::vector<double>& logprobs, size_t n) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logprobs.size(); ++i) ids.push_back(static_cast<int32_t>(i));
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return logprobs[a] > logprobs[b]; });
  ids.resize(n);
  return ids;
}

// ---- Fields that a request to the engine carries

TEST(MakeRequest, CarriesEveryField) {
  const TimePoint before = Clock::now();
  const auto parsed = parse_completion_request(
      R"({"model":"m","prompt":"a","max_tokens":9,"n":2,"min_tokens":3,"stop_token_ids":[7],"ignore_eos":true,"logprobs":4,)"
      R"("prompt_logprobs":5,"priority":-2,"cache_salt":"tenant","timeout":60,"use_beam_search":true,"best_of":3,)"
      R"("length_penalty":0.5,"early_stopping":true})",
      {.vocab_size = 100, .max_choices = 16});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const engine::Request request = make_request(parsed->fields, {1, 2}, 16);
  EXPECT_EQ(request.prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.stop_token_ids, std::vector<int32_t>{7});
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.logprobs, 4);
  EXPECT_EQ(request.prompt_logprobs, 5);
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.cache_key, "tenant");
  EXPECT_GE(request.deadline, before + 60s);
  EXPECT_LE(request.deadline, Clock::now() + 60s);
  EXPECT_EQ(request.beam.width, 3);
  EXPECT_EQ(request.sampling.temperature, 0.0f) << "a beam search draws nothing";
  EXPECT_EQ(request.beam.length_penalty, 0.5f);
  EXPECT_TRUE(request.beam.early_stopping);
}

TEST(MakeRequest, AsksForNothingThatWasNotSaid) {
  const auto parsed = parse_completion_request(R"({"model":"m","prompt":"a"})", {.vocab_size = 100, .max_choices = 16});
  const engine::Request request = make_request(parsed->fields, {1}, 16);
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.prompt_logprobs, -1);
  EXPECT_EQ(request.beam.width, 0);
  EXPECT_EQ(request.deadline, TimePoint::max());
  EXPECT_TRUE(request.cache_key.empty());
}

TEST(GenerationFields, EverySamplingParameterReachesTheModel) {
  const FakeModel model = bytes_model();
  TestServer server({.model = model});
  const std::vector<int32_t> prompt = byte_ids("abc");
  const FakeSampling plain{.temperature = 0.75f, .seed = 7};
  const std::vector<int32_t> usual = model.answer(prompt, 12, plain);
  const auto letter = std::ranges::find_if(usual, [](int32_t id) { return id > ' ' && id < 127; });
  ASSERT_NE(letter, usual.end());
  const auto with = [&](auto change) {
    FakeSampling sampling = plain;
    change(sampling);
    return sampling;
  };
  const std::pair<json, FakeSampling> cases[] = {
      {{{"temperature", 1.25}}, with([](auto& s) { s.temperature = 1.25f; })},
      {{{"top_p", 0.5}}, with([](auto& s) { s.top_p = 0.5f; })},
      {{{"top_k", 9}}, with([](auto& s) { s.top_k = 9; })},
      {{{"min_p", 0.25}}, with([](auto& s) { s.min_p = 0.25f; })},
      {{{"typical_p", 0.5}}, with([](auto& s) { s.typical_p = 0.5f; })},
      {{{"seed", 8}}, with([](auto& s) { s.seed = 8; })},
      {{{"repetition_penalty", 1.5}}, with([](auto& s) { s.repetition_penalty = 1.5f, s.num_prompt = 3; })},
      {{{"frequency_penalty", 0.5}}, with([](auto& s) { s.frequency_penalty = 0.5f, s.num_prompt = 3; })},
      {{{"presence_penalty", -1}}, with([](auto& s) { s.presence_penalty = -1.0f, s.num_prompt = 3; })},
      {{{"logit_bias", {{"65", 1.5}}}}, with([](auto& s) { s.biases = {{65, 1.5f}}; })},
      {{{"bad_words", {std::string(1, static_cast<char>(*letter))}}}, with([&](auto& s) { s.biases = {{*letter, kNever}}; })},
  };
  for (const auto& [fields, sampling] : cases) {
    json body = {{"temperature", 0.75}, {"seed", 7}, {"max_tokens", 12}, {"logprobs", 0}};
    body.update(fields);
    const std::vector<int32_t> expected = model.answer(prompt, 12, sampling);
    EXPECT_NE(expected, usual) << fields;
    EXPECT_EQ(post(server, body)["choices"][0]["logprobs"]["tokens"], labels(expected)) << fields;
  }
}

// ---- Where an answer ends

TEST(GenerationFields, StopTokenIdsAndStopStringsEndAChoice) {
  TestServer server(speaking());
  json choice = chat(server, {{"stop_token_ids", {int{'w'}}}})["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "It drives the ");
  EXPECT_EQ(choice["finish_reason"], "stop");
  choice = chat(server, {{"stop", "wheel"}, {"include_stop_str_in_output", true}})["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "It drives the wheel");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(GenerationFields, NoStopStringEndsAChoiceWithinMinTokens) {
  TestServer server(speaking());
  const json fields = {{"prompt", "<assistant>"}, {"stop", "e"}, {"min_tokens", 8}, {"max_tokens", 20}};
  EXPECT_EQ(post(server, fields)["choices"][0]["text"], "It drives th");
}

TEST(GenerationFields, MinTokensAndIgnoreEosKeepAnAnswerGoing) {
  const FakeModel model = bytes_model(3);
  TestServer server({.model = model});
  const json fields = {{"temperature", 0}, {"max_tokens", 20}, {"logprobs", 0}};
  const auto tokens = [&](const json& more) {
    json body = fields;
    body.update(more);
    return post(server, body)["choices"][0]["logprobs"]["tokens"];
  };
  const std::vector<int32_t> usual = model.answer(byte_ids("abc"), 20, {});
  ASSERT_LT(usual.size(), 10u);
  EXPECT_EQ(tokens(json::object()), labels(usual));
  const std::vector<int32_t> first = model.answer(byte_ids("abc"), 10, {.biases = {{testing::kByteEos, kNever}}});
  const json longer = tokens({{"min_tokens", 10}});
  ASSERT_GE(longer.size(), 10u);
  EXPECT_EQ(json(longer.begin(), longer.begin() + 10), labels(first));
  EXPECT_EQ(tokens({{"ignore_eos", true}}), labels(model.answer(byte_ids("abc"), 20, {}, true)));
}

TEST(GenerationFields, ATimeoutEndsARequestWith504OrAnErrorEvent) {
  testing::FakeBackendOptions options = speaking();
  options.model.step_delay = 20ms;
  TestServer server(options);
  const json answer = chat(server, {{"timeout", 0.1}});
  EXPECT_EQ(answer["status"], 504) << answer;
  EXPECT_EQ(answer["error"]["code"], "timeout");
  const json events = chat(server, {{"timeout", 0.1}, {"stream", true}});
  EXPECT_GT(events.size(), 1u);
  EXPECT_EQ(events.back()["error"]["code"], "timeout") << events.back();
  EXPECT_EQ(chat(server, {{"timeout", 30}, {"max_tokens", 2}})["status"], 200);
}

// ---- Figures

TEST(GenerationFields, CachedTokensAreCountedOverPromptsAndASaltKeepsTenantsApart) {
  TestServer server({.model = bytes_model()});
  const std::string prompt(100, 'x'), other(70, 'y');
  const auto cached = [&](const json& more) {
    json body = {{"prompt", prompt}, {"max_tokens", 2}};
    body.update(more);
    return post(server, body)["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached(json::object()), 0);
  EXPECT_EQ(cached(json::object()), 96);
  EXPECT_EQ(cached({{"n", 3}}), 96);
  EXPECT_EQ(cached({{"prompt", {prompt, other}}}), 96);
  EXPECT_EQ(cached({{"prompt", {prompt, other}}, {"n", 2}}), 96 + 64);
  EXPECT_EQ(cached({{"cache_salt", "a"}}), 0);
  EXPECT_EQ(cached({{"cache_salt", "a"}}), 96);
  EXPECT_EQ(cached({{"cache_salt", "b"}}), 0);
}

// ---- Log-probabilities of the prompt

// The lists of `ids`, all of them echoed or drawn without chance.
json expected_lists(const FakeModel& model, std::span<const int32_t> ids, size_t top) {
  json lists = {{"tokens", labels(ids)}, {"text_offset", json::array()}};
  lists["token_logprobs"] = lists["top_logprobs"] = json::array({nullptr});
  for (size_t i = 0; i < ids.size(); ++i) {
    lists["text_offset"].push_back(i);  // every token is one ASCII character in the tests that ask for it
    if (i == 0) continue;
    const std::vector<double> logprobs = log_softmax(model.logits(ids.first(i), {}));
    json listed = {{label(ids[i]), logprobs[ids[i]]}};
    for (const int32_t id : best(logprobs, top)) listed[label(id)] = logprobs[id];
    lists["token_logprobs"].push_back(logprobs[ids[i]]);
    lists["top_logprobs"].push_back(listed);
  }
  return lists;
}

void expect_near(const json& got, const json& expected) {
  if (expected.is_number_float()) {
    ASSERT_TRUE(got.is_number()) << got << "\n" << expected;
    EXPECT_NEAR(got.get<double>(), expected.get<double>(), 1e-5);
  } else if (!expected.is_structured()) {
    EXPECT_EQ(got, expected);
  } else {
    ASSERT_EQ(got.size(), expected.size()) << got << "\n" << expected;
    for (auto it = expected.begin(), other = got.begin(); it != expected.end(); ++it, ++other) {
      if (expected.is_object()) {
        ASSERT_EQ(it.key(), other.key());
      }
      expect_near(*other, *it);
    }
  }
}

constexpr std::string_view kEchoed = "What? <assistant>It dr";

TEST(PromptLogprobs, EchoListsThemBeforeTheAnswers) {
  FakeModel model;
  model.reply = byte_ids("<assistant>" + std::string(kReply));
  model.eos_id = testing::kByteEos;
  TestServer server(speaking());
  const std::string whole = std::string(kEchoed) + "ives";
  const json expected = expected_lists(model, byte_ids(whole), 2);
  const json fields = {{"prompt", kEchoed}, {"max_tokens", 4}, {"temperature", 0}, {"echo", true}, {"logprobs", 2}, {"n", 2}};
  const json body = post(server, fields);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(body["choices"][i]["text"], whole);
    expect_near(body["choices"][i]["logprobs"], expected);
  }
  json streamed = fields;
  streamed["stream"] = true;
  std::string texts[2];
  json lists[2];
  for (const json& event : post(server, streamed)) {
    const json& choice = event["choices"][0];
    const int i = choice["index"];
    texts[i] += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const auto& [name, list] : choice["logprobs"].items()) {
      for (const json& item : list) lists[i][name].push_back(item);
    }
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole);
    expect_near(lists[i], expected);
  }
}

TEST(PromptLogprobs, EchoWithoutTokensGivesThePromptAlone) {
  FakeModel model;
  model.reply = byte_ids("<assistant>" + std::string(kReply));
  TestServer server(speaking());
  json fields = {{"prompt", kEchoed}, {"max_tokens", 0}, {"temperature", 0}, {"echo", true}, {"logprobs", 0}};
  const json body = post(server, fields);
  EXPECT_EQ(body["choices"][0]["text"], kEchoed) << body;
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  expect_near(body["choices"][0]["logprobs"], expected_lists(model, byte_ids(kEchoed), 0));
  fields.erase("logprobs");
  EXPECT_EQ(post(server, fields)["choices"][0]["text"], kEchoed);
  fields["stream"] = true;
  const json events = post(server, fields);
  ASSERT_EQ(events.size(), 2u) << events;
  EXPECT_EQ(events[0]["choices"][0]["text"], kEchoed);
  EXPECT_EQ(events[1]["choices"][0]["text"], "");
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "length");
  // The model would end at once: still no more than the prompt was asked for.
  fields = {{"prompt", "<assistant>" + std::string(kReply)}, {"max_tokens", 0}, {"echo", true}};
  EXPECT_EQ(post(server, fields)["choices"][0]["finish_reason"], "length");
}

TEST(PromptLogprobs, AreListedByIdOnBothEndpoints) {
  const FakeModel model = bytes_model();
  TestServer server({.model = model});
  const auto expected = [&](const std::string& prompt, size_t top) {
    const std::vector<int32_t> ids = byte_ids(prompt);
    json list = json::array({nullptr});
    for (size_t i = 1; i < ids.size(); ++i) {
      const std::vector<double> logprobs = log_softmax(model.logits(std::span(ids).first(i), {}));
      const auto text = [](int32_t id) { return id < 128 ? std::string(1, static_cast<char>(id)) : "\xEF\xBF\xBD"; };
      json entry = {{std::to_string(ids[i]), {{"logprob", logprobs[ids[i]]}, {"decoded_token", text(ids[i])}}}};
      int rank = 0;
      for (const int32_t id : best(logprobs, top)) {
        entry[std::to_string(id)] = {{"logprob", logprobs[id]}, {"rank", ++rank}, {"decoded_token", text(id)}};
      }
      list.push_back(entry);
    }
    return list;
  };
  const json fields = {{"max_tokens", 1}, {"temperature", 0}, {"prompt_logprobs", 2}};
  expect_near(post(server, fields)["choices"][0]["prompt_logprobs"], expected("abc", 2));
  expect_near(chat(server, fields)["prompt_logprobs"], expected("<user>abc\n<assistant>", 2));
  json several = fields;
  several.update({{"prompt", {"abc", "z", "defg"}}, {"n", 2}, {"echo", true}, {"logprobs", 1}});
  const json choices = post(server, several)["choices"];
  for (int i = 0; i < 6; ++i) {
    const std::string prompt = several["prompt"][i / 2];
    expect_near(choices[i]["prompt_logprobs"], expected(prompt, 2));
    EXPECT_EQ(choices[i]["logprobs"]["tokens"].size(), prompt.size() + 1);
    EXPECT_EQ(choices[i]["logprobs"]["top_logprobs"].back().size(), 1u);
  }
  EXPECT_FALSE(post(server, {{"max_tokens", 1}})["choices"][0].contains("prompt_logprobs"));
}

// ---- Choices that are ranked

TEST(Ranking, BestOfGivesTheLikeliestChoicesPerTokenAsStopStringsCutThem) {
  const FakeModel model = bytes_model();
  TestServer server({.model = model});
  const std::vector<int32_t> prompt = byte_ids("abc");
  struct Drawn {
    std::vector<int32_t> ids;
    double mean;
  };
  const auto draw = [&](int32_t stop) {
    std::vector<Drawn> all;
    for (int32_t stream = 0; stream < 5; ++stream) {
      const FakeSampling sampling{.temperature = 1, .seed = 3, .stream = stream};
      Drawn choice{model.answer(prompt, 12, sampling), 0};
      const auto end = std::ranges::find(choice.ids, stop);
      if (end != choice.ids.end()) choice.ids.erase(end + 1, choice.ids.end());
      std::vector<int32_t> before = prompt;
      for (const int32_t id : choice.ids) {
        choice.mean += log_softmax(model.logits(before, sampling))[id] / static_cast<double>(choice.ids.size());
        before.push_back(id);
      }
      all.push_back(choice);
    }
    std::ranges::stable_sort(all, [](const Drawn& a, const Drawn& b) { return a.mean > b.mean; });
    return all;
  };
  const json fields = {{"n", 2}, {"best_of", 5}, {"seed", 3}, {"max_tokens", 12}, {"logprobs", 0}};
  const auto expect_best = [&](const json& choices, const std::vector<Drawn>& all) {
    ASSERT_EQ(choices.size(), 2u);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(choices[i]["index"], i);
      EXPECT_EQ(choices[i]["logprobs"]["tokens"], labels(all[i].ids));
    }
  };
  const std::vector<Drawn> all = draw(-1);
  ASSERT_NE(all[0].ids, model.answer(prompt, 12, {.temperature = 1, .seed = 3})) << "drawing alone would do";
  const json body = post(server, fields);
  expect_best(body["choices"], all);
  EXPECT_EQ(body["usage"]["completion_tokens"], 5 * 12);
  // A character of the best choice cuts it, and the ranks change.
  const auto letter = std::ranges::find_if(all[0].ids, [](int32_t id) { return id > ' ' && id < 127; });
  ASSERT_NE(letter, all[0].ids.end());
  json stopped = fields;
  stopped["stop"] = std::string(1, static_cast<char>(*letter));
  expect_best(post(server, stopped)["choices"], draw(*letter));
  // Not asked for, the log-probabilities rank and are not answered.
  json quiet = fields;
  quiet.erase("logprobs");
  const json choices = post(server, quiet)["choices"];
  EXPECT_EQ(choices[0]["text"], body["choices"][0]["text"]);
  EXPECT_TRUE(choices[0]["logprobs"].is_null());
  const json two = post(server, {{"prompt", {"abc", "abd"}}, {"best_of", 3}, {"max_tokens", 2}, {"echo", true}})["choices"];
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(two[1]["text"].get<std::string>().starts_with("abd"));
}

TEST(Ranking, BeamsComeBestFirstAndAStreamGivesEachAtItsEnd) {
  TestServer server({.model = bytes_model()});
  const json fields = {{"use_beam_search", true}, {"best_of", 3}, {"n", 2}, {"max_tokens", 5}, {"logprobs", 1}};
  const json body = post(server, fields);
  ASSERT_EQ(body["choices"].size(), 2u) << body;
  double sums[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const json& choice = body["choices"][i];
    EXPECT_EQ(choice["logprobs"]["tokens"].size(), 5u);
    for (const json& logprob : choice["logprobs"]["token_logprobs"]) sums[i] += logprob.get<double>();
  }
  EXPECT_GE(sums[0], sums[1]);
  EXPECT_NE(body["choices"][0]["logprobs"]["tokens"], body["choices"][1]["logprobs"]["tokens"]);
  EXPECT_EQ(body["usage"]["completion_tokens"], 10);
  json streamed = fields;
  streamed["stream"] = true;
  const json events = post(server, streamed);
  ASSERT_EQ(events.size(), 2u) << events;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(events[i]["choices"], json::array({body["choices"][i]}));
}

// ---- Refusals

TEST(GenerationFields, WhatTheEngineRefusesNamesItsField) {
  TestServer server({.model = {.vocab_size = testing::kByteVocab, .max_context = 64, .max_seqs = 4}});
  const std::pair<json, const char*> cases[] = {
      {{{"prompt", std::string(64, 'a')}}, "prompt"},
      {{{"prompt", json::array()}}, "prompt"},
      {{{"use_beam_search", true}, {"best_of", 5}}, "use_beam_search"},
      {{{"use_beam_search", true}, {"best_of", 4}, {"stop_token_ids", byte_ids("abcdefghijklmnopqrst")}}, "use_beam_search"},
  };
  for (const auto& [fields, param] : cases) {
    const json answer = post(server, fields);
    EXPECT_EQ(answer["status"], 400) << answer;
    EXPECT_EQ(answer["error"]["param"], param) << answer;
  }
}

// ---- The text of a stream's event

TEST(AppendJsonText, IsWhatAJsonLibraryPrints) {
  std::string all = "\xC3\xA9 \xE2\x98\x83 \xF0\x9F\x98\x80 </script>";
  for (char c = 1; c > 0; ++c) all += c;
  all += '\0';
  std::string out;
  append_json_text(out, all);
  EXPECT_EQ("\"" + out + "\"", json(all).dump());
}

TEST(Events, APlainOneIsSpelledLikeAnyOther) {
  for (const bool is_chat : {true, false}) {
    const AnswerOptions options{.model = "\x01\"m", .include_usage = true};
    const auto format = is_chat ? make_chat_format(options) : make_completion_format(options, {{}, {}});
    const json plain = json::parse(format->event({.index = 1, .text = "\x01 say \"\n"}));
    json last = json::parse(format->event({.index = 1, .text = "\x01 say \"\n", .finish = engine::FinishReason::stop}));
    last["choices"][0]["finish_reason"] = nullptr;
    EXPECT_EQ(plain, last);
  }
}

}  // namespace
}  // namespace headrace::server

#include "server/answer_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "text/utf8.h"

namespace headrace::server {
namespace {

using json = nlohmann::ordered_json;
using engine::FinishReason;

std::string print(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json finish_json(FinishReason finish) {
  return finish == FinishReason::none ? json(nullptr) : json(engine::finish_reason_name(finish));
}

json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

class Format : public AnswerFormat {
 public:
  Format(AnswerOptions options, std::string_view id_prefix, const char* whole_object,
         const char* event_object)
      : options_(std::move(options)),
        id_(random_id(id_prefix)),
        created_(std::time(nullptr)),
        whole_object_(whole_object),
        event_object_(event_object) {}

  // Of a choice's plain events only the text differs: what stands around it is printed once.
  std::string event(const ChoiceDelta& delta) override {
    if (options_.logprobs || delta.finish != FinishReason::none) return print_event(json::array({event_choice(delta)}));
    if (frames_.size() <= static_cast<size_t>(delta.index)) frames_.resize(static_cast<size_t>(delta.index) + 1);
    Frame& frame = frames_[static_cast<size_t>(delta.index)];
    if (frame.before.empty()) frame = make_frame(delta.index);
    std::string out;
    out.reserve(frame.before.size() + delta.text.size() + frame.after.size() + 16);
    out += frame.before;
    append_json_text(out, delta.text);
    out += frame.after;
    return out;
  }

  void set_prompt_logprobs(size_t prompt, std::vector<TokenLogprob> tokens) override {
    if (options_.prompt_logprobs < 0) return;
    if (prompt_logprobs_.size() <= prompt) prompt_logprobs_.resize(prompt + 1);
    prompt_logprobs_[prompt] = std::move(tokens);
  }

  std::string usage_event(const Usage& usage) override {
    json event = head(event_object_);
    event["choices"] = json::array();
    add_usage(event, usage);
    return print(event);
  }

  std::string whole(const std::vector<ChoiceDelta>& choices, const Usage& usage) override {
    json answer = head(whole_object_);
    answer["choices"] = json::array();
    for (const ChoiceDelta& choice : choices) answer["choices"].push_back(whole_choice(choice));
    add_to_whole(answer);
    add_usage(answer, usage);
    return print(answer);
  }

 protected:
  virtual json event_choice(const ChoiceDelta& delta) = 0;
  virtual json whole_choice(const ChoiceDelta& choice) = 0;
  virtual void add_to_whole(json&) const {}

  // As vLLM has it: null for the first token, for each other one its own entry and the best, by id.
  json prompt_logprobs_json(size_t prompt) const {
    json list = json::array({nullptr});
    for (const TokenLogprob& token : prompt_logprobs_[prompt]) {
      json entries = json::object();
      const auto count = std::min(token.top.size(), static_cast<size_t>(options_.prompt_logprobs));
      for (size_t i = 0; i < count; ++i) {
        entries[std::to_string(token.top[i].first)] = {{"logprob", finite_logprob(token.top[i].second)},
                                                       {"rank", i + 1},
                                                       {"decoded_token", token_string(token.top[i].first)}};
      }
      // Outside the best its rank is not known.
      entries.emplace(std::to_string(token.id),
                      json{{"logprob", finite_logprob(token.logprob)}, {"decoded_token", token_string(token.id)}});
      list.push_back(std::move(entries));
    }
    return list;
  }

  std::string token_string(int32_t id) const { return text::to_valid_utf8(options_.tokenizer->token_bytes(id)); }

  std::string print_event(json choices) const {
    json event = head(event_object_);
    event["choices"] = std::move(choices);
    if (options_.include_usage) event["usage"] = nullptr;
    return print(event);
  }

  const AnswerOptions options_;

 private:
  struct Frame {
    std::string before, after;
  };
  Frame make_frame(int32_t index) {
    constexpr std::string_view kText = "\x01", kPrinted = "\\u0001";
    const std::string printed = print_event(json::array({event_choice({.index = index, .text = std::string(kText)})}));
    const size_t at = printed.rfind(kPrinted);  // no other text of the caller's stands behind it
    return {printed.substr(0, at), printed.substr(at + kPrinted.size())};
  }

  json head(const char* object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", options_.model}};
  }
  static void add_usage(json& answer, const Usage& usage) {
    answer["usage"] = usage_json(usage);
    if (!usage.timed) return;
    const auto rounded = [](double value) { return std::round(value * 1e3) / 1e3; };
    answer["timings"] = {{"ttft_ms", rounded(usage.ttft_ms)},
                         {"tpot_ms", rounded(usage.tpot_ms)},
                         {"tokens_per_s", rounded(usage.tokens_per_s)}};
  }

  const std::string id_;
  const int64_t created_;
  const char* const whole_object_;
  const char* const event_object_;
  std::vector<Frame> frames_;                                // by choice
  std::vector<std::vector<TokenLogprob>> prompt_logprobs_;  // by prompt
};

class ChatFormat final : public Format {
 public:
  explicit ChatFormat(AnswerOptions options)
      : Format(std::move(options), "chatcmpl-", "chat.completion", "chat.completion.chunk") {}

  std::string opening(int32_t index) override {
    return print_event(json::array({{{"index", index},
                                     {"delta", {{"role", "assistant"}, {"content", ""}}},
                                     {"logprobs", nullptr},
                                     {"finish_reason", nullptr}}}));
  }

 private:
  json event_choice(const ChoiceDelta& delta) override {
    json content = json::object();
    if (!delta.text.empty() || delta.finish == FinishReason::none) content["content"] = delta.text;
    return {{"index", delta.index},
            {"delta", std::move(content)},
            {"logprobs", logprobs_json(delta.logprobs)},
            {"finish_reason", finish_json(delta.finish)}};
  }

  json whole_choice(const ChoiceDelta& choice) override {
    return {{"index", choice.index},
            {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
            {"logprobs", logprobs_json(choice.logprobs)},
            {"finish_reason", finish_json(choice.finish)}};
  }

  void add_to_whole(json& answer) const override {
    if (options_.prompt_logprobs >= 0) answer["prompt_logprobs"] = prompt_logprobs_json(0);
  }

  json token_json(int32_t id, double logprob) const {
    const std::string bytes = options_.tokenizer->token_bytes(id);
    json list = json::array();
    for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
    return {{"token", text::to_valid_utf8(bytes)},
            {"logprob", finite_logprob(logprob)},
            {"bytes", std::move(list)}};
  }

  json logprobs_json(const std::vector<TokenLogprob>& tokens) const {
    if (!options_.logprobs) return nullptr;
    json content = json::array();
    for (const TokenLogprob& token : tokens) {
      json entry = token_json(token.id, token.logprob);
      json top = json::array();
      // The chat API lists the best alone; the chosen token has its entry already.
      const size_t count = std::min<size_t>(token.top.size(), static_cast<size_t>(options_.top_logprobs));
      for (size_t i = 0; i < count; ++i) top.push_back(token_json(token.top[i].first, token.top[i].second));
      entry["top_logprobs"] = std::move(top);
      content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
};

class CompletionFormat final : public Format {
 public:
  CompletionFormat(AnswerOptions options, std::vector<CompletionPrompt> prompts)
      : Format(std::move(options), "cmpl-", "text_completion", "text_completion"), prompts_(std::move(prompts)) {
    for (const CompletionPrompt& prompt : prompts_) {
      offsets_.insert(offsets_.end(), static_cast<size_t>(options_.n), prompt.offsets);
    }
  }

  std::string opening(int32_t index) override {
    const CompletionPrompt& prompt = prompt_of(index);
    if (prompt.echo_text.empty()) return {};
    return print_event(json::array({choice_json({.index = index}, prompt.echo_text, {&prompt.echo_tokens})}));
  }

  void set_prompt_logprobs(size_t prompt, std::vector<TokenLogprob> tokens) override {
    std::vector<TokenLogprob>& echo = prompts_[prompt].echo_tokens;
    if (!echo.empty()) echo.insert(echo.end(), tokens.begin(), tokens.end());
    Format::set_prompt_logprobs(prompt, std::move(tokens));
  }

 private:
  size_t number_of_prompt(int32_t index) const { return static_cast<size_t>(index / options_.n); }
  const CompletionPrompt& prompt_of(int32_t index) const { return prompts_[number_of_prompt(index)]; }

  json event_choice(const ChoiceDelta& delta) override {
    return choice_json(delta, delta.text, {&delta.logprobs});
  }
  json whole_choice(const ChoiceDelta& choice) override {
    const CompletionPrompt& prompt = prompt_of(choice.index);
    json out = choice_json(choice, prompt.echo_text + choice.text, {&prompt.echo_tokens, &choice.logprobs});
    if (options_.prompt_logprobs >= 0) out["prompt_logprobs"] = prompt_logprobs_json(number_of_prompt(choice.index));
    return out;
  }

  using TokenLists = std::initializer_list<const std::vector<TokenLogprob>*>;

  json choice_json(const ChoiceDelta& choice, const std::string& text, TokenLists tokens) {
    return {{"text", text},
            {"index", choice.index},
            {"logprobs", logprobs_json(choice.index, tokens)},
            {"finish_reason", finish_json(choice.finish)}};
  }

  json logprobs_json(int32_t index, TokenLists lists) {
    if (!options_.logprobs) return nullptr;
    json labels = json::array(), logprobs = json::array(), tops = json::array(), starts = json::array();
    const std::vector<TokenLogprob>& echo = prompt_of(index).echo_tokens;
    for (const std::vector<TokenLogprob>* list : lists) {
      for (const TokenLogprob& token : *list) {
        const std::string bytes = options_.tokenizer->token_bytes(token.id);
        const bool first_of_prompt = list == &echo && &token == list->data();
        labels.push_back(token_label(bytes));
        starts.push_back(offsets_[static_cast<size_t>(index)].next(bytes));
        logprobs.push_back(first_of_prompt ? json(nullptr) : json(finite_logprob(token.logprob)));
        tops.push_back(first_of_prompt ? json(nullptr) : top_json(token));
      }
    }
    return {{"tokens", std::move(labels)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(starts)}};
  }

  // The best, then the token itself. Two tokens may share a label: the better one, which comes first, keeps it.
  json top_json(const TokenLogprob& token) const {
    json top = json::object();
    const auto add = [&](int32_t id, double logprob) {
      top.emplace(token_label(options_.tokenizer->token_bytes(id)), finite_logprob(logprob));
    };
    const auto count = std::min(token.top.size(), static_cast<size_t>(options_.top_logprobs));
    for (size_t i = 0; i < count; ++i) add(token.top[i].first, token.top[i].second);
    add(token.id, token.logprob);
    return top;
  }

  std::vector<CompletionPrompt> prompts_;
  std::vector<TextOffsets> offsets_;  // by choice
};

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  constexpr std::string_view kShort = "btn_fr";  // \b to \r; \v has no short form
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(plain, i - plain);
    plain = i + 1;
    if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c >= '\b' && c <= '\r' && c != '\v') {
      out += {'\\', kShort[c - '\b']};
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
  }
  out += text.substr(plain);
}

std::unique_ptr<AnswerFormat> make_chat_format(AnswerOptions options) {
  return std::make_unique<ChatFormat>(std::move(options));
}

std::unique_ptr<AnswerFormat> make_completion_format(AnswerOptions options,
                                                     std::vector<CompletionPrompt> prompts) {
  return std::make_unique<CompletionFormat>(std::move(options), std::move(prompts));
}

std::string random_id(std::string_view prefix) {
  thread_local std::mt19937_64 generator{(static_cast<uint64_t>(std::random_device{}()) << 32) ^
                                         std::random_device{}()};
  return fmt::format("{}{:016x}{:08x}", prefix, generator(), static_cast<uint32_t>(generator()));
}

}  // namespace headrace::server

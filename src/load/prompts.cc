#include "load/prompts.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <utility>

namespace headrace::load {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kVocabulary =
    "the of and to in is was for on that with as it by at from his her they be this have are not or had but one which you were "
    "all "
    "there their she we when who will more if no out so said what up its about into than them can only other new some could "
    "time "
    "these two may then do first any my now such like our over man me even most made after also did many before must through "
    "back "
    "years where much your way well down should because each just those people how too little state good very make world still "
    "own "
    "see men work long get here between both life being under never day same another know while last might us great old year "
    "off "
    "come since against go came right used take three water house place high part found small thought went say hand head set "
    "end "
    "light night fire stone road river field mill wheel wood iron glass paper ship wind rain snow sun moon star sea land hill "
    "tree "
    "leaf seed bread salt milk fish bird horse dog cat door wall roof bridge city town king queen book word song voice name "
    "form line "
    "point side turn run walk stand sit hold keep give bring send read write draw build cut fall rise grow learn teach count "
    "measure";
constexpr size_t kEnoughWords = 32;                 // of one token each: then no others are used
constexpr int32_t kFirstId = 1000, kEndId = 20000;  // ordinary words in every vocabulary of today's models
constexpr uint64_t kPrefixSalt = uint64_t{1} << 62;

std::vector<std::string> vocabulary() {
  std::vector<std::string> words;
  std::istringstream text{std::string(kVocabulary)};
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::mt19937_64 random_of(uint64_t seed, uint64_t salt) {
  return std::mt19937_64(seed * 0x9E3779B97F4A7C15u ^ (salt + 1) * 0xBF58476D1CE4E5B9u);
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> post(const Endpoint& endpoint, std::string_view path, const Json& body, double timeout_s) {
  HR_ASSIGN_OR_RETURN(const HttpAnswer answer, call(endpoint, "POST", path, dumped(body), timeout_s));
  if (answer.status != 200) {
    return error(Code::unsupported, "POST {}: {}: {}", path, answer.status, answer.body.substr(0, 300));
  }
  Json parsed = Json::parse(answer.body, nullptr, false);
  if (!parsed.is_object()) return error(Code::unsupported, "POST {}: the answer is no JSON object", path);
  return parsed;
}

// The server's /tokenize: that of vLLM and Headrace (`prompt`), or of llama.cpp (`content`).
class Counter {
 public:
  Counter(const Endpoint& endpoint, std::string model, double timeout_s)
      : endpoint_(endpoint), model_(std::move(model)), timeout_s_(timeout_s) {}
  Result<int32_t> count(const std::string& text, bool add_special) {
    if (!llama_cpp_) {
      const auto answer =
          post(endpoint_, "/tokenize", {{"model", model_}, {"prompt", text}, {"add_special_tokens", add_special}}, timeout_s_);
      if (answer && answer->contains("count")) return number(answer->at("count"));
      if (sure_ || (!answer && answer.error().code() == Code::unavailable)) return failure();
    }
    const auto answer = post(endpoint_, "/tokenize", {{"content", text}, {"add_special", add_special}}, timeout_s_);
    if (!answer || !answer->contains("tokens") || !answer->at("tokens").is_array()) return failure();
    llama_cpp_ = true;
    return static_cast<int32_t>(answer->at("tokens").size());
  }

 private:
  Result<int32_t> number(const Json& value) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 1u << 28) return failure();
    sure_ = true;
    return value.get<int32_t>();
  }
  static tl::unexpected<Status> failure() { return error(Code::unsupported, "no /tokenize that counts"); }

  const Endpoint& endpoint_;
  const std::string model_;
  const double timeout_s_;
  bool llama_cpp_ = false, sure_ = false;
};

struct Counted {
  std::vector<Prompts::Word> words;
  int32_t special_tokens = 0;
};

Result<Counted> count_words(Counter& counter, bool raw_prompt) {
  Counted out;
  HR_ASSIGN_OR_RETURN(const int32_t plain, counter.count("river", false));
  if (raw_prompt) {
    HR_ASSIGN_OR_RETURN(const int32_t with, counter.count("river", true));
    out.special_tokens = std::max(0, with - plain);
  }
  std::vector<Prompts::Word> single;
  for (const std::string& word : vocabulary()) {
    HR_ASSIGN_OR_RETURN(const int32_t once, counter.count(word, false));
    HR_ASSIGN_OR_RETURN(const int32_t twice, counter.count(word + " " + word, false));
    if (once < 1 || twice <= once) continue;
    out.words.push_back({word, twice - once, once});
    if (once == 1 && twice == 2) single.push_back(out.words.back());
    if (single.size() == 4 * kEnoughWords) break;
  }
  if (single.size() >= kEnoughWords) out.words = std::move(single);
  if (out.words.empty()) return error(Code::unsupported, "no word has a number of tokens");
  return out;
}

bool parse_list(const Json& json, const char* name, std::vector<int32_t>& out) {
  if (!json.contains(name) || !json.at(name).is_array()) return false;
  for (const Json& value : json.at(name)) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > 1u << 24) return false;
    out.push_back(value.get<int32_t>());
  }
  return !out.empty();
}

Result<int32_t> prompt_tokens_said(const Endpoint& endpoint, Api api, const Json& body, double timeout_s) {
  HR_ASSIGN_OR_RETURN(const Json answer, post(endpoint, path_of(api), body, timeout_s));
  const Json::json_pointer at("/usage/prompt_tokens");
  if (!answer.contains(at) || !answer.at(at).is_number_unsigned()) {
    return error(Code::unsupported, "an answer without usage.prompt_tokens");
  }
  return static_cast<int32_t>(std::min<uint64_t>(answer.at(at).get<uint64_t>(), 1u << 28));
}

Json prompt_fields(Api api, const Json& prompt) {
  if (api == Api::chat) return {{"messages", Json::array({{{"role", "user"}, {"content", prompt}}})}};
  return {{"prompt", prompt}};
}

}  // namespace

const char* prompt_kind_name(PromptKind kind) {
  constexpr const char* kNames[] = {"words counted by the server's tokenizer", "token ids", "words, their tokens guessed"};
  return kNames[static_cast<int>(kind)];
}

Result<Lengths> read_lengths(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(Code::not_found, "{}: cannot be read", path);
  std::stringstream text;
  text << file.rdbuf();
  const Json json = Json::parse(text.str(), nullptr, false);
  Lengths out;
  if (!json.is_object() || !parse_list(json, "prompt", out.prompt) || !parse_list(json, "output", out.output) ||
      out.prompt.size() != out.output.size()) {
    return error(
        Code::malformed,
        "{}: want a JSON object with \"prompt\" and \"output\": lists of as many whole numbers of tokens, each at least 1",
        path);
  }
  return out;
}

Result<std::string> first_model(const Endpoint& endpoint, double timeout_s) {
  HR_ASSIGN_OR_RETURN(const HttpAnswer answer, call(endpoint, "GET", "/v1/models", "", timeout_s));
  const Json json = Json::parse(answer.body, nullptr, false);
  const Json::json_pointer at("/data/0/id");
  if (answer.status == 200 && json.is_object() && json.contains(at) && json.at(at).is_string())
    return json.at(at).get<std::string>();
  return error(Code::unavailable, "http://{}{}/v1/models names no model ({}: {}); give it with --model", endpoint.authority(),
               endpoint.prefix, answer.status, answer.body.substr(0, 300));
}

Prompts::Prompts(PromptOptions options, PromptKind kind, std::vector<Word> words, int32_t special_tokens,
                 double words_per_token)
    : options_(std::move(options)),
      kind_(kind),
      words_(std::move(words)),
      special_tokens_(special_tokens),
      words_per_token_(words_per_token) {
  Json fields = {{"model", options_.model},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"temperature", options_.temperature}};
  if (options_.ignore_eos) fields["ignore_eos"] = true;
  // Of two fields of one name readers take the later: --extra-body has the last word.
  if (!options_.extra_body.empty()) fields.update(Json::parse(options_.extra_body));
  tail_ = "," + dumped(fields).substr(1);
  if (options_.shared_prefix > 0 && kind_ != PromptKind::ids) {
    for (int32_t i = 0; i < options_.num_prefixes; ++i) {
      prefixes_.push_back(text(options_.shared_prefix, kPrefixSalt + static_cast<uint64_t>(i)));
    }
  }
}

int32_t Prompts::prompt_tokens(int64_t number) const {
  const auto& list = options_.lengths.prompt;
  return list[static_cast<size_t>(number) % list.size()] + options_.shared_prefix;
}

int32_t Prompts::output_tokens(int64_t number) const {
  const auto& list = options_.lengths.output;
  return list[static_cast<size_t>(number) % list.size()];
}

std::string Prompts::counted_text(int32_t tokens, uint64_t salt) const {
  std::mt19937_64 random = random_of(options_.seed, salt);
  std::string out;
  int32_t left = std::max(1, tokens);
  while (left > 0) {
    const bool first = out.empty();
    const auto cost = [first](const Word& word) { return first ? word.first : word.tokens; };
    const Word* chosen = &words_[random() % words_.size()];
    if (cost(*chosen) > left) {
      const auto fits = std::find_if(words_.begin(), words_.end(), [&](const Word& word) { return cost(word) <= left; });
      chosen = fits == words_.end() ? nullptr : &*fits;
    }
    if (chosen == nullptr) {
      // Only a vocabulary of bytes or letters comes here: a letter is a token then.
      out.append(static_cast<size_t>(left), 'a');
      break;
    }
    left -= cost(*chosen);
    if (!first) out += ' ';
    out += chosen->text;
  }
  return out;
}

std::string Prompts::text(int32_t tokens, uint64_t salt) const {
  if (kind_ == PromptKind::counted_words) return counted_text(tokens, salt);
  std::mt19937_64 random = random_of(options_.seed, salt);
  const int64_t count = std::max<int64_t>(1, std::llround(tokens * words_per_token_));
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ' ';
    out += words_[random() % words_.size()].text;
  }
  return out;
}

std::string Prompts::ids_json(int64_t number) const {
  std::string out = "[";
  const auto append = [&out, this](int32_t count, uint64_t salt) {
    std::mt19937_64 random = random_of(options_.seed, salt);
    for (int32_t i = 0; i < count; ++i) {
      if (out.size() > 1) out += ',';
      out += std::to_string(kFirstId + static_cast<int32_t>(random() % (kEndId - kFirstId)));
    }
  };
  if (options_.shared_prefix > 0) {
    append(options_.shared_prefix, kPrefixSalt + static_cast<uint64_t>(number % options_.num_prefixes));
  }
  append(prompt_tokens(number) - options_.shared_prefix, static_cast<uint64_t>(number));
  return out + "]";
}

std::string Prompts::body_of(const std::string& prompt_json, int32_t output) const {
  const bool chat = options_.api == Api::chat;
  return fmt::format("{{{}{}{},\"max_tokens\":{}{}",
                     chat ? R"("messages":[{"role":"user","content":)" : "\"prompt\":", prompt_json, chat ? "}]" : "", output,
                     tail_);
}

std::string Prompts::body(int64_t number) const {
  if (kind_ == PromptKind::ids) return body_of(ids_json(number), output_tokens(number));
  std::string prompt;
  if (!prefixes_.empty()) prompt = prefixes_[static_cast<size_t>(number) % prefixes_.size()] + " ";
  prompt += text(prompt_tokens(number) - options_.shared_prefix - special_tokens_, static_cast<uint64_t>(number));
  return body_of(dumped(prompt), output_tokens(number));
}

Result<std::unique_ptr<Prompts>> Prompts::make(const Endpoint& endpoint, PromptOptions options, double timeout_s) {
  if (!options.extra_body.empty() && !Json::parse(options.extra_body, nullptr, false).is_object()) {
    return error(Code::invalid_argument, "--extra-body: want a JSON object, got \"{}\"", options.extra_body);
  }
  const Api api = options.api;
  Counter counter(endpoint, options.model, timeout_s);
  if (auto counted = count_words(counter, api == Api::completions)) {
    auto prompts = std::make_unique<Prompts>(std::move(options), PromptKind::counted_words, std::move(counted->words),
                                             counted->special_tokens, 1.0);
    // The tokens of words were added up; whether that holds for texts is asked of the first ones.
    int32_t furthest = 0;
    for (int64_t number = 0; number < 4; ++number) {
      const int32_t want = prompts->prompt_tokens(number) - prompts->options_.shared_prefix - counted->special_tokens;
      HR_ASSIGN_OR_RETURN(const int32_t got, counter.count(prompts->text(want, static_cast<uint64_t>(number)), false));
      furthest = std::max(furthest, std::abs(got - std::max(1, want)));
    }
    if (furthest > 0) prompts->note_ = fmt::format("prompts are up to {} tokens longer or shorter than asked", furthest);
    return prompts;
  }

  Json probe = {{"model", options.model}, {"max_tokens", 1}, {"temperature", 0}};
  std::vector<Word> words;
  for (std::string& word : vocabulary()) words.push_back({std::move(word)});
  if (api == Api::completions) {
    Json body = prompt_fields(api, Json::array({kFirstId, kFirstId + 1, kFirstId + 2}));
    body.update(probe);
    const auto said = prompt_tokens_said(endpoint, api, body, timeout_s);
    if (said && *said == 3) return std::make_unique<Prompts>(std::move(options), PromptKind::ids, std::move(words), 0, 1.0);
  }
  std::string sample;
  for (const Word& word : words) sample += (sample.empty() ? "" : " ") + word.text;
  Json body = prompt_fields(api, sample);
  body.update(probe);
  const auto said = prompt_tokens_said(endpoint, api, body, timeout_s);
  if (!said && said.error().code() == Code::unavailable) return tl::unexpected(said.error());
  const double num_words = static_cast<double>(words.size());
  const double words_per_token = said ? num_words / std::max(1, *said) : 1.0;
  auto prompts = std::make_unique<Prompts>(std::move(options), PromptKind::guessed_words, std::move(words), 0, words_per_token);
  prompts->note_ =
      said
          ? fmt::format("the server has no /tokenize: prompts have {:.3f} words for each token asked", words_per_token)
          : fmt::format("the server has no /tokenize and says no usage ({}): a word counts as a token", said.error().message());
  return prompts;
}

}  // namespace headrace::load

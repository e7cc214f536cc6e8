#include "server/openai_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace headrace::server {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;           // printing a value again recurses this deep
constexpr size_t kMaxValues = 1 << 20;  // each costs tens of bytes once parsed
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int32_t kMaxTopLogprobs = 20;
constexpr size_t kMaxStopIds = 256;
constexpr size_t kMaxSaltBytes = 256;
constexpr double kMaxTimeout = 1e6;  // seconds

// Depth and number of values, counted before anything is allocated for them. Commas and brackets outside
// strings bound the number of values, well-formed or not.
std::optional<std::string> too_large(std::string_view text) {
  size_t values = 1;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ',' || c == '[' || c == '{') ++values;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return fmt::format("JSON nested deeper than {} levels", kMaxDepth);
    if (values > kMaxValues) return fmt::format("JSON with more than {} values", kMaxValues);
  }
  return std::nullopt;
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

// Reads fields of one object; keeps the first error.
class Fields {
 public:
  explicit Fields(std::string_view body) {
    if (auto why = too_large(body)) {
      fail("", *why);
      return;
    }
    try {
      object_ = json::parse(body);
      if (!object_.is_object())
        fail("", fmt::format("the body must be a JSON object, got {}", object_.type_name()));
    } catch (const std::exception& e) {
      fail("", fmt::format("the body is not valid JSON: {}", e.what()));
    }
  }

  bool ok() const { return !error_; }
  ApiError error() const { return *error_; }
  void fail(std::string param, std::string message, std::string code = {}) {
    if (!error_)
      error_ = ApiError{
          .status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
  }

  // Null is absent.
  const json* find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<bool> boolean(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    wrong_type(name, "a boolean", *value);
    return std::nullopt;
  }

  std::optional<std::string> string(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    wrong_type(name, "a string", *value);
    return std::nullopt;
  }

  std::optional<double> number(const char* name, double min, double max) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) {
      wrong_type(name, "a number", *value);
      return std::nullopt;
    }
    const double number = value->get<double>();
    if (number >= min && number <= max) return number;
    fail(name, fmt::format("{}: must lie between {} and {}, got {}", name, min, max, shown(*value)));
    return std::nullopt;
  }

  std::optional<int64_t> integer(const char* name, int64_t min, int64_t max) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    std::optional<int64_t> integer = to_integer(*value);
    if (!value->is_number() ||
        (value->is_number_float() && std::trunc(value->get<double>()) != value->get<double>())) {
      wrong_type(name, "an integer", *value);
      return std::nullopt;
    }
    if (integer && *integer >= min && *integer <= max) return integer;
    if (max == std::numeric_limits<int32_t>::max()) {
      fail(name, fmt::format("{}: must be at least {}, got {}", name, min, shown(*value)));
    } else {
      fail(name, fmt::format("{}: must lie between {} and {}, got {}", name, min, max, shown(*value)));
    }
    return std::nullopt;
  }

  void wrong_type(const std::string& param, std::string_view wanted, const json& got) {
    fail(param, fmt::format("{}: must be {}, got {}: {}", param, wanted, got.type_name(), shown(got)),
         "invalid_type");
  }

  // Refuses a value other than the listed ones, which mean "off".
  void unsupported_unless(const char* name, std::initializer_list<json> off) {
    const json* value = find(name);
    if (value == nullptr || std::find(off.begin(), off.end(), *value) != off.end()) return;
    fail(name, fmt::format("{}: not supported yet, got {}", name, shown(*value)), "unsupported_parameter");
  }

  // The integer that `value` is, if it fits; a float counts when it has no fraction.
  static std::optional<int64_t> to_integer(const json& value) {
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(number);
    }
    if (value.is_number_integer()) return value.get<int64_t>();
    if (!value.is_number_float()) return std::nullopt;
    const double number = value.get<double>();
    if (!(std::abs(number) < 9e15) || std::trunc(number) != number) return std::nullopt;
    return static_cast<int64_t>(number);
  }

 private:
  json object_;
  std::optional<ApiError> error_;
};

void read_stop(Fields& in, std::vector<std::string>& stop) {
  const json* value = in.find("stop");
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMaxStops) {
    return in.fail("stop", fmt::format("stop: at most {} strings, got {}", kMaxStops, list.size()));
  }
  for (const json& item : list) {
    if (!item.is_string()) return in.wrong_type("stop", "a string or a list of strings", item);
    std::string text = item.get<std::string>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return in.fail(
          "stop", fmt::format("stop: a stop string has 1 to {} bytes, got {}", kMaxStopBytes, text.size()));
    }
    stop.push_back(std::move(text));
  }
}

std::optional<std::vector<int32_t>> read_ids(Fields& in, const char* name, const json& list,
                                             int32_t vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& item : list) {
    const auto id = Fields::to_integer(item);
    if (!id) {
      in.wrong_type(name, "token ids or strings, not a mix", item);
      return std::nullopt;
    }
    if (*id < 0 || *id >= vocab_size) {
      in.fail(name, fmt::format("{}: token ids lie between 0 and {}, got {}", name, vocab_size - 1, *id));
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void read_logit_bias(Fields& in, int32_t vocab_size, std::vector<std::pair<int32_t, float>>& biases) {
  const json* value = in.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) return in.wrong_type("logit_bias", "an object from token ids to numbers", *value);
  if (value->size() > static_cast<size_t>(engine::kMaxBiases)) {
    return in.fail("logit_bias", fmt::format("logit_bias: at most {} token ids, got {}", engine::kMaxBiases, value->size()));
  }
  for (const auto& [key, bias] : value->items()) {
    const bool digits = !key.empty() && key.size() <= 10 && key.find_first_not_of("0123456789") == key.npos;
    if (!digits || std::stoll(key) >= vocab_size) {
      return in.fail("logit_bias", fmt::format("logit_bias: token ids lie between 0 and {}, got \"{}\"",
                                               vocab_size - 1, key.substr(0, 32)));
    }
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= 100)) {
      return in.fail("logit_bias",
                     fmt::format("logit_bias: a bias lies between -100 and 100, got {}", shown(bias)));
    }
    biases.emplace_back(static_cast<int32_t>(std::stoll(key)), bias.get<float>());
  }
}

void read_bad_words(Fields& in, std::vector<std::string>& words) {
  const json* value = in.find("bad_words");
  if (value == nullptr) return;
  if (!value->is_array()) return in.wrong_type("bad_words", "a list of strings", *value);
  constexpr size_t kMost = engine::kMaxBadWords / 2;  // each with and without a space before it
  if (value->size() > kMost) {
    return in.fail("bad_words", fmt::format("bad_words: at most {} strings, got {}", kMost, value->size()));
  }
  for (const json& item : *value) {
    if (!item.is_string()) return in.wrong_type("bad_words", "a list of strings", item);
    words.push_back(item.get<std::string>());
    if (words.back().find_first_not_of(' ') == std::string::npos) {
      return in.fail("bad_words", fmt::format("bad_words: want some text in each, got {}", shown(item)));
    }
  }
}

// Fields that change the answer and are not implemented.
void refuse_unsupported(Fields& in) {
  in.unsupported_unless("tools", {json::array()});
  in.unsupported_unless("tool_choice", {"none", "auto"});
  in.unsupported_unless("functions", {json::array()});
  in.unsupported_unless("function_call", {"none", "auto"});
  in.unsupported_unless("audio", {});
  in.unsupported_unless("modalities", {json::array({"text"})});
  in.unsupported_unless("web_search_options", {});
  in.unsupported_unless("suffix", {""});
  in.unsupported_unless("grammar", {""});
  for (const char* guided : {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"}) {
    in.unsupported_unless(guided, {});
  }
  in.unsupported_unless("skip_special_tokens", {true});
  in.unsupported_unless("truncate_prompt_tokens", {});
  if (const json* format = in.find("response_format")) {
    if (!format->is_object() || !format->contains("type")) {
      in.wrong_type("response_format", "an object with a type", *format);
    } else if ((*format)["type"] != "text") {
      in.fail("response_format",
              fmt::format("response_format: type {} is not supported yet; only \"text\" is",
                          shown((*format)["type"])),
              "unsupported_parameter");
    }
  }
}

// A seed for a request that has none: answers then differ from one another.
uint64_t fresh_seed() {
  thread_local std::mt19937_64 generator{(static_cast<uint64_t>(std::random_device{}()) << 32) ^
                                         std::random_device{}()};
  return generator();
}

void read_sampling(Fields& in, engine::SamplingParams& sampling) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  sampling.temperature = static_cast<float>(in.number("temperature", 0, 2).value_or(1));
  sampling.min_p = static_cast<float>(in.number("min_p", 0, 1).value_or(0));
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(0, in.integer("top_k", -1, kMax).value_or(0)));
  // As a float it must stay above 0: the sampler wants (0, 1].
  const auto fraction = [&](const char* name) {
    const double value = in.number(name, 0, 1).value_or(1);
    if (static_cast<float>(value) <= 0.0f) in.fail(name, fmt::format("{}: must lie above 0, up to 1, got {}", name, value));
    return static_cast<float>(value);
  };
  sampling.top_p = fraction("top_p");
  sampling.typical_p = fraction("typical_p");
  sampling.repetition_penalty = static_cast<float>(in.number("repetition_penalty", 0.01, 100).value_or(1));
  sampling.frequency_penalty = static_cast<float>(in.number("frequency_penalty", -2, 2).value_or(0));
  sampling.presence_penalty = static_cast<float>(in.number("presence_penalty", -2, 2).value_or(0));
  const json* seed = in.find("seed");
  if (seed == nullptr) {
    sampling.seed = fresh_seed();
  } else if (seed->is_number_unsigned()) {
    sampling.seed = seed->get<uint64_t>();
  } else if (const auto value = Fields::to_integer(*seed)) {
    sampling.seed = static_cast<uint64_t>(*value);
  } else {
    in.wrong_type("seed", "an integer of 64 bits", *seed);
  }
}

void read_stream(Fields& in, GenerationFields& out) {
  out.stream = in.boolean("stream").value_or(false);
  const json* options = in.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return in.wrong_type("stream_options", "an object", *options);
  if (!out.stream) return in.fail("stream_options", "stream_options: only allowed with stream: true");
  const auto usage = options->find("include_usage");
  if (usage == options->end() || usage->is_null()) return;
  if (!usage->is_boolean()) return in.wrong_type("stream_options.include_usage", "a boolean", *usage);
  out.include_usage = usage->get<bool>();
}

// `echo`: the prompt comes back, so that an answer without tokens of its own has a meaning.
void read_limits(Fields& in, const ParseLimits& limits, bool echo, GenerationFields& out) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const auto value = in.integer(name, echo ? 0 : 1, kMax);
    if (value && !out.max_tokens) out.max_tokens = static_cast<int32_t>(*value);
  }
  out.min_tokens = static_cast<int32_t>(in.integer("min_tokens", 0, kMax).value_or(0));
  if (out.min_tokens > out.max_tokens.value_or(kMax)) {
    in.fail("min_tokens", fmt::format("min_tokens: must be at most max_tokens, which is {}, got {}", *out.max_tokens,
                                      out.min_tokens));
  }
  out.n = static_cast<int32_t>(in.integer("n", 1, limits.max_choices).value_or(1));
  out.best_of = static_cast<int32_t>(in.integer("best_of", 1, limits.max_choices).value_or(out.n));
  if (out.best_of < out.n) {
    in.fail("best_of", fmt::format("best_of: must be at least n, which is {}, got {}", out.n, out.best_of));
  }
  out.priority = static_cast<int32_t>(in.integer("priority", std::numeric_limits<int32_t>::min() + 1, kMax - 1).value_or(0));
  if (const auto timeout = in.number("timeout", 0, kMaxTimeout)) {
    if (*timeout == 0) in.fail("timeout", "timeout: must be more than 0 seconds, got 0");
    out.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*timeout));
  }
}

void read_ends(Fields& in, const ParseLimits& limits, GenerationFields& out) {
  read_stop(in, out.stop);
  out.include_stop = in.boolean("include_stop_str_in_output").value_or(false);
  out.ignore_eos = in.boolean("ignore_eos").value_or(false);
  const json* ids = in.find("stop_token_ids");
  if (ids == nullptr) return;
  if (!ids->is_array()) return in.wrong_type("stop_token_ids", "a list of token ids", *ids);
  if (ids->size() > kMaxStopIds) {
    return in.fail("stop_token_ids", fmt::format("stop_token_ids: at most {}, got {}", kMaxStopIds, ids->size()));
  }
  out.stop_token_ids = read_ids(in, "stop_token_ids", *ids, limits.vocab_size).value_or(std::vector<int32_t>());
}

void read_beams(Fields& in, GenerationFields& out) {
  const bool search = in.boolean("use_beam_search").value_or(false);
  out.beam.length_penalty = static_cast<float>(in.number("length_penalty", -10, 10).value_or(1));
  out.beam.early_stopping = in.boolean("early_stopping").value_or(false);
  if (!search) {
    if (out.beam.length_penalty != 1.0f) in.fail("length_penalty", "length_penalty: needs use_beam_search: true");
    if (out.beam.early_stopping) in.fail("early_stopping", "early_stopping: needs use_beam_search: true");
    return;
  }
  out.beam.width = out.best_of;
  if (out.best_of > engine::kMaxBeams) {
    in.fail(in.find("best_of") != nullptr ? "best_of" : "n",
            fmt::format("use_beam_search: at most {} beams, as many as best_of or else n says, got {}", engine::kMaxBeams,
                        out.best_of));
  }
}

// What has no meaning together.
void refuse_pairs(Fields& in, const GenerationFields& fields) {
  const engine::SamplingParams& sampling = fields.sampling;
  const bool beams = fields.beam.width > 0, ranked = fields.best_of > fields.n && !beams;
  constexpr const char* kPure = "beams are ranked by the model's own probabilities, and nothing is drawn";
  const struct {
    const char *name, *other;
    bool both;
    const char* why;
  } pairs[] = {
      {"best_of", "stream", ranked && fields.stream, "which choices are the best is known at their end"},
      {"best_of", "max_tokens: 0", ranked && fields.max_tokens == 0, "choices without tokens have no rank"},
      {"prompt_logprobs", "stream", fields.prompt_logprobs && fields.stream, "they are a field of the whole answer"},
      {"stop", "use_beam_search", beams && !fields.stop.empty(), "beams are compared as token ids; stop_token_ids end them"},
      {"temperature", "use_beam_search", beams && sampling.temperature != 0.0f && sampling.temperature != 1.0f, kPure},
      {"top_p", "use_beam_search", beams && sampling.top_p != 1.0f, kPure},
      {"top_k", "use_beam_search", beams && sampling.top_k != 0, kPure},
      {"min_p", "use_beam_search", beams && sampling.min_p != 0.0f, kPure},
      {"typical_p", "use_beam_search", beams && sampling.typical_p != 1.0f, kPure},
      {"repetition_penalty", "use_beam_search", beams && sampling.repetition_penalty != 1.0f, kPure},
      {"frequency_penalty", "use_beam_search", beams && sampling.frequency_penalty != 0.0f, kPure},
      {"presence_penalty", "use_beam_search", beams && sampling.presence_penalty != 0.0f, kPure},
      {"logit_bias", "use_beam_search", beams && !sampling.logit_bias.empty(), kPure},
      {"bad_words", "use_beam_search", beams && !fields.bad_words.empty(), kPure},
  };
  for (const auto& pair : pairs) {
    if (pair.both) in.fail(pair.name, fmt::format("{} and {}: have no meaning together: {}", pair.name, pair.other, pair.why));
  }
}

void read_common(Fields& in, const ParseLimits& limits, bool echo, GenerationFields& out) {
  if (!in.ok()) return;
  const auto model = in.string("model");
  if (!model) in.fail("model", "model: missing; GET /v1/models lists what is served");
  out.model = model.value_or("");
  read_limits(in, limits, echo, out);
  read_sampling(in, out.sampling);
  read_logit_bias(in, limits.vocab_size, out.sampling.logit_bias);
  read_bad_words(in, out.bad_words);
  read_beams(in, out);
  read_stream(in, out);
  read_ends(in, limits, out);
  if (const auto listed = in.integer("prompt_logprobs", 0, kMaxTopLogprobs)) {
    out.prompt_logprobs = static_cast<int32_t>(*listed);
  }
  if (const auto salt = in.string("cache_salt")) {
    if (salt->empty() || salt->size() > kMaxSaltBytes) {
      in.fail("cache_salt", fmt::format("cache_salt: must have 1 to {} bytes, got {}", kMaxSaltBytes, salt->size()));
    }
    out.cache_salt = *salt;
  }
  refuse_unsupported(in);
  refuse_pairs(in, out);
}

// A message's content as one string. Parts of text are joined by line ends.
std::string read_content(Fields& in, const std::string& at, const json& message, const std::string& role) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) {
    in.fail(at + ".content", fmt::format("{}.content: missing in a message with role \"{}\"", at, role));
    return {};
  }
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) {
    in.wrong_type(at + ".content", "a string or a list of parts", *found);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < found->size(); ++i) {
    const json& part = (*found)[i];
    const std::string place = fmt::format("{}.content[{}]", at, i);
    if (!part.is_object() || !part.contains("type")) {
      in.wrong_type(place, "an object with a type", part);
    } else if (part["type"] != "text") {
      in.fail(place,
              fmt::format("{}: parts of type {} are not supported; this model reads text", place,
                          shown(part["type"])),
              "unsupported_parameter");
    } else if (!part.contains("text") || !part["text"].is_string()) {
      in.wrong_type(place + ".text", "a string", part.value("text", json()));
    } else {
      if (i > 0) text += '\n';
      text += part["text"].get<std::string>();
    }
    if (!in.ok()) break;
  }
  return text;
}

std::string read_messages(Fields& in) {
  const json* list = in.find("messages");
  if (list == nullptr) {
    in.fail("messages", "messages: missing");
    return {};
  }
  if (!list->is_array() || list->empty()) {
    in.wrong_type("messages", "a list with at least one message", *list);
    return {};
  }
  json messages = json::array();
  for (size_t i = 0; i < list->size() && in.ok(); ++i) {
    const json& message = (*list)[i];
    const std::string at = fmt::format("messages[{}]", i);
    if (!message.is_object()) {
      in.wrong_type(at, "an object with role and content", message);
      break;
    }
    if (!message.contains("role") || !message["role"].is_string()) {
      in.fail(at + ".role", fmt::format("{}.role: missing or not a string", at));
      break;
    }
    std::string role = message["role"].get<std::string>();
    if (role == "developer") role = "system";  // its newer name
    if (role == "tool" || role == "function" ||
        (message.contains("tool_calls") && !message["tool_calls"].is_null())) {
      in.fail(at, fmt::format("{}: tool calls are not supported yet", at), "unsupported_parameter");
      break;
    }
    if (role != "system" && role != "user" && role != "assistant") {
      in.fail(at + ".role",
              fmt::format("{}.role: must be system, user or assistant, got {}", at, shown(message["role"])));
      break;
    }
    json clean = {{"role", role}, {"content", read_content(in, at, message, role)}};
    if (message.contains("name") && message["name"].is_string()) clean["name"] = message["name"];
    messages.push_back(std::move(clean));
  }
  return in.ok() ? messages.dump() : std::string();
}

// Texts, each as a string or as token ids: one, or a list of up to `most`.
void read_texts(Fields& in, const char* name, size_t most, int32_t vocab_size, std::vector<Prompt>& texts) {
  const json* value = in.find(name);
  if (value == nullptr) return in.fail(name, fmt::format("{}: missing", name));
  if (value->is_string()) {
    texts.emplace_back(value->get<std::string>());
    return;
  }
  if (!value->is_array() || value->empty()) {
    return in.wrong_type(name, "a string, a list of strings, a list of token ids, or a list of such lists", *value);
  }
  if (value->front().is_number()) {
    if (auto ids = read_ids(in, name, *value, vocab_size)) texts.emplace_back(std::move(*ids));
    return;
  }
  if (value->size() > most) {
    return in.fail(name, fmt::format("{}: at most {} in one request, got {}", name, most, value->size()));
  }
  for (const json& item : *value) {
    if (item.is_string()) {
      texts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      auto ids = read_ids(in, name, item, vocab_size);
      if (!ids) return;
      texts.emplace_back(std::move(*ids));
    } else {
      return in.wrong_type(name, "a string or a list of token ids in each place", item);
    }
  }
}

// Each input has something to embed.
void check_inputs(Fields& in, const std::vector<Prompt>& inputs) {
  for (size_t i = 0; i < inputs.size() && in.ok(); ++i) {
    const bool empty = std::visit([](const auto& input) { return input.empty(); }, inputs[i]);
    if (empty) in.fail("input", fmt::format("input[{}]: must not be empty", i));
  }
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const ParseLimits& limits) {
  Fields in(body);
  ChatRequest out;
  read_common(in, limits, false, out.fields);
  if (!in.ok()) return tl::unexpected(in.error());
  out.messages_json = read_messages(in);
  out.allow_special = in.boolean("allow_special");
  const auto top = in.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (in.boolean("logprobs").value_or(false)) {
    out.fields.logprobs = static_cast<int32_t>(top.value_or(0));
  } else if (top) {
    in.fail("top_logprobs", "top_logprobs: needs logprobs: true");
  }
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const ParseLimits& limits) {
  Fields in(body);
  CompletionRequest out;
  out.echo = in.boolean("echo").value_or(false);
  read_common(in, limits, out.echo, out.fields);
  if (!in.ok()) return tl::unexpected(in.error());
  read_texts(in, "prompt", static_cast<size_t>(limits.max_choices), limits.vocab_size, out.prompts);
  out.allow_special = in.boolean("allow_special").value_or(true);
  if (const auto logprobs = in.integer("logprobs", 0, kMaxTopLogprobs))
    out.fields.logprobs = static_cast<int32_t>(*logprobs);
  if (static_cast<int64_t>(out.prompts.size()) * out.fields.best_of > limits.max_choices) {
    const char* name = out.fields.best_of > out.fields.n ? "best_of" : "n";
    in.fail(name, fmt::format("{}: {} prompts times {} choices are more than the {} choices that one request may have", name,
                              out.prompts.size(), out.fields.best_of, limits.max_choices));
  }
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

ApiResult<EmbeddingRequest> parse_embedding_request(std::string_view body, const ParseLimits& limits) {
  Fields in(body);
  EmbeddingRequest out;
  const auto model = in.string("model");
  if (!model) in.fail("model", "model: missing; GET /v1/models lists what is served");
  out.model = model.value_or("");
  if (in.ok()) read_texts(in, "input", engine::kMaxInputs, limits.vocab_size, out.inputs);
  check_inputs(in, out.inputs);
  const std::string format = in.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    in.fail("encoding_format", fmt::format("encoding_format: must be float or base64, got \"{}\"", format.substr(0, 80)));
  }
  out.base64 = format == "base64";
  out.dimensions = in.integer("dimensions", 1, limits.embedding_size);
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

namespace {

// Templates write dicts in the order of their keys, which `Fields` does not keep.
using Ordered = nlohmann::ordered_json;

// Parts of text become one string, as in a chat; other parts stay, for templates that know them.
void join_text_parts(Ordered& content) {
  std::string text;
  for (const Ordered& part : content) {
    if (!part.is_object() || part.value("type", Ordered()) != "text" || !part.value("text", Ordered()).is_string()) return;
    if (!text.empty()) text += '\n';
    text += part["text"].get<std::string>();
  }
  content = std::move(text);
}

// OpenAI's clients send arguments as a string of JSON; templates want the object.
void read_arguments(Ordered& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Ordered& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Ordered& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const std::string text = function["arguments"].get<std::string>();
    if (too_large(text)) continue;
    Ordered arguments = Ordered::parse(text, nullptr, false);
    if (arguments.is_object()) function["arguments"] = std::move(arguments);
  }
}

TemplateRequest read_template(Fields& in, std::string_view body) {
  TemplateRequest out;
  out.model = in.string("model").value_or("");
  in.unsupported_unless("chat_template", {""});
  in.unsupported_unless("continue_final_message", {false});
  const auto generation = in.boolean("add_generation_prompt");
  if (!in.ok()) return out;
  Ordered object = Ordered::parse(body);
  Ordered& messages = object["messages"];
  if (!messages.is_array() || messages.empty()) {
    in.fail("messages", "messages: missing, or not a list with at least one message");
    return out;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    Ordered& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      in.fail("messages", fmt::format("messages[{}]: must be an object with a role, a string", i));
      return out;
    }
    if (message["role"] == "developer") message["role"] = "system";  // its newer name
    if (message.contains("content") && message["content"].is_array()) join_text_parts(message["content"]);
    read_arguments(message);
  }
  Ordered extra = Ordered::object();
  if (const json* given = in.find("chat_template_kwargs")) {
    if (!given->is_object()) in.wrong_type("chat_template_kwargs", "an object", *given);
    extra = std::move(object["chat_template_kwargs"]);
  }
  for (const char* name : {"tools", "documents"}) {
    const json* given = in.find(name);
    if (given == nullptr) continue;
    if (!given->is_array()) in.wrong_type(name, "a list", *given);
    if (!given->empty()) extra[name] = std::move(object[name]);
  }
  if (generation) extra["add_generation_prompt"] = *generation;
  if (!in.ok()) return out;
  out.messages_json = messages.dump();
  out.extra_json = extra.dump();
  return out;
}

}  // namespace

ApiResult<TemplateRequest> parse_template_request(std::string_view body) {
  Fields in(body);
  TemplateRequest out = read_template(in, body);
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body) {
  Fields in(body);
  TokenizeRequest out;
  out.model = in.string("model").value_or("");
  out.allow_special = in.boolean("allow_special");
  out.return_strings = in.boolean("return_token_strs").value_or(false);
  out.with_pieces = in.boolean("with_pieces").value_or(false);
  if (in.find("messages") != nullptr) {
    out.chat = read_template(in, body);
    if (in.boolean("add_special_tokens").value_or(false)) {
      in.fail("add_special_tokens", "add_special_tokens: with messages, the chat template writes them",
              "unsupported_parameter");
    }
  } else if (auto prompt = in.string("prompt")) {
    out.prompt = std::move(*prompt);
    out.add_special_tokens = in.boolean("add_special_tokens").value_or(true);
  } else if (auto content = in.string("content")) {
    // As llama.cpp's server has it.
    out.prompt = std::move(*content);
    out.add_special_tokens = in.boolean("add_special").value_or(false);
    if (!out.allow_special) out.allow_special = in.boolean("parse_special");
  } else {
    in.fail("prompt", "prompt: missing; send prompt (a string), content (a string) or messages");
  }
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

ApiResult<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ParseLimits& limits) {
  Fields in(body);
  DetokenizeRequest out;
  out.model = in.string("model").value_or("");
  const json* tokens = in.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    in.fail("tokens", "tokens: missing or not a list of token ids");
  } else if (auto ids = read_ids(in, "tokens", *tokens, limits.vocab_size)) {
    out.tokens = std::move(*ids);
  }
  if (!in.ok()) return tl::unexpected(in.error());
  return out;
}

}  // namespace headrace::server

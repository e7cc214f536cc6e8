#pragma once
// What is sent: prompts of random words with a given number of tokens, prefixes that several prompts share, and the JSON around
// them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/endpoint.h"

namespace headrace::load {

struct Lengths {
  std::vector<int32_t> prompt, output;  // as many of each; requests walk through them, from the front again at the end
};
// {"prompt": [...], "output": [...]}: whole numbers of at least 1. Errors: not_found, malformed.
Result<Lengths> read_lengths(const std::string& path);

enum class Api : uint8_t { completions, chat };

struct PromptOptions {
  Api api = Api::completions;
  std::string model;
  Lengths lengths;
  int32_t shared_prefix = 0;  // tokens in front of each prompt, beside its length
  int32_t num_prefixes = 1;   // so many different ones
  double temperature = 0;
  bool ignore_eos = true;
  std::string extra_body;  // a JSON object whose fields are set last; "": none
  uint64_t seed = 0;
};

// How prompts get their number of tokens.
enum class PromptKind : uint8_t {
  counted_words,  // words that the server's /tokenize has counted
  ids,            // lists of token ids
  guessed_words,  // words, scaled by what one request's usage said
};
const char* prompt_kind_name(PromptKind kind);

// A pure function of (options, number) once it is made: a run can be repeated, and no prompt lies in memory before it is sent.
class Prompts {
 public:
  // Asks the server: its /tokenize, else two short requests. Errors: those of call(); invalid_argument for an extra_body that
  // is no object; unavailable when the server answers nothing that can be used.
  static Result<std::unique_ptr<Prompts>> make(const Endpoint& endpoint, PromptOptions options, double timeout_s);

  std::string body(int64_t number) const;
  int32_t prompt_tokens(int64_t number) const;
  int32_t output_tokens(int64_t number) const;
  PromptKind kind() const { return kind_; }
  const std::string& note() const { return note_; }  // what a person should know of the lengths; often empty

  // For tests, and for what make() finds out.
  struct Word {
    std::string text;
    int32_t tokens = 1;  // after a space
    int32_t first = 1;   // at the beginning
  };
  Prompts(PromptOptions options, PromptKind kind, std::vector<Word> words, int32_t special_tokens, double words_per_token);
  // Words of `tokens` tokens, different for every `salt`.
  std::string text(int32_t tokens, uint64_t salt) const;

 private:
  std::string ids_json(int64_t number) const;
  std::string body_of(const std::string& prompt_json, int32_t output) const;
  std::string counted_text(int32_t tokens, uint64_t salt) const;

  const PromptOptions options_;
  const PromptKind kind_;
  const std::vector<Word> words_;
  const int32_t special_tokens_;  // that the tokenizer adds to a raw prompt
  const double words_per_token_;
  std::string head_, tail_;  // of the body, around prompt and max_tokens
  std::vector<std::string> prefixes_;
  std::string note_;
};

// The name of the first model that the server lists. Errors: those of call(); unavailable.
Result<std::string> first_model(const Endpoint& endpoint, double timeout_s);
inline const char* path_of(Api api) {
  return api == Api::chat ? "/v1/chat/completions" : "/v1/completions";
}

}  // namespace headrace::load

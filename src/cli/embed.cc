// `headrace embed`: texts to vectors, one a line.
#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "engine/embedding.h"
#include "text/utf8.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace embed - turn texts into vectors\n\n"
    "Prints one JSON array a text, in order, on a line of its own; on a terminal a short form. Without TEXT\n"
    "every line of standard input is a text. A text that is longer than the model takes is cut.";
constexpr std::string_view kExamples =
    "  headrace embed minilm 'What is a mill race?'\n"
    "  headrace embed minilm < sentences.txt > vectors.jsonl\n"
    "  headrace embed minilm --json --dimensions 128 'one text' 'another'\n";

constexpr size_t kBatch = 256;       // texts that go to the engine together
constexpr size_t kShownNumbers = 6;  // on a terminal

struct EmbedOptions {
  ModelOptions model;
  std::vector<std::string> texts;
  int64_t dimensions = 0;
  bool json = false;
};

std::string numbers(const std::vector<float>& vector) { return fmt::format("[{}]", fmt::join(vector, ",")); }

void print_json(const std::string& text, const std::vector<float>& vector, size_t tokens) {
  const std::string shown = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fmt::print("{{\"text\":{},\"tokens\":{},\"embedding\":{}}}\n", shown, tokens, numbers(vector));
}

// "0.0123 -0.0456 ... (384)  What is a mill race?"
void print_short(const std::string& text, const std::vector<float>& vector) {
  std::string line;
  for (size_t i = 0; i < vector.size() && i < kShownNumbers; ++i) line += fmt::format("{:7.4f} ", vector[i]);
  fmt::print("{}{}({})  {}\n", line, vector.size() > kShownNumbers ? "... " : "", vector.size(),
             printable(std::string_view(text).substr(0, 200)));
}

// Embeds `texts` and prints their lines.
Status embed_batch(engine::ServingModel& model, const EmbedOptions& options, std::span<const std::string> texts) {
  std::vector<std::vector<int32_t>> inputs;
  std::vector<size_t> tokens;
  for (const std::string& text : texts) {
    HR_ASSIGN_OR_RETURN(std::vector<int32_t> ids, model.encode_input(text));
    tokens.push_back(ids.size());
    inputs.push_back(std::move(ids));
  }
  HR_ASSIGN_OR_RETURN(engine::Embeddings out, engine::embed(model.engine(), std::move(inputs)));
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<float>& vector = out.vectors[i];
    if (options.dimensions > 0) engine::shorten(vector, options.dimensions);
    if (options.json) {
      print_json(texts[i], vector, tokens[i]);
    } else if (terminal) {
      print_short(texts[i], vector);
    } else {
      fmt::print("{}\n", numbers(vector));
    }
  }
  std::fflush(stdout);
  return {};
}

Status embed_input(engine::ServingModel& model, const EmbedOptions& options) {
  std::vector<std::string> batch;
  std::string line;
  for (bool more = true; more;) {
    more = static_cast<bool>(std::getline(std::cin, line));
    if (more) batch.push_back(line);
    // A program that sends line by line waits for each answer.
    const bool waits = std::cin.rdbuf()->in_avail() <= 0;
    if (batch.empty() || (more && !waits && batch.size() < kBatch)) continue;
    HR_RETURN_IF_ERROR(embed_batch(model, options, batch));
    if (std::ferror(stdout) != 0) return make_status(Code::cancelled, "standard output is closed");
    batch.clear();
  }
  return {};
}

}  // namespace

Status embed_command(const std::vector<std::string>& args) {
  Options options("embed", kAbout, kExamples);
  EmbedOptions embed;
  embed.model.declare_model(options);
  options.positionals(embed.texts, "TEXT", "What to embed; without it, each line of standard input");
  options.integer(embed.dimensions, "--dimensions", "N", "Keep the first N numbers, scaled to length 1 (all)", 1, 1 << 20);
  options.flag(embed.json, "--json", "Print {\"text\", \"tokens\", \"embedding\"} a line");
  embed.model.declare_engine(options, {"--kv-tokens", "--kv-dtype"});
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  for (const std::string& text : embed.texts) {
    if (!text::is_valid_utf8(text)) return make_status(Code::invalid_argument, "TEXT: want valid UTF-8, got bytes that are not");
  }

  HR_ASSIGN_OR_RETURN(const std::unique_ptr<engine::ServingModel> model, open_model(embed.model));
  const int64_t size = model->card().embedding_size;
  if (size == 0) {
    return make_status(Code::unsupported, "{}: a {} model generates text and makes no embeddings; see `headrace run`",
                       embed.model.path, model->card().model_type);
  }
  if (embed.dimensions > size) {
    return make_status(Code::invalid_argument, "--dimensions: want 1 to {}, got {}", size, embed.dimensions);
  }
  if (!model->has_tokenizer()) {
    return make_status(Code::not_found, "{}: no vocabulary in the file, and no tokenizer.json beside it", embed.model.path);
  }
  if (embed.texts.empty()) {
    std::ios::sync_with_stdio(false);
    return embed_input(*model, embed);
  }
  return embed_batch(*model, embed, embed.texts);
}

}  // namespace headrace::cli

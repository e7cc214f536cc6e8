// make_corpus DIR TESTS: writes the seeds of the fuzz targets into DIR, each target's into the folder of its name: small
// valid files that together hold every metadata type, tensor format, dtype and kind of configuration value. Templates
// and their variables come from the folder TESTS of the repository.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/format.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// The parts of a GGUF file, appended in the file's order.
class Gguf {
 public:
  explicit Gguf(uint32_t version = 3, uint64_t alignment = 32) : version_(version), alignment_(alignment) {}

  template <class T>
  Gguf& scalar(std::string_view key, uint32_t type, T value) {
    entry(key, type);
    put(entries_, value);
    return *this;
  }
  Gguf& string(std::string_view key, std::string_view value) {
    entry(key, 8);
    text(entries_, value);
    return *this;
  }
  Gguf& strings(std::string_view key, const std::vector<std::string>& values) {
    array(key, 8, values.size());
    for (const std::string& value : values) text(entries_, value);
    return *this;
  }
  template <class T>
  Gguf& numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    array(key, type, values.size());
    for (const T value : values) put(entries_, value);
    return *this;
  }
  Gguf& nested(std::string_view key) {
    array(key, 9, 2);
    for (uint32_t i = 0; i < 2; ++i) {
      put<uint32_t>(entries_, 5);
      put<uint64_t>(entries_, 1);
      put<uint32_t>(entries_, i);
    }
    return *this;
  }
  Gguf& tensor(std::string_view name, const std::vector<uint64_t>& dims, Format format) {
    text(infos_, name);
    put<uint32_t>(infos_, static_cast<uint32_t>(dims.size()));
    uint64_t elements = 1;
    for (const uint64_t dim : dims) {
      put(infos_, dim);
      elements *= dim;
    }
    put<uint32_t>(infos_, static_cast<uint32_t>(format_info(format).gguf_type));
    put<uint64_t>(infos_, data_.size());
    const uint64_t bytes = format_bytes(format, elements).value();
    for (uint64_t i = 0; i < bytes; ++i) data_ += static_cast<char>(i * 37 % 61);
    pad(data_);
    ++num_tensors_;
    return *this;
  }
  std::string bytes() const {
    std::string out = "GGUF";
    put(out, version_);
    put(out, num_tensors_);
    put(out, num_entries_);
    out += entries_;
    out += infos_;
    if (num_tensors_ > 0) pad(out);
    return out + data_;
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void text(std::string& out, std::string_view value) {
    put<uint64_t>(out, value.size());
    out += value;
  }
  void entry(std::string_view key, uint32_t type) {
    text(entries_, key);
    put(entries_, type);
    ++num_entries_;
  }
  void array(std::string_view key, uint32_t element, uint64_t count) {
    entry(key, 9);
    put(entries_, element);
    put(entries_, count);
  }
  void pad(std::string& out) const {
    out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
  }

  uint32_t version_;
  uint64_t alignment_;
  uint64_t num_tensors_ = 0, num_entries_ = 0;
  std::string entries_, infos_, data_;
};

void add_llama(Gguf& file) {
  file.string("general.architecture", "llama");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, uint32_t>>{{"embedding_length", 32},
                                                     {"block_count", 1},
                                                     {"feed_forward_length", 32},
                                                     {"attention.head_count", 2},
                                                     {"attention.head_count_kv", 1},
                                                     {"context_length", 16},
                                                     {"rope.dimension_count", 16},
                                                     {"rope.scaling.original_context_length", 8}}) {
    file.scalar("llama." + key, 4, value);
  }
  file.scalar("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f).scalar("llama.rope.freq_base", 6, 1e4f);
  file.string("llama.rope.scaling.type", "yarn").scalar("llama.rope.scaling.factor", 6, 4.0f);
  file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm");
  file.strings("tokenizer.ggml.tokens", {"<s>", "</s>", "a", "b", "ab"})
      .strings("tokenizer.ggml.merges", {"a b"});
  file.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 1, 1, 1});
  file.numbers<float>("tokenizer.ggml.scores", 6, {0, 0, -1, -2, -3});
  file.scalar<uint32_t>("tokenizer.ggml.bos_token_id", 4, 0)
      .scalar<uint32_t>("tokenizer.ggml.eos_token_id", 4, 1);
  file.scalar<uint8_t>("tokenizer.ggml.add_bos_token", 7, 1)
      .string("tokenizer.chat_template", "{{ messages }}");
}

void make_gguf(const fs::path& folder) {
  Gguf types;
  types.scalar<uint8_t>("u8", 0, 1)
      .scalar<int8_t>("i8", 1, -1)
      .scalar<uint16_t>("u16", 2, 1)
      .scalar<int16_t>("i16", 3, -1);
  types.scalar<uint32_t>("u32", 4, 1)
      .scalar<int32_t>("i32", 5, -1)
      .scalar("f32", 6, 1.5f)
      .scalar<uint8_t>("bool", 7, 1);
  types.scalar<uint64_t>("u64", 10, 1)
      .scalar<int64_t>("i64", 11, -1)
      .scalar("f64", 12, 0.1)
      .string("string", "text");
  types.strings("strings", {"a", ""})
      .numbers<uint8_t>("bools", 7, {0, 1})
      .numbers<double>("f64s", 12, {1, 2})
      .nested("nested");
  write(folder / "types.gguf", types.bytes());
  for (const FormatInfo& info : all_formats()) {
    if (info.gguf_type < 0) continue;
    Gguf file;
    add_llama(file);
    file.tensor("token_embd.weight", {static_cast<uint64_t>(info.block_elements), 2}, info.format);
    file.tensor("blk.0.attn_q.weight", {static_cast<uint64_t>(info.block_elements)}, info.format);
    write(folder / (std::string(info.name) + ".gguf"), file.bytes());
  }
  Gguf aligned(2, 64);
  aligned.scalar<uint32_t>("general.alignment", 4, 64);
  add_llama(aligned);
  aligned.tensor("rope_freqs.weight", {8}, Format::f32).tensor("output.weight", {32, 5}, Format::q8_0);
  write(folder / "aligned.gguf", aligned.bytes());
}

std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + header + std::string(data_bytes, '\1');
}

void make_safetensors(const fs::path& folder) {
  for (const FormatInfo& info : all_formats()) {
    if (info.safetensors.empty()) continue;
    const size_t bytes = static_cast<size_t>(info.block_bytes) * 6;
    const std::string header = fmt::format(
        R"({{"__metadata__":{{"format":"pt"}},"w":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}},)"
        R"("e":{{"shape":[0],"dtype":"U8","data_offsets":[{},{}],"x":{{"y":[1]}}}}}})",
        info.safetensors, bytes, bytes, bytes);
    write(folder / (std::string(info.name) + ".safetensors"), safetensors(header, bytes));
  }
}

// One file a model of tokenizer.ggml.model.
void make_vocabulary(const fs::path& folder) {
  const auto with = [](const std::string& model, const std::vector<std::string>& tokens,
                       const std::vector<int32_t>& types) {
    Gguf file;
    file.string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", tokens);
    file.numbers<int32_t>("tokenizer.ggml.token_type", 5, types);
    std::vector<float> scores;
    for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
    file.numbers<float>("tokenizer.ggml.scores", 6, scores)
        .scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 4, 0);
    return file;
  };
  for (const char* pre :
       {"gpt-2", "smollm", "llama-bpe", "deepseek-v3", "deepseek-llm", "gpt-4o", "tekken"}) {
    Gguf file = with("gpt2", {"<s>", "a", "b", "ab", "\u0120"}, {3, 1, 1, 1, 1});
    write(folder / (std::string(pre) + ".gguf"),
          file.string("tokenizer.ggml.pre", pre).strings("tokenizer.ggml.merges", {"a b"}).bytes());
  }
  const std::string space = "\u2581";
  write(folder / "llama.gguf",
        with("llama", {"<unk>", "<s>", "a", "b", "ab", space, space + "a", "  ", "<0x0A>"},
             {2, 3, 1, 1, 1, 1, 1, 4, 6})
            .bytes());
  write(
      folder / "bert.gguf",
      with("bert", {"[UNK]", "[CLS]", "[SEP]", space + "a", "b", space + "ab"}, {2, 3, 3, 1, 1, 1}).bytes());
  // A charsmap with one string: the array's units for the root, "a" and its value, then the replacements.
  std::vector<uint8_t> charsmap(4 + 4 * 256);
  charsmap[1] = 4;  // 1024 bytes
  charsmap.insert(charsmap.end(), {'b', 0});
  write(folder / "t5.gguf", with("t5", {"<unk>", "</s>", "a", "b", space, space + "ab"}, {2, 3, 1, 1, 1, 1})
                                .numbers<uint8_t>("tokenizer.ggml.precompiled_charsmap", 0, charsmap)
                                .scalar<uint8_t>("tokenizer.ggml.remove_extra_whitespaces", 7, 1)
                                .scalar<uint8_t>("tokenizer.ggml.add_space_prefix", 7, 1)
                                .bytes());
}

void make_tokenizer_json(const fs::path& folder) {
  const std::string bpe =
      R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":["a b"],"unk_token":"<unk>"})";
  const std::vector<std::string> files = {
      "{" + bpe +
          R"(,"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"post_processor":{"type":"ByteLevel"}})",
      "{" + bpe +
          R"(,"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},)"
          R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},)"
          R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+"},"behavior":"MergedWithNext","invert":false},)"
          R"("added_tokens":[{"id":3,"content":"<unk>","special":true,"lstrip":true}]})",
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5],["ab",-2e0]]},)"
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first"},"decoder":{"type":"Metaspace"}})",
      R"({"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2},"unk_token":"[UNK]"},"normalizer":{"type":"BertNormalizer"},)"
      R"("pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},)"
      R"("post_processor":{"type":"BertProcessing","sep":["b",2],"cls":["a",1]}})",
      R"({"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Sequence",)"
      R"("pretokenizers":[{"type":"Punctuation"},{"type":"Digits"},{"type":"Whitespace"}]},"post_processor":)"
      R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"x"}}],"pair":[],)"
      R"("special_tokens":{"x":{"ids":[1]}}}})",
      "{" + bpe +
          R"(,"normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"},{"type":"Replace","pattern":{"Regex":" +"},"content":"_"},)"
          R"({"type":"ByteLevel"}]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"},)"
          R"({"type":"FixedLength","length":3},{"type":"ByteLevel"}]},"decoder":{"type":"Sequence","decoders":[{"type":"CTC"},)"
          R"({"type":"Replace","pattern":{"Regex":"_"},"content":" "}]},"truncation":{"max_length":4,"stride":1,)"
          R"("strategy":"OnlyFirst","direction":"Left"},"padding":{"strategy":{"Fixed":6},"pad_to_multiple_of":4,)"
          R"("direction":"Left","pad_id":3,"pad_type_id":0,"pad_token":"<unk>"}})"};
  for (size_t i = 0; i < files.size(); ++i) write(folder / fmt::format("{}.json", i), files[i]);
}

void make_config(const fs::path& folder) {
  write(
      folder / "llama.json",
      R"({"model_type":"llama","hidden_size":64,"rms_norm_eps":1e-5,"tie_word_embeddings":true,"eos_token_id":[1,2],)"
      R"("rope_scaling":{"rope_type":"llama3","factor":8.0},"layer_types":["full","window"],"factors":[1,1.5],"pad":null})");
  write(folder / "nested.json",
        R"({"a":{"b":{"c":[]}},"d":[[1],{"e":2}],"f":-9223372036854775808,"g":18446744073709551615})");
}

nlohmann::ordered_json read_json(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return nlohmann::ordered_json::parse(file);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A seed is a template, a NUL and its variables.
void make_template(const fs::path& folder, const fs::path& tests) {
  const auto put = [&](const std::string& name, const std::string& source, const nlohmann::ordered_json& variables) {
    write(folder / name, source + '\0' + variables.dump());
  };
  const auto suite = read_json(tests / "cases/chat_template/cases.json");
  for (const auto& item : suite.at("cases")) {
    put(item.at("id"), item.at("template"), item.at("vars"));
  }
  const auto goldens = read_json(tests / "golden/chat_templates/expected.json");
  for (const auto& [name, rows] : goldens.at("templates").items()) {
    const std::string source = read_text(tests / "golden/chat_templates" / (name + ".jinja"));
    for (const auto& [id, row] : rows.items()) put(name + "_" + id, source, goldens.at("variables").at(id));
  }
  const auto expressions = read_json(tests / "golden/jinja_expressions.json");
  size_t n = 0;
  for (const auto& row : expressions.at("rows")) {
    put(fmt::format("expression_{}", n++), row.at(0), nlohmann::ordered_json::object());
  }
}

// A seed is two bytes that say where the rest, an HTTP response, is cut.
void make_load_stream(const fs::path& folder) {
  const std::string token = R"({"choices":[{"index":0,"text":" a","finish_reason":null}]})";
  const std::string chat = R"({"choices":[{"delta":{"content":"b","tool_calls":[{"function":{"arguments":"{"}}]}}]})";
  const std::string usage = R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}})";
  std::string events, chunks;
  for (const std::string& data : {token, chat, usage, std::string("[DONE]")}) {
    const std::string event = "data: " + data + "\n\n";
    events += event;
    chunks += fmt::format("{:x}\r\n{}\r\n", event.size(), event);
  }
  const std::string head = "\1\20HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  write(folder / "chunked", head + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n");
  write(folder / "length", head + fmt::format("Content-Length: {}\r\n\r\n", events.size()) + events);
  write(folder / "to_close", head + "\r\n" + events);
  write(folder / "error", head + "\r\nid: 1\r\nevent: error\r\ndata: {\"error\":{\"message\":\"x\"}}\r\n\r\n");
}

// The models of the cases, those that must be refused among them.
void make_onnx_model(const fs::path& folder, const fs::path& tests) {
  for (const char* models : {"cases/onnx_ops/files", "cases/onnx_graph/files", "golden/onnx_types", "golden/onnx_models"}) {
    for (const auto& file : fs::directory_iterator(tests / models)) {
      if (file.path().extension() == ".safetensors") continue;
      if (file.file_size() <= 8192) write(folder / file.path().filename(), read_text(file.path()));
    }
  }
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: make_corpus DIR TESTS\n";
    return 2;
  }
  const std::filesystem::path root = argv[1];
  headrace::make_gguf(root / "gguf");
  headrace::make_safetensors(root / "safetensors");
  headrace::make_config(root / "config");
  headrace::make_vocabulary(root / "vocabulary");
  headrace::make_tokenizer_json(root / "tokenizer_json");
  headrace::make_template(root / "template", argv[2]);
  headrace::make_load_stream(root / "load_stream");
  headrace::make_onnx_model(root / "onnx_model", argv[2]);
}

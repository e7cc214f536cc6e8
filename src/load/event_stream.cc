#include "load/event_stream.h"

#include <array>
#include <nlohmann/json.hpp>

namespace headrace::load {
namespace {

constexpr size_t kMaxEvent = 1 << 20;

enum class Key : uint8_t {
  other,
  item,
  choices,
  delta,
  text,
  content,
  reasoning,
  tool_calls,
  role,
  finish_reason,
  usage,
  prompt_tokens,
  completion_tokens,
  prompt_tokens_details,
  cached_tokens,
  error,
  message,
};

Key key_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Key> kKeys[] = {{"choices", Key::choices},
                                                               {"delta", Key::delta},
                                                               {"text", Key::text},
                                                               {"content", Key::content},
                                                               {"reasoning_content", Key::reasoning},
                                                               {"reasoning", Key::reasoning},
                                                               {"tool_calls", Key::tool_calls},
                                                               {"role", Key::role},
                                                               {"finish_reason", Key::finish_reason},
                                                               {"usage", Key::usage},
                                                               {"prompt_tokens", Key::prompt_tokens},
                                                               {"completion_tokens", Key::completion_tokens},
                                                               {"prompt_tokens_details", Key::prompt_tokens_details},
                                                               {"cached_tokens", Key::cached_tokens},
                                                               {"error", Key::error},
                                                               {"message", Key::message}};
  for (const auto& [known, key] : kKeys) {
    if (known == name) return key;
  }
  return Key::other;
}

// Walks the JSON without building it: a stream of tens of thousands of chunks a second is read this way.
class Walker : public nlohmann::json_sax<nlohmann::json> {
 public:
  StreamChunk chunk;
  bool is_object = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t value) override {
    if (value > uint64_t{1} << 40) return true;
    const auto count = static_cast<int64_t>(value);
    if (inside({Key::usage})) {
      if (key_ == Key::prompt_tokens) chunk.prompt_tokens = count;
      if (key_ == Key::completion_tokens) chunk.completion_tokens = count;
    } else if (inside({Key::usage, Key::prompt_tokens_details}) && key_ == Key::cached_tokens) {
      chunk.cached_tokens = count;
    }
    return true;
  }
  bool string(std::string& value) override {
    if (inside({Key::choices, Key::item})) {
      if (key_ == Key::text) saw_text(!value.empty());
      if (key_ == Key::finish_reason) chunk.finished = true;
    } else if (inside({Key::choices, Key::item, Key::delta})) {
      if (key_ == Key::content || key_ == Key::reasoning) saw_text(!value.empty());
      if (key_ == Key::role) role_ = true;
    } else if (depth_ > 4 && path_[1] == Key::choices && path_[3] == Key::delta && path_[4] == Key::tool_calls) {
      if (!value.empty()) chunk.token = true;
    } else if ((inside({}) && key_ == Key::error) || (inside({Key::error}) && key_ == Key::message)) {
      chunk.error = value.substr(0, 1000);
    }
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 0) is_object = true;
    if (inside({}) && key_ == Key::error && !chunk.error) chunk.error = "(no message)";
    return push();
  }
  bool end_object() override { return pop(); }
  bool start_array(size_t) override {
    const bool pushed = push();
    key_ = Key::item;
    return pushed;
  }
  bool end_array() override { return pop(); }
  bool key(std::string& name) override {
    key_ = key_of(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  void finish() {
    if (empty_text_ && !role_ && !chunk.finished) chunk.token = true;
  }

 private:
  static constexpr size_t kMaxDepth = 64;

  // Whether the value at hand lies in the root's object under these keys.
  bool inside(std::initializer_list<Key> keys) const {
    return depth_ == keys.size() + 1 && std::equal(keys.begin(), keys.end(), path_.begin() + 1);
  }
  bool push() {
    if (depth_ == kMaxDepth) return false;
    path_[depth_++] = key_;
    return true;
  }
  bool pop() {
    key_ = path_[--depth_];  // in an array the next value is an item again
    return true;
  }
  void saw_text(bool not_empty) { (not_empty ? chunk.token : empty_text_) = true; }

  std::array<Key, kMaxDepth> path_{};
  size_t depth_ = 0;
  Key key_ = Key::other;
  bool role_ = false, empty_text_ = false;
};

}  // namespace

void EventStream::on_line() {
  std::string_view line = line_;
  if (!line.starts_with("data")) return;
  line.remove_prefix(4);
  if (!line.empty() && line.front() != ':') return;
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

bool EventStream::next(std::string_view& input, std::string_view& data) {
  if (returned_) {
    data_.clear();
    returned_ = has_data_ = false;
  }
  while (!input.empty() && !failed_) {
    if (after_cr_ && input.front() == '\n') input.remove_prefix(1);
    after_cr_ = false;
    size_t end = 0;
    while (end < input.size() && input[end] != '\n' && input[end] != '\r') ++end;
    line_ += input.substr(0, end);
    if (line_.size() + data_.size() > kMaxEvent) {
      failed_ = true;
      return false;
    }
    if (end == input.size()) {
      input = {};
      return false;
    }
    after_cr_ = input[end] == '\r';
    input.remove_prefix(end + 1);
    if (!line_.empty()) {
      on_line();
      line_.clear();
    } else if (has_data_) {
      data = data_;
      returned_ = true;
      return true;
    }
  }
  return false;
}

std::optional<StreamChunk> stream_chunk_of(std::string_view data) {
  if (data == "[DONE]") {
    StreamChunk chunk;
    chunk.done = true;
    return chunk;
  }
  Walker walker;
  if (!nlohmann::json::sax_parse(data.begin(), data.end(), &walker) || !walker.is_object) return std::nullopt;
  walker.finish();
  return std::move(walker.chunk);
}

}  // namespace headrace::load

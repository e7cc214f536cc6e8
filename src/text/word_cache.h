#pragma once
// The tokens of short words that a thread has met, so that most words of a text cost one look-up. 1 MiB a
// thread, shared by the thread's models in turn. Never wrong: a word is found by its bytes and its model's
// number.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "text/model.h"

namespace headrace::text {

class WordCache {
 public:
  static constexpr size_t kMaxWord = 24;  // bytes
  static constexpr size_t kMaxTokens = 7;

  // A number for each model that lives in this process, for find() and keep().
  static uint64_t new_owner() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }
  static WordCache& of_thread() {
    thread_local WordCache cache;
    return cache;
  }

  // Appends the tokens of `word`, which begins at `begin` of the text; false when they are not here.
  bool find(uint64_t owner, std::string_view word, uint32_t begin, std::vector<Token>& out) {
    if (word.size() > kMaxWord || word.empty()) return false;
    const Key key = key_of(word);
    const Entry& entry = entry_of(owner, key, word.size());
    if (entry.length != word.size() || entry.key != key) return false;
    uint32_t at = begin;
    for (uint8_t i = 0; i < entry.count; ++i) {
      const uint32_t end = begin + entry.ends[i];
      out.push_back({entry.ids[i], at, end});
      at = end;
    }
    return true;
  }
  // `tokens` cover the word that begins at `begin`, without gaps.
  void keep(uint64_t owner, std::string_view word, uint32_t begin, const Token* tokens, size_t count) {
    if (word.size() > kMaxWord || count > kMaxTokens || count == 0) return;
    uint32_t at = begin;
    for (size_t i = 0; i < count; at = tokens[i++].end) {
      if (tokens[i].begin != at) return;
    }
    if (at != begin + word.size()) return;
    const Key key = key_of(word);
    Entry& entry = entry_of(owner, key, word.size());
    entry.key = key;
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    for (size_t i = 0; i < count; ++i) {
      entry.ids[i] = tokens[i].id;
      entry.ends[i] = static_cast<uint8_t>(tokens[i].end - begin);
    }
  }

 private:
  using Key = std::array<uint64_t, 3>;  // the word's bytes, then zeros
  struct Entry {
    Key key{};
    std::array<int32_t, kMaxTokens> ids{};
    std::array<uint8_t, kMaxTokens> ends{};
    uint8_t length = 0;  // 0: free
    uint8_t count = 0;
  };
  static_assert(sizeof(Entry) == 64);
  static constexpr size_t kEntries = 16384;

  static Key key_of(std::string_view word) {
    Key key{};
    std::memcpy(key.data(), word.data(), word.size());
    return key;
  }
  Entry& entry_of(uint64_t owner, const Key& key, size_t length) {
    if (owner != owner_) {
      entries_.assign(kEntries, {});
      owner_ = owner;
    }
    uint64_t hash = (key[0] ^ length) * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 32 ^ key[1]) * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 32 ^ key[2]) * 0x9E3779B97F4A7C15;
    return entries_[hash >> 50];
  }

  uint64_t owner_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace headrace::text

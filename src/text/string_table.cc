#include "text/string_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace headrace::text {
namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

uint64_t mix(uint64_t x) {
  x *= kMultiplier;
  return x ^ (x >> 32);
}

uint64_t word_at(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, 8);
  return word;
}

// Up to 7 bytes, filled up with zeros. Those that two loads share are the same in both.
uint64_t tail_of(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  const size_t size = bytes.size();
  if (size >= 4) {
    uint32_t first, last;
    std::memcpy(&first, bytes.data(), 4);
    std::memcpy(&last, bytes.data() + size - 4, 4);
    return first | static_cast<uint64_t>(last) << 8 * (size - 4);
  }
  const auto byte = [&](size_t at) {
    return static_cast<uint64_t>(static_cast<uint8_t>(bytes[at])) << 8 * at;
  };
  return size == 0 ? 0 : byte(0) | byte(size / 2) | byte(size - 1);
}

// Of the arena, behind the header; one at least, so that a place behind the header is always there.
size_t num_words(std::string_view text) {
  return text.size() / 8 + 1;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) hash = mix(hash ^ word_at(bytes.data()));
  return mix(mix(hash ^ tail_of(bytes)));
}

bool StringTable::is_at(uint32_t place, std::string_view text) const {
  if (header_at(place).length != text.size()) return false;
  const uint64_t* word = &arena_[place + 1];
  for (; text.size() >= 8; text.remove_prefix(8)) {
    if (*word++ != word_at(text.data())) return false;
  }
  return *word == tail_of(text);
}

void StringTable::reserve(size_t num_strings, size_t num_bytes) {
  arena_.reserve(num_strings * 2 + num_bytes / sizeof(uint64_t));
  grow(num_strings);
}

void StringTable::grow(size_t num_strings) {
  const size_t wanted = std::bit_ceil(num_strings + num_strings / 2 + 16);
  if (wanted <= slots_.size()) return;
  slots_.assign(wanted, {});
  for (size_t place = 0; place < arena_.size();) {
    const std::string_view text = text_at(static_cast<uint32_t>(place));
    const uint64_t hash = hash_bytes(text);
    size_t slot = hash & (wanted - 1);
    while (slots_[slot].place != kNone) slot = (slot + 1) & (wanted - 1);
    slots_[slot] = {static_cast<uint32_t>(place), static_cast<uint32_t>(hash >> 32)};
    place += 1 + num_words(text);
  }
}

uint32_t StringTable::insert_hashed(std::string_view text, uint64_t hash, int32_t id) {
  if (find_hashed(text, hash) >= 0) return kNone;
  if ((size_ + 1) * 3 > slots_.size() * 2) grow((size_ + 1) * 2);
  const size_t place = arena_.size();
  CHECK(num_bytes() + text.size() <= kMaxBytes);
  arena_.resize(place + 1 + num_words(text));
  arena_[place] = std::bit_cast<uint64_t>(Header{static_cast<uint32_t>(text.size()), id});
  std::memcpy(&arena_[place + 1], text.data(), text.size());
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].place != kNone) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {static_cast<uint32_t>(place), static_cast<uint32_t>(hash >> 32)};
  ++size_;
  return static_cast<uint32_t>(place);
}

int32_t StringTable::find_hashed(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t slot = hash & (slots_.size() - 1); slots_[slot].place != kNone;
       slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag == tag && is_at(slots_[slot].place, text)) return header_at(slots_[slot].place).id;
  }
  return -1;
}

// Each stage asks for what the next one of 64 look-ups needs.
void StringTable::find_each(std::span<const std::string_view> texts, std::span<int32_t> ids) const {
  constexpr size_t kBatch = 64;
  uint64_t hashes[kBatch];
  if (slots_.empty()) {
    for (int32_t& id : ids) id = -1;
    return;
  }
  const auto slot_of = [&](size_t i) { return slots_[hashes[i] & (slots_.size() - 1)]; };
  for (size_t begin = 0; begin < texts.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, texts.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_bytes(texts[begin + i]);
      __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
    }
    for (size_t i = 0; i < n; ++i) {
      if (slot_of(i).place != kNone) __builtin_prefetch(&arena_[slot_of(i).place]);
    }
    for (size_t i = 0; i < n; ++i) ids[begin + i] = find_hashed(texts[begin + i], hashes[i]);
  }
}

}  // namespace headrace::text

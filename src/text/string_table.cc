#include "text/string_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace headrace::text {
namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

uint64_t mix(uint64_t x) {
  x *= kMultiplier;
  return x ^ (x >> 32);
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word);
    bytes.remove_prefix(8);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data(), bytes.size());
  return mix(mix(hash ^ tail));
}

void StringTable::reserve(size_t num_strings, size_t num_bytes) {
  entries_.reserve(num_strings);
  bytes_.reserve(num_bytes);
  grow(num_strings);
}

void StringTable::grow(size_t num_strings) {
  const size_t wanted = std::bit_ceil(num_strings + num_strings / 2 + 16);
  if (wanted <= slots_.size()) return;
  slots_.assign(wanted, {});
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const uint64_t hash = hash_bytes(text_of(entries_[i]));
    size_t slot = hash & (wanted - 1);
    while (slots_[slot].entry != kFree) slot = (slot + 1) & (wanted - 1);
    slots_[slot] = {i, static_cast<uint32_t>(hash >> 32)};
  }
}

bool StringTable::insert(std::string_view text, int32_t id) {
  return insert_hashed(text, hash_bytes(text), id);
}

bool StringTable::insert_hashed(std::string_view text, uint64_t hash, int32_t id) {
  if (find_hashed(text, hash) >= 0) return false;
  if ((entries_.size() + 1) * 3 > slots_.size() * 2) grow((entries_.size() + 1) * 2);
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].entry != kFree) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {static_cast<uint32_t>(entries_.size()), static_cast<uint32_t>(hash >> 32)};
  entries_.push_back({bytes_.size(), static_cast<uint32_t>(text.size()), id});
  bytes_ += text;
  return true;
}

int32_t StringTable::find(std::string_view text) const {
  return find_hashed(text, hash_bytes(text));
}

int32_t StringTable::find_hashed(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t slot = hash & (slots_.size() - 1); slots_[slot].entry != kFree;
       slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag != tag) continue;
    const Entry& entry = entries_[slots_[slot].entry];
    if (text_of(entry) == text) return entry.id;
  }
  return -1;
}

// A look-up waits for memory three times: its slot, the entry, the entry's bytes. Each stage asks for what the next one
// of 64 look-ups needs.
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
      if (slot_of(i).entry != kFree) __builtin_prefetch(&entries_[slot_of(i).entry]);
    }
    for (size_t i = 0; i < n; ++i) {
      if (slot_of(i).entry != kFree) __builtin_prefetch(bytes_.data() + entries_[slot_of(i).entry].begin);
    }
    for (size_t i = 0; i < n; ++i) ids[begin + i] = find_hashed(texts[begin + i], hashes[i]);
  }
}

}  // namespace headrace::text

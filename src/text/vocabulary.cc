#include "text/vocabulary.h"

namespace headrace::text {

Status Vocabulary::add(std::string_view token, int64_t id) {
  return add_hashed(token, hash_bytes(token), id);
}

Status Vocabulary::add_hashed(std::string_view token, uint64_t hash, int64_t id) {
  if (id < 0 || id > kMaxId) {
    return make_status(Code::malformed, "vocabulary: token \"{}\": want an id from 0 to {}, got {}", token,
                       kMaxId, id);
  }
  const auto id32 = static_cast<int32_t>(id);
  if (has(id32)) {
    return make_status(Code::malformed, "vocabulary: id {} is given to both \"{}\" and \"{}\"", id,
                       text(id32), token);
  }
  if (token.size() > StringTable::kMaxBytes - table_.num_bytes()) {
    return make_status(Code::malformed, "vocabulary: id {}: want at most {} bytes of tokens, got {} and {} more", id,
                       StringTable::kMaxBytes, table_.num_bytes(), token.size());
  }
  const uint32_t place = table_.insert_hashed(token, hash, id32);
  if (place == StringTable::kNone) {
    return make_status(Code::malformed, "vocabulary: token \"{}\" is there twice, with ids {} and {}", token,
                       table_.find(token), id);
  }
  if (id32 >= size()) place_of_.resize(id + 1, StringTable::kNone);
  place_of_[id] = place;
  return {};
}

}  // namespace headrace::text

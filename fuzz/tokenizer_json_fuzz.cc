// tokenizer.json: loads any bytes, then encodes and decodes with what loads.
#include <cstdlib>
#include <string_view>

#include "reached.h"
#include "use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("encoding");
  reached.input();
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = text::Tokenizer::from_tokenizer_json(json);
  if (!tokenizer) {
    if (tokenizer.error().message().empty()) std::abort();
    return 0;
  }
  reached.hit();
  fuzz::use(**tokenizer, json);
  return 0;
}

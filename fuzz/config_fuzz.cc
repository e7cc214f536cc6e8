// config.json: flattens any text, then asks for keys as a model does, through the source of dummy weights.
#include <cstdlib>
#include <string_view>

#include "io/config_map.h"
#include "reached.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("values");
  reached.input();
  const Result<io::ConfigMap> config =
      io::ConfigMap::from_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config) {
    if (config.error().message().empty()) std::abort();
    return 0;
  }
  if (!config->values().empty()) reached.hit();
  for (const auto& [key, value] : config->values()) {
    const Result<int64_t> whole = config->get_int(key, -5, 5);
    if (whole && (*whole < -5 || *whole > 5)) std::abort();
    (void)config->get_number(key, 0, 1);
    (void)config->get_string(key);
    (void)config->get_bool_or(key, false);
  }
  return 0;
}

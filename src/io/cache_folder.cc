#include "io/cache_folder.h"

#include <cstdlib>

namespace headrace::io {

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return std::string(cache) + "/headrace";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/headrace";
  return "";
}

}  // namespace headrace::io

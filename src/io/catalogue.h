#pragma once
// The models of catalogue.def.

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

struct CatalogueEntry {
  std::string_view name, file, about;
};
std::span<const CatalogueEntry> catalogue();
const CatalogueEntry* find_in_catalogue(std::string_view name);
std::string catalogue_names();  // "smollm2, gemma3-270m, minilm"

// Where the entry's file or folder lies: below XDG_CACHE_HOME, or ~/.cache. Errors: not_found, with the command that fetches it.
Result<std::string> locate(const CatalogueEntry& entry);

}  // namespace headrace::io

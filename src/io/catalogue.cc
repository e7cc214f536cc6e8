// The catalogue's table and where its models lie.
#include "io/catalogue.h"

#include <filesystem>

#include "io/cache_folder.h"

namespace headrace::io {
namespace {

constexpr CatalogueEntry kEntries[] = {
#define HR_CATALOGUE(name, file, about) {name, file, about},
#include "io/catalogue.def"
#undef HR_CATALOGUE
};

}  // namespace

std::span<const CatalogueEntry> catalogue() { return kEntries; }

const CatalogueEntry* find_in_catalogue(std::string_view name) {
  for (const CatalogueEntry& entry : kEntries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string catalogue_names() {
  std::string names;
  for (const CatalogueEntry& entry : kEntries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

Result<std::string> locate(const CatalogueEntry& entry) {
  const std::string folder = cache_folder();
  const std::string path = fmt::format("{}/{}", folder.empty() ? "~/.cache/headrace" : folder, entry.file);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  return error(Code::not_found, "{} ({}) has not been fetched: {} is not there. Fetch it with: python3 scripts/fetch_model.py {}",
               entry.name, entry.about, path, entry.name);
}

}  // namespace headrace::io

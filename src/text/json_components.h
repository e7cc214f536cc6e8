#pragma once
// What every reader of tokenizer.json asks of a component. The file's mistakes reach the caller as exceptions of the JSON library.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headrace::text {

inline std::string type_of(const nlohmann::json& component) { return component.at("type").get<std::string>(); }

// A pre-tokenizer, or where it is a Sequence its parts, and theirs, in order. Nothing for null.
inline void flatten(const nlohmann::json& component, std::vector<const nlohmann::json*>& out) {
  if (component.is_null()) return;
  if (type_of(component) != "Sequence") {
    out.push_back(&component);
    return;
  }
  for (const nlohmann::json& part : component.at("pretokenizers")) flatten(part, out);
}

}  // namespace headrace::text

#pragma once
// From MODEL, as a person writes it, to a path.

#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::cli {

inline constexpr std::string_view kModelHelp =
    "A GGUF file, a folder with config.json, a name of the catalogue (smollm2, gemma3-270m, minilm), or "
    "org/name[:revision][/file.gguf] on a hub";

// `name`: a path that exists, else a name of the catalogue, else a name on a hub, whose files are downloaded with a progress bar on
// standard error; Ctrl-C stops that and keeps what has come. Errors: those of io::locate and io::resolve_hub_model; not_found,
// naming the three ways, for what is none of them.
Result<std::string> resolve_model(const std::string& name);

}  // namespace headrace::cli

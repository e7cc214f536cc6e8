#pragma once
// How a model on a hub is named, and which names that a server gives may become paths on this machine.

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

// org/name[:revision][/file]: `bartowski/SmolLM2-135M-Instruct-GGUF:main/SmolLM2-135M-Instruct-Q4_K_M.gguf`.
struct HubName {
  std::string repo;               // "org/name"
  std::string revision = "main";  // a branch, a tag or a commit; a slash in one is written %2F
  std::string file;               // "" names the repository as a whole
};

// Errors: invalid_argument, with what a hub name looks like.
Result<HubName> parse_hub_name(std::string_view text);

// 40 hexadecimal digits in lower case.
bool is_commit(std::string_view text);

// Whether `path`, which a server gave, is a relative path of plain components that stays below the folder it is put in.
bool is_safe_repo_path(std::string_view path);

// The files of a split GGUF, when `file` is one of them ("x-00002-of-00003.gguf"): base "x", count 3.
struct SplitName {
  std::string base;
  int index = 0, count = 0;
  std::string shard(int number) const;
};
std::optional<SplitName> parse_split_name(std::string_view file);

}  // namespace headrace::io

#pragma once
// A command of the program: one file each, one row in commands.def. `NAME_command` gets what follows the command's name
// on the command line; its error becomes the exit code (base/status.h) and one line on standard error.

#include <string>
#include <vector>

#include "base/status.h"

namespace headrace::cli {

#define HR_COMMAND(name, summary) Status name##_command(const std::vector<std::string>& args);
#include "cli/commands.def"
#undef HR_COMMAND

}  // namespace headrace::cli

#pragma once
// What every plug-in shares: kernels in a shared object that the main program opens at run time and is never linked with.

#include <string>

#include "ops/op.h"

namespace headrace {

struct PluginKernel {
  const char* op;  // the op's name: the plug-in cannot see the main binary's Op objects
  Kernel kernel;   // kernel.op is filled in when it is registered
};

// The folder of the running program.
std::string program_folder();

// Opens `file_name` beside the program, then in ../lib, or at `path` where that is not empty, and returns the address of `entry`.
// `place` becomes the path that was opened. Errors: unavailable with what the loader said, internal without `entry`.
Result<void*> open_plugin(const std::string& file_name, const std::string& path, const char* entry, std::string& place);

// Errors: internal for an op that this program does not know, or another interface than `want_abi`.
Status register_plugin_kernels(const std::string& place, uint32_t abi, uint32_t want_abi, const PluginKernel* kernels, int count);

}  // namespace headrace

#pragma once
// Where Headrace keeps what it can make again.

#include <string>

namespace headrace::io {

// $XDG_CACHE_HOME/headrace, else ~/.cache/headrace; "" where neither is set. It need not be there yet.
std::string cache_folder();

}  // namespace headrace::io

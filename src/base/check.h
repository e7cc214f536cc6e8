#pragma once
// CHECK(condition): aborts with the place and the condition when an invariant of our own is broken. Never for
// what the world can cause (that is a Status).

namespace headrace {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) ::headrace::check_failed(#condition, __FILE__, __LINE__);     \
  } while (false)

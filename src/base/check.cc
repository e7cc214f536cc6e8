#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace headrace {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: this must hold but does not: %s\nThis is a bug in Headrace; please report it.\n",
               file, line, condition);
  std::abort();
}

}  // namespace headrace

#pragma once
// Counts the inputs that got past a parser and prints the share at exit: a fuzz run whose inputs all die in
// the header proves nothing, and scripts/fuzz.sh looks for this line.

#include <cstdint>
#include <cstdio>

namespace headrace::fuzz {

class Reached {
 public:
  explicit Reached(const char* what) : what_(what) {}
  ~Reached() {
    std::fprintf(stderr, "reached %s: %llu of %llu inputs\n", what_, static_cast<unsigned long long>(hits_),
                 static_cast<unsigned long long>(inputs_));
  }
  void input() { ++inputs_; }
  void hit() { ++hits_; }

 private:
  const char* what_;
  uint64_t inputs_ = 0, hits_ = 0;
};

}  // namespace headrace::fuzz

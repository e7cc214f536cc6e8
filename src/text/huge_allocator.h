#pragma once
// Memory for large tables that are looked up at random: in pages of 2 MiB where the system has them. A table of a vocabulary in
// pages of 4 KiB costs thousands of page faults to build and a miss of the address cache a look-up.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace headrace::text {

template <class T>
struct HugeAllocator {
  using value_type = T;
  static constexpr size_t kPage = size_t{2} << 20;

  HugeAllocator() = default;
  template <class Other>
  HugeAllocator(const HugeAllocator<Other>&) {}  // NOLINT: the standard wants it implicit

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);  // std::vector never asks for more than fits
    if (bytes < kPage) return static_cast<T*>(::operator new(bytes));
    const size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, whole);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, whole, MADV_HUGEPAGE);  // small pages do as well
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) {
    if (n * sizeof(T) < kPage) {
      ::operator delete(memory);
    } else {
      std::free(memory);
    }
  }
  bool operator==(const HugeAllocator&) const { return true; }
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace headrace::text

#pragma once
// Compares a kernel's numbers with the reference's.

#include <string>

#include "ops/op.h"

namespace headrace::testing {

// Empty when every element of `got` lies within `tolerance` of `want`; else the first that does not, its
// place and how many others there are. NaN equals NaN; infinities must be equal.
std::string difference(const HostTensor& got, const HostTensor& want, const Tolerance& tolerance);

// Whether two doubles hold the same value bit for bit (NaN equals NaN, -0 does not equal 0).
bool same_bits(double a, double b);

// "[2, 17]" of a flat index.
std::string place_of(const std::vector<int64_t>& dims, int64_t index);

}  // namespace headrace::testing

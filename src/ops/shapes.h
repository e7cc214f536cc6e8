#pragma once
// What the ops of graphs share: shapes by numpy's rule for infer(), and walking tensors of any rank for references and cases.

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace headrace::ops {

// Dims align from the last; of two one is 1 or both are equal. Nothing when they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
std::string shape_text(const Shape& shape);
// "[2, 3]"
std::string list_text(const std::vector<int64_t>& values);
std::string list_text(const std::vector<int32_t>& values);
// The dims when all are constants; nothing when one is not.
std::optional<std::vector<int64_t>> constant_dims(const Shape& shape);
Shape shape_of(const std::vector<int64_t>& dims);

// ---- for references -----------------------------------------------------------------------------

int64_t elements_of(const std::vector<int64_t>& dims);
// In elements; the last is 1.
std::vector<int64_t> packed_strides(const std::vector<int64_t>& dims);
// The element of a tensor with `dims` that stands at place `index` of a tensor with dims `of`, to which it is broadcast.
int64_t broadcast_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& of, int64_t index);
// Place `index` of a tensor with `dims`, by axis.
std::vector<int64_t> place_of(const std::vector<int64_t>& dims, int64_t index);
// Infinity for what a float32 cannot hold.
double in_float32(double value);

// Op::row_alone of ops that broadcast: cuts axis 0 of every input that has the output's rank and row count.
std::vector<HostValue> broadcast_row_alone(std::span<const HostValue> inputs, int64_t row);
// Op::row_alone of ops whose rows cannot stand alone; of copies, which compute nothing that could depend on other rows.
std::vector<HostValue> no_row_alone(const Attrs& attrs, std::span<const HostValue> inputs, int64_t row);

}  // namespace headrace::ops

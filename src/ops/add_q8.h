#pragma once
// add_q8(a u8|i8 [...], b u8|i8 [...]) -> u8|i8 [...]: y = quantize(activation(a's number + b's number)), each of its own scale and zero
// point. a and b have one shape; the activation is none, relu or clip. What residual networks do between two convolutions.

#include "ops/q8.h"

namespace headrace::ops {

struct AddQ8Attrs {
  Quantization a, b, y;
  std::optional<UnaryAttrs> activation;
  bool operator==(const AddQ8Attrs&) const = default;
  std::string describe() const;
};
extern const Op add_q8;
// Whether add_q8 has this function.
bool add_q8_takes(const UnaryAttrs& activation);

}  // namespace headrace::ops

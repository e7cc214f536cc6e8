#pragma once
// What conv, conv_transpose and conv_q8 share: their images, weights and windows as oneDNN's direct convolutions want them.

#include "kernels/onednn/primitive.h"
#include "ops/conv.h"

namespace headrace::onednn {

// Images are [N, H, W, C] in memory and [N, C, H, W] to oneDNN.
inline Desc image(const ValueType& type) {
  const Shape& shape = type.shape;
  return Desc({shape[0].constant(), shape[3].constant(), shape[1].constant(), shape[2].constant()}, type_of(type.dtype), Tag::nhwc);
}

template <bool transpose>
class Convolution : public Product {
 public:
  Convolution(std::span<const ValueType> inputs, const ValueType& output, const ops::ConvAttrs& a, const ops::Epilogue& epilogue)
      : stride_(a.stride.begin(), a.stride.end()) {
    x = image(inputs[0]);
    out = image(output);
    Dims dims = dims_of(inputs[1].shape);
    // A weight for each position: of the output, or of the input that conv_transpose spreads.
    const Dims positions = (transpose ? x : out).get_dims();
    flops = 2.0 * elements(dims) * elements({positions[0], positions[2], positions[3]});
    dims[0] /= a.groups;
    if (transpose) std::swap(dims[0], dims[1]);
    const bool grouped = a.groups != 1;
    if (grouped) dims.insert(dims.begin(), a.groups);
    const Tag tag = transpose ? (grouped ? Tag::giohw : Tag::iohw) : (grouped ? Tag::goihw : Tag::oihw);
    weight = Desc(dims, type_of(inputs[1].dtype), tag);
    if (epilogue.bias) bias = Desc({output.shape[3].constant()}, kF32, Tag::x);
    for (int axis = 0; axis < 2; ++axis) {
      dilation_.push_back(a.dilation[axis] - 1);
      pad_begin_.push_back(a.pads[axis]);
      pad_end_.push_back(a.pads[2 + axis] - a.output_pad[axis]);
    }
  }

  dnnl::primitive_desc describe(const Desc& wanted, bool allow_empty) const override {
    constexpr auto kKind = dnnl::prop_kind::forward_inference;
    if constexpr (transpose) {
      return dnnl::deconvolution_forward::primitive_desc(cpu_engine(), kKind, dnnl::algorithm::deconvolution_direct, x, wanted, bias, out,
                                                         stride_, dilation_, pad_begin_, pad_end_, post.attr, allow_empty);
    } else {
      return dnnl::convolution_forward::primitive_desc(cpu_engine(), kKind, dnnl::algorithm::convolution_direct, x, wanted, bias, out,
                                                       stride_, dilation_, pad_begin_, pad_end_, post.attr, allow_empty);
    }
  }

 private:
  Dims stride_, dilation_, pad_begin_, pad_end_;
};

}  // namespace headrace::onednn

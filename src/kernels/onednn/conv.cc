// conv and conv_transpose by oneDNN's direct convolutions over channels-last images. Constant weights are packed once into the layout
// that the primitive asks for, others at each run.
#include "kernels/onednn/convolution.h"

namespace headrace::onednn {
namespace {

template <bool transpose>
struct ConvOfFloats final : Convolution<transpose> {
  static constexpr const char* kOp = transpose ? "conv_transpose" : "conv";
  static const ops::Epilogue& epilogue_of(const Attrs& attrs) { return attrs.as<ops::ConvAttrs>().epilogue; }
  static int overwrites(const Attrs& attrs) { return residual_of(epilogue_of(attrs)); }

  ConvOfFloats(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs, bool in_place)
      : Convolution<transpose>(inputs, output, attrs.as<ops::ConvAttrs>(), epilogue_of(attrs)) {
    this->post = post_ops(epilogue_of(attrs), 2, 1.0f, std::nullopt, this->out, in_place);
  }
};

}  // namespace

PluginKernel conv_kernel() { return kernel_of<ConvOfFloats<false>>(); }
PluginKernel conv_transpose_kernel() { return kernel_of<ConvOfFloats<true>>(); }

}  // namespace headrace::onednn

// conv and conv_transpose by oneDNN's direct convolutions over channels-last images. Constant weights are packed once into the layout
// that the primitive asks for, others at each run.
#include "kernels/onednn/convolution.h"

namespace headrace::onednn {
namespace {

template <bool transpose>
struct ConvOfFloats final : Convolution<transpose> {
  static constexpr const char* kOp = transpose ? "conv_transpose" : "conv";
  static const ops::Epilogue& epilogue_of(const Attrs& attrs) { return attrs.as<ops::ConvAttrs>().epilogue; }

  ConvOfFloats(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs)
      : Convolution<transpose>(inputs, output, attrs.as<ops::ConvAttrs>(), epilogue_of(attrs)) {
    this->post = post_ops(epilogue_of(attrs), 2, 1.0f, std::nullopt, this->out);
  }
};

}  // namespace

PluginKernel conv_kernel() { return kernel_of<ConvOfFloats<false>>(); }
PluginKernel conv_transpose_kernel() { return kernel_of<ConvOfFloats<true>>(); }

}  // namespace headrace::onednn

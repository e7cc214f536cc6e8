// conv_q8 by oneDNN's 8-bit convolutions over channels-last images. The weight is packed once, with the sums that zero points and signed
// images need; where the machine has no 8-bit dot products oneDNN halves the weights so that its 16-bit sums do not overflow.
#include "ops/conv_q8.h"

#include "kernels/onednn/convolution.h"

namespace headrace::onednn {
namespace {

struct ConvOf8Bits final : Convolution<false> {
  static constexpr const char* kOp = "conv_q8";
  static const ops::Epilogue& epilogue_of(const Attrs& attrs) { return attrs.as<ops::ConvQ8Attrs>().q8.epilogue; }

  ConvOf8Bits(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs, bool)
      : Convolution(inputs, output, attrs.as<ops::ConvQ8Attrs>().conv, epilogue_of(attrs)) {
    const auto& a = attrs.as<ops::ConvQ8Attrs>();
    q8 = a.q8;
    post = post_ops(a.q8, a.conv.groups == 1 ? 1 : 3, out);
  }
};

}  // namespace

PluginKernel conv_q8_kernel() { return kernel_of<ConvOf8Bits>(); }

}  // namespace headrace::onednn

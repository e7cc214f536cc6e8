// gemm by oneDNN's matmul. A matrix b that serves the whole batch makes one product of all rows; a constant one is packed once.
#include "ops/gemm.h"

#include "kernels/onednn/matmul.h"

namespace headrace::onednn {
namespace {

struct Gemm final : Matmul {
  static constexpr const char* kOp = "gemm";
  static const ops::Epilogue& epilogue_of(const Attrs& attrs) { return attrs.as<ops::GemmAttrs>().epilogue; }
  // With a scale the sum is no more than a post-op among others.
  static int overwrites(const Attrs& attrs) {
    return attrs.as<ops::GemmAttrs>().scale == 1.0f ? residual_of(epilogue_of(attrs)) : -1;
  }

  Gemm(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs, bool in_place)
      : Matmul(inputs, output, attrs.as<ops::GemmAttrs>().trans_b) {
    const auto& g = attrs.as<ops::GemmAttrs>();
    // With a scale the bias follows it, as a post-op.
    const bool own_bias = g.epilogue.bias && g.scale == 1.0f, bias_follows = g.epilogue.bias && !own_bias;
    if (own_bias) bias = bias_of_columns();
    post = post_ops(g.epilogue, 2, g.scale, bias_follows ? std::optional(bias_of_columns()) : std::nullopt, out, in_place);
  }
};

}  // namespace

PluginKernel gemm_kernel() { return kernel_of<Gemm>(); }

}  // namespace headrace::onednn

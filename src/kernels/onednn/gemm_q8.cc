// gemm_q8 by oneDNN's matmul of 8-bit numbers: one product of all rows, the weight packed once.
#include "ops/gemm_q8.h"

#include "kernels/onednn/matmul.h"

namespace headrace::onednn {
namespace {

struct GemmOf8Bits final : Matmul {
  static constexpr const char* kOp = "gemm_q8";
  static const ops::Epilogue& epilogue_of(const Attrs& attrs) { return attrs.as<ops::GemmQ8Attrs>().q8.epilogue; }

  GemmOf8Bits(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs, bool)
      : Matmul(inputs, output, attrs.as<ops::GemmQ8Attrs>().trans_b) {
    q8 = attrs.as<ops::GemmQ8Attrs>().q8;
    if (q8->epilogue.bias) bias = bias_of_columns();
    post = post_ops(*q8, 2, out);
  }
};

}  // namespace

PluginKernel gemm_q8_kernel() { return kernel_of<GemmOf8Bits>(); }

}  // namespace headrace::onednn

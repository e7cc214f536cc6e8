// Products of matrices.
#include "onnx/lower.h"
#include "ops/binary.h"
#include "ops/gemm.h"

namespace headrace::onnx {
namespace {

bool matmul(LowerContext& context) {
  if (!context.all_f32() || context.rank(0) == 0 || context.rank(1) == 0) return false;
  ValueId a = context.input(0), b = context.input(1);
  if (context.rank(0) == 1) a = context.reshape(a, {1, context.dims(0)[0]});
  if (context.rank(1) == 1) b = context.reshape(b, {context.dims(1)[0], 1});
  const ValueId product = context.emit(ops::gemm, ops::GemmAttrs{}, {a, b});
  context.set(0, context.reshape(product, context.output_dims(0)));
  return true;
}

bool gemm(LowerContext& context) {
  if (!context.all_f32()) return false;
  const Result<int64_t> trans_a = context.integer("transA", 0), trans_b = context.integer("transB", 0);
  const Result<float> alpha = context.number("alpha", 1.0f), beta = context.number("beta", 1.0f);
  if (!trans_a || !trans_b || !alpha || !beta) return false;
  if (context.has_input(2) && !goes_into(context.dims(2), context.output_dims(0))) return false;
  ValueId a = context.input(0);
  if (*trans_a != 0) a = context.transpose(a, {1, 0});
  ValueId value = context.emit(ops::gemm, ops::GemmAttrs{.trans_b = *trans_b != 0, .scale = *alpha}, {a, context.input(1)});
  if (context.has_input(2)) {
    ValueId c = context.input(2);
    if (*beta != 1.0f) {
      const ValueId factor = context.constant_f32({}, {static_cast<double>(*beta)});
      c = context.emit(ops::binary, ops::BinaryAttrs{ops::BinaryKind::mul}, {c, factor});
    }
    value = context.emit(ops::binary, ops::BinaryAttrs{ops::BinaryKind::add}, {value, c});
  }
  context.set(0, value);
  return true;
}

constexpr LowerRow kRows[] = {
    {"Gemm", gemm},
    {"MatMul", matmul},
};

}  // namespace

std::span<const LowerRow> lower_matmul();
std::span<const LowerRow> lower_matmul() { return kRows; }

}  // namespace headrace::onnx

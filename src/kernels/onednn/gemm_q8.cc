// gemm_q8 by oneDNN's matmul of 8-bit numbers: one product of all rows, the weight packed once.
#include "ops/gemm_q8.h"

#include "kernels/onednn/kernels.h"
#include "kernels/onednn/primitive.h"

namespace headrace::onednn {
namespace {

struct Matmul {
  Desc x, weight, bias, out;
  PostOps post;

  Matmul(std::span<const ValueType> inputs, const ValueType& output, const ops::GemmQ8Attrs& g) {
    const Dims of_x = dims_of(inputs[0].shape), result = dims_of(output.shape);
    Dims of_weight = dims_of(inputs[1].shape);
    if (g.trans_b) std::swap(of_weight[0], of_weight[1]);
    int64_t rows = 1;
    for (size_t axis = 0; axis + 1 < result.size(); ++axis) rows *= result[axis];
    x = Desc({rows, of_x.back()}, type_of(inputs[0].dtype), Tag::ab);
    weight = Desc(of_weight, type_of(DType::i8), g.trans_b ? Tag::ba : Tag::ab);
    out = Desc({rows, result.back()}, type_of(output.dtype), Tag::ab);
    if (g.q8.epilogue.bias) bias = Desc({1, result.back()}, kF32, Tag::ab);
    post = post_ops(g.q8, 2, out);
  }
  // `any`: with the weight in the layout that oneDNN likes best.
  dnnl::matmul::primitive_desc describe(bool any, bool allow_empty = false) const {
    const Desc wanted = any ? Desc(weight.get_dims(), weight.get_data_type(), Tag::any) : weight;
    return {cpu_engine(), x, wanted, bias, out, post.attr, allow_empty};
  }
};

Result<std::shared_ptr<Prepared>> make(const NodeSetup& setup) {
  const auto& g = setup.sizes.attrs.as<ops::GemmQ8Attrs>();
  const Matmul matmul(setup.sizes.inputs, setup.sizes.outputs[0], g);
  const auto described = matmul.describe(setup.constants[1] != nullptr);
  const std::string more = fmt::format(" for {} with zero {}, transposed {}",
                                       setup.sizes.inputs[0].dtype == DType::u8 ? "u8" : "s8", g.q8.x_zero != 0,
                                       g.trans_b);
  auto state = std::make_shared<Prepared>();
  HR_ASSIGN_OR_RETURN(Prepared::Operand weight, weight_operand(setup, 1, matmul.weight, described.weights_desc(), more));
  add_q8_operands(setup, g.q8, matmul.x, matmul.out, matmul.post, std::move(weight), *state);
  if (g.q8.epilogue.bias) state->operands.push_back({DNNL_ARG_BIAS, 3, matmul.bias, nullptr});
  state->primitive = dnnl::matmul(described);
  return state;
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Shape &x = setup.sizes.inputs[0].shape, &out = setup.sizes.outputs[0].shape;
  const double depth = static_cast<double>(x[x.rank() - 1].constant());
  return guarded(setup, "gemm_q8", 2.0 * depth * static_cast<double>(out.elements(setup.sizes.bindings)), make);
}

bool supports(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  const auto& g = attrs.as<ops::GemmQ8Attrs>();
  if (!takes(g.q8.epilogue) || any_zero(inputs)) return false;
  try {
    const Matmul matmul(inputs, outputs[0], g);
    const auto packed = matmul.describe(true, true), plain = matmul.describe(false, true);
    return packed && plain && !is_reference(packed) && !is_reference(plain);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

PluginKernel gemm_q8_kernel() {
  return {"gemm_q8",
          {.name = "onednn",
           .priority = kPriority,
           .row_invariant = false,
           .supports = supports,
           .prepare = prepare,
           .outside_team = true,
           .run = run_prepared}};
}

}  // namespace headrace::onednn

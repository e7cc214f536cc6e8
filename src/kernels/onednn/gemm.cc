// gemm by oneDNN's matmul. A matrix b that serves the whole batch makes one product of all rows; a constant one is packed once.
#include "ops/gemm.h"

#include <algorithm>

#include "kernels/onednn/kernels.h"
#include "kernels/onednn/primitive.h"

namespace headrace::onednn {
namespace {

// Row-major, or with the last two axes the other way round in memory.
Desc plain(const Dims& dims, bool transposed = false) {
  Dims strides(dims.size());
  const size_t last = dims.size() - 1;
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t axis = last - i;
    const size_t at = transposed && i < 2 ? last - (1 - i) : axis;
    strides[at] = stride;
    stride *= dims[at];
  }
  return Desc(dims, kF32, strides);
}

// Dims with ones in front up to `rank`.
Dims with_rank(const Shape& shape, size_t rank) {
  Dims dims = dims_of(shape);
  dims.insert(dims.begin(), rank - dims.size(), 1);
  return dims;
}

struct Descs {
  Desc a, b, bias, out;

  Descs(std::span<const ValueType> inputs, const Shape& output, const ops::GemmAttrs& g) {
    const size_t rank = static_cast<size_t>(output.rank());
    Dims in_a = with_rank(inputs[0].shape, rank), in_b = with_rank(inputs[1].shape, rank), result = dims_of(output);
    if (g.trans_b) std::swap(in_b[rank - 2], in_b[rank - 1]);
    if (std::all_of(in_b.begin(), in_b.end() - 2, [](int64_t dim) { return dim == 1; })) {
      int64_t rows = 1;
      for (size_t axis = 0; axis + 1 < rank; ++axis) rows *= result[axis];
      in_a = {rows, in_a[rank - 1]};
      in_b = {in_b[rank - 2], in_b[rank - 1]};
      result = {rows, result[rank - 1]};
    }
    a = plain(in_a);
    b = plain(in_b, g.trans_b);
    out = plain(result);
    Dims columns(result.size(), 1);
    columns.back() = result.back();
    bias = plain(columns);
  }
};

// With a scale the bias follows it, as a post-op.
bool own_bias(const ops::GemmAttrs& g) { return g.epilogue.bias && g.scale == 1.0f; }

PostOps post_ops_of(const ops::GemmAttrs& g, const Descs& d) {
  const bool as_post_op = g.epilogue.bias && !own_bias(g);
  return post_ops(g.epilogue, 2, g.scale, as_post_op ? std::optional(d.bias) : std::nullopt, d.out);
}

dnnl::matmul::primitive_desc describe_primitive(const Descs& d, const Desc& b, const ops::GemmAttrs& g, const PostOps& post,
                                                bool allow_empty = false) {
  return dnnl::matmul::primitive_desc(cpu_engine(), d.a, b, own_bias(g) ? d.bias : Desc(), d.out, post.attr, allow_empty);
}

Desc any(const Desc& desc) { return Desc(desc.get_dims(), kF32, Tag::any); }

Result<std::shared_ptr<Prepared>> make(const NodeSetup& setup) {
  const auto& g = setup.sizes.attrs.as<ops::GemmAttrs>();
  const Descs d(setup.sizes.inputs, setup.sizes.outputs[0].shape, g);
  const PostOps post = post_ops_of(g, d);
  const auto described = describe_primitive(d, setup.constants[1] == nullptr ? d.b : any(d.b), g, post);
  auto state = std::make_shared<Prepared>();
  HR_ASSIGN_OR_RETURN(Prepared::Operand weight, weight_operand(setup, 1, d.b, described.weights_desc()));
  state->operands = {{DNNL_ARG_SRC, 0, d.a, nullptr}, weight, {DNNL_ARG_DST, -1, d.out, nullptr}};
  if (own_bias(g)) state->operands.push_back({DNNL_ARG_BIAS, 2, d.bias, nullptr});
  for (size_t i = 0; i < post.operands.size(); ++i) {
    state->operands.push_back({post.operands[i].first, post.operands[i].second, post.descs[i], nullptr});
  }
  state->primitive = dnnl::matmul(described);
  return state;
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Shape &a = setup.sizes.inputs[0].shape, &out = setup.sizes.outputs[0].shape;
  const double depth = static_cast<double>(a[a.rank() - 1].constant());
  return guarded(setup, "gemm", 2.0 * depth * static_cast<double>(out.elements(setup.sizes.bindings)), make);
}

bool supports(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  const auto& g = attrs.as<ops::GemmAttrs>();
  if (!takes(g.epilogue) || any_zero(inputs)) return false;
  try {
    const Descs d(inputs, outputs[0].shape, g);
    const PostOps post = post_ops_of(g, d);
    const auto packed = describe_primitive(d, any(d.b), g, post, true), plain = describe_primitive(d, d.b, g, post, true);
    return packed && plain && !is_reference(packed) && !is_reference(plain);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

PluginKernel gemm_kernel() {
  return {"gemm",
          {.name = "onednn",
           .priority = kPriority,
           .row_invariant = false,
           .supports = supports,
           .prepare = prepare,
           .outside_team = true,
           .run = run_prepared}};
}

}  // namespace headrace::onednn

// conv and conv_transpose by oneDNN's direct convolutions over channels-last images. Constant weights are packed once into the layout
// that the primitive asks for, others at each run.
#include "ops/conv.h"

#include "kernels/onednn/kernels.h"
#include "kernels/onednn/primitive.h"

namespace headrace::onednn {
namespace {

// Images are [N, H, W, C] in memory and [N, C, H, W] to oneDNN.
Desc image(const Shape& shape) {
  return Desc({shape[0].constant(), shape[3].constant(), shape[1].constant(), shape[2].constant()}, kF32, Tag::nhwc);
}

// Memory descriptors of one node.
struct Descs {
  Desc x, weight, bias, out;
  Dims stride, dilation, pad_begin, pad_end;

  Descs(std::span<const ValueType> inputs, const Shape& output, const ops::ConvAttrs& a, bool transpose)
      : x(image(inputs[0].shape)), out(image(output)), stride(a.stride.begin(), a.stride.end()) {
    const Dims w = dims_of(inputs[1].shape);
    const int64_t outer = w[0] / a.groups;
    const Dims ungrouped = transpose ? Dims{w[1], outer, w[2], w[3]} : Dims{outer, w[1], w[2], w[3]};
    if (a.groups == 1) {
      weight = Desc(ungrouped, kF32, transpose ? Tag::iohw : Tag::oihw);
    } else {
      Dims grouped = ungrouped;
      grouped.insert(grouped.begin(), a.groups);
      weight = Desc(grouped, kF32, transpose ? Tag::giohw : Tag::goihw);
    }
    if (a.epilogue.bias) bias = Desc({output[3].constant()}, kF32, Tag::x);
    for (int axis = 0; axis < 2; ++axis) {
      dilation.push_back(a.dilation[axis] - 1);
      pad_begin.push_back(a.pads[axis]);
      pad_end.push_back(a.pads[2 + axis] - a.output_pad[axis]);
    }
  }
};

template <bool transpose>
auto describe_primitive(const Descs& d, const Desc& weight, const PostOps& post, bool allow_empty = false) {
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  if constexpr (transpose) {
    return dnnl::deconvolution_forward::primitive_desc(cpu_engine(), kKind, dnnl::algorithm::deconvolution_direct, d.x, weight, d.bias,
                                                       d.out, d.stride, d.dilation, d.pad_begin, d.pad_end, post.attr, allow_empty);
  } else {
    return dnnl::convolution_forward::primitive_desc(cpu_engine(), kKind, dnnl::algorithm::convolution_direct, d.x, weight, d.bias, d.out,
                                                     d.stride, d.dilation, d.pad_begin, d.pad_end, post.attr, allow_empty);
  }
}

PostOps post_ops_of(const ops::ConvAttrs& a, const Desc& out) { return post_ops(a.epilogue, 2, 1.0f, std::nullopt, out); }

Desc any(const Desc& desc) { return Desc(desc.get_dims(), kF32, Tag::any); }

template <bool transpose>
Result<std::shared_ptr<Prepared>> make(const NodeSetup& setup) {
  const auto& a = setup.sizes.attrs.as<ops::ConvAttrs>();
  const Descs d(setup.sizes.inputs, setup.sizes.outputs[0].shape, a, transpose);
  const PostOps post = post_ops_of(a, d.out);
  const auto described = describe_primitive<transpose>(d, any(d.weight), post);
  auto state = std::make_shared<Prepared>();
  HR_ASSIGN_OR_RETURN(Prepared::Operand weight, weight_operand(setup, 1, d.weight, described.weights_desc()));
  state->operands = {{DNNL_ARG_SRC, 0, d.x, nullptr}, weight, {DNNL_ARG_DST, -1, d.out, nullptr}};
  if (a.epilogue.bias) state->operands.push_back({DNNL_ARG_BIAS, 2, d.bias, nullptr});
  for (size_t i = 0; i < post.operands.size(); ++i) {
    state->operands.push_back({post.operands[i].first, post.operands[i].second, post.descs[i], nullptr});
  }
  using Primitive = std::conditional_t<transpose, dnnl::deconvolution_forward, dnnl::convolution_forward>;
  state->primitive = Primitive(described);
  return state;
}

template <bool transpose>
Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  // A weight for each position: of the output, or of the input that conv_transpose spreads.
  const Shape& positions = transpose ? setup.sizes.inputs[0].shape : setup.sizes.outputs[0].shape;
  const double weights = static_cast<double>(setup.sizes.inputs[1].shape.elements(setup.sizes.bindings));
  const double flops = 2.0 * weights * static_cast<double>(positions[0].constant() * positions[1].constant() * positions[2].constant());
  return guarded(setup, transpose ? "conv_transpose" : "conv", flops, make<transpose>);
}

// oneDNN itself is asked: it refuses some pads and strides.
template <bool transpose>
bool supports(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  const auto& a = attrs.as<ops::ConvAttrs>();
  if (!takes(a.epilogue) || any_zero(inputs)) return false;
  try {
    const Descs d(inputs, outputs[0].shape, a, transpose);
    const PostOps post = post_ops_of(a, d.out);
    const auto described = describe_primitive<transpose>(d, any(d.weight), post, true);
    return described && !is_reference(described);
  } catch (const std::exception&) {
    return false;
  }
}

template <bool transpose>
PluginKernel kernel() {
  return {transpose ? "conv_transpose" : "conv",
          {.name = "onednn",
           .priority = kPriority,
           .row_invariant = false,
           .supports = supports<transpose>,
           .prepare = prepare<transpose>,
           .outside_team = true,
           .run = run_prepared}};
}

}  // namespace

PluginKernel conv_kernel() { return kernel<false>(); }
PluginKernel conv_transpose_kernel() { return kernel<true>(); }

}  // namespace headrace::onednn

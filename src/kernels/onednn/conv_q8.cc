// conv_q8 by oneDNN's 8-bit convolutions over channels-last images. The weight is packed once, with the sums that zero points and signed
// images need; where the machine has no 8-bit dot products oneDNN halves the weights so that its 16-bit sums do not overflow.
#include "ops/conv_q8.h"

#include "kernels/onednn/kernels.h"
#include "kernels/onednn/primitive.h"

namespace headrace::onednn {
namespace {

// Images are [N, H, W, C] in memory and [N, C, H, W] to oneDNN.
Desc image(const ValueType& type) {
  const Shape& shape = type.shape;
  return Desc({shape[0].constant(), shape[3].constant(), shape[1].constant(), shape[2].constant()}, type_of(type.dtype), Tag::nhwc);
}

struct Convolution {
  Desc x, weight, bias, out;
  Dims stride, dilation, pad_begin, pad_end;
  PostOps post;

  Convolution(std::span<const ValueType> inputs, const ValueType& output, const ops::ConvQ8Attrs& attrs)
      : x(image(inputs[0])), out(image(output)) {
    const ops::ConvAttrs& a = attrs.conv;
    Dims dims = dims_of(inputs[1].shape);
    const bool grouped = a.groups != 1;
    if (grouped) {
      dims[0] /= a.groups;
      dims.insert(dims.begin(), a.groups);
    }
    weight = Desc(dims, type_of(DType::i8), grouped ? Tag::goihw : Tag::oihw);
    if (attrs.q8.epilogue.bias) bias = Desc({output.shape[3].constant()}, kF32, Tag::x);
    for (int axis = 0; axis < 2; ++axis) {
      stride.push_back(a.stride[axis]);
      dilation.push_back(a.dilation[axis] - 1);
      pad_begin.push_back(a.pads[axis]);
      pad_end.push_back(a.pads[2 + axis]);
    }
    post = post_ops(attrs.q8, grouped ? 3 : 1, out);
  }
  // `any`: with the weight in the layout that oneDNN likes best.
  dnnl::convolution_forward::primitive_desc describe(bool any, bool allow_empty = false) const {
    const Desc wanted = any ? Desc(weight.get_dims(), weight.get_data_type(), Tag::any) : weight;
    return {cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, wanted, bias, out, stride, dilation,
            pad_begin, pad_end, post.attr, allow_empty};
  }
};

Result<std::shared_ptr<Prepared>> make(const NodeSetup& setup) {
  const auto& attrs = setup.sizes.attrs.as<ops::ConvQ8Attrs>();
  const Convolution convolution(setup.sizes.inputs, setup.sizes.outputs[0], attrs);
  const auto described = convolution.describe(true);
  const std::string more = fmt::format(" for {} with zero {}",
                                       setup.sizes.inputs[0].dtype == DType::u8 ? "u8" : "s8", attrs.q8.x_zero != 0);
  auto state = std::make_shared<Prepared>();
  HR_ASSIGN_OR_RETURN(Prepared::Operand weight, weight_operand(setup, 1, convolution.weight, described.weights_desc(), more));
  add_q8_operands(setup, attrs.q8, convolution.x, convolution.out, convolution.post, std::move(weight), *state);
  if (attrs.q8.epilogue.bias) state->operands.push_back({DNNL_ARG_BIAS, 3, convolution.bias, nullptr});
  state->primitive = dnnl::convolution_forward(described);
  return state;
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Shape& out = setup.sizes.outputs[0].shape;
  const double weights = static_cast<double>(setup.sizes.inputs[1].shape.elements(setup.sizes.bindings));
  return guarded(setup, "conv_q8", 2.0 * weights * static_cast<double>(out[0].constant() * out[1].constant() * out[2].constant()), make);
}

bool supports(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  const auto& a = attrs.as<ops::ConvQ8Attrs>();
  if (!takes(a.q8.epilogue) || any_zero(inputs)) return false;
  try {
    const Convolution convolution(inputs, outputs[0], a);
    const auto described = convolution.describe(true, true);
    return described && !is_reference(described);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

PluginKernel conv_q8_kernel() {
  return {"conv_q8",
          {.name = "onednn",
           .priority = kPriority,
           .row_invariant = false,
           .supports = supports,
           .prepare = prepare,
           .outside_team = true,
           .run = run_prepared}};
}

}  // namespace headrace::onednn

#include "kernels/onednn/primitive.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace headrace::onednn {
namespace {

using dnnl::algorithm;
using ops::UnaryKind;

struct Eltwise {
  algorithm kind;
  float alpha = 0, beta = 0;
};
// oneDNN's name of a function; none where it has another one or rounds it otherwise.
std::optional<Eltwise> eltwise_of(const ops::UnaryAttrs& a) {
  switch (a.kind) {
    case UnaryKind::relu: return Eltwise{algorithm::eltwise_relu};
    case UnaryKind::leaky_relu: return Eltwise{algorithm::eltwise_relu, a.alpha};
    case UnaryKind::clip: return Eltwise{algorithm::eltwise_clip, a.alpha, a.beta};
    case UnaryKind::sigmoid: return Eltwise{algorithm::eltwise_logistic};
    case UnaryKind::hard_sigmoid: return Eltwise{algorithm::eltwise_hardsigmoid, a.alpha, a.beta};
    case UnaryKind::silu: return Eltwise{algorithm::eltwise_swish, 1.0f};
    case UnaryKind::hard_swish: return Eltwise{algorithm::eltwise_hardswish, 1.0f / 6.0f, 0.5f};
    case UnaryKind::gelu_erf: return Eltwise{algorithm::eltwise_gelu_erf};
    case UnaryKind::gelu_tanh: return Eltwise{algorithm::eltwise_gelu_tanh};
    case UnaryKind::elu: return Eltwise{algorithm::eltwise_elu, a.alpha};
    case UnaryKind::mish: return Eltwise{algorithm::eltwise_mish};
    case UnaryKind::tanh: return Eltwise{algorithm::eltwise_tanh};
    case UnaryKind::exp: return Eltwise{algorithm::eltwise_exp};
    case UnaryKind::sqrt: return Eltwise{algorithm::eltwise_sqrt};
    case UnaryKind::neg: return Eltwise{algorithm::eltwise_linear, -1.0f};
    case UnaryKind::abs: return Eltwise{algorithm::eltwise_abs};
    default: return std::nullopt;
  }
}

std::string text_of(const Dims& dims) {
  std::string text;
  for (const int64_t dim : dims) text += fmt::format("{}{}", text.empty() ? "" : ",", dim);
  return text;
}

// Says all of a blocked layout.
std::string form_of(const Desc& desc) {
  return fmt::format("oneDNN {} [{}] padded [{}] strides [{}] blocks [{}] of [{}]", desc.get_data_type() == kF32 ? "f32" : "s8",
                     text_of(desc.get_dims()), text_of(desc.get_padded_dims()), text_of(desc.get_strides()), text_of(desc.get_inner_blks()),
                     text_of(desc.get_inner_idxs()));
}

bool is_packed(const TensorView& view) {
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != stride) return false;
    stride *= view.dims[axis];
  }
  return true;
}

dnnl::stream& stream() {
  static thread_local dnnl::stream mine(cpu_engine());
  return mine;
}

// How many threads oneDNN uses for what the calling thread asks of it.
void use_threads(int count) { omp_set_num_threads(count); }

Desc in_any_form(const Desc& desc) { return Desc(desc.get_dims(), desc.get_data_type(), Tag::any); }

bool any_zero(std::span<const ValueType> types) {
  for (const ValueType& type : types) {
    for (const Dim& dim : type.shape) {
      if (dim == Dim(0)) return true;
    }
  }
  return false;
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

bool takes(const ops::Epilogue& epilogue) { return !epilogue.activation || eltwise_of(*epilogue.activation); }

PostOps post_ops(const ops::Epilogue& epilogue, int first_input, float scale, std::optional<Desc> bias, const Desc& output) {
  PostOps made;
  dnnl::post_ops list;
  const auto add = [&](int input, const Desc& desc) {
    made.operands.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(list.len()) | DNNL_ARG_SRC_1, input);
    made.descs.push_back(desc);
    list.append_binary(algorithm::binary_add, desc);
  };
  if (scale != 1.0f) list.append_eltwise(algorithm::eltwise_linear, scale, 0.0f);
  if (bias) add(first_input, *bias);
  if (epilogue.residual) add(first_input + int{epilogue.bias}, output);
  if (epilogue.activation) {
    const Eltwise eltwise = *eltwise_of(*epilogue.activation);
    list.append_eltwise(eltwise.kind, eltwise.alpha, eltwise.beta);
  }
  made.attr.set_post_ops(list);
  return made;
}

bool Prepared::reads(int input) const {
  return std::ranges::any_of(
      operands, [&](const Operand& operand) { return operand.input == input && (operand.packed == nullptr || operand.reorder); });
}

dnnl::memory::data_type type_of(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::u8 ? Type::u8 : dtype == DType::i8 ? Type::s8 : Type::f32;
}

PostOps post_ops(const ops::Q8ProductAttrs& q8, int scales_mask, const Desc& output) {
  // The residual is f32, whatever the output is.
  PostOps made = post_ops(q8.epilogue, 3, 1.0f, std::nullopt, Desc(output.get_dims(), kF32, output.get_strides()));
  made.attr.set_scales_mask(DNNL_ARG_WEIGHTS, scales_mask);
  if (q8.x_zero != 0) made.attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  if (q8.y) made.attr.set_scales_mask(DNNL_ARG_DST, 0);
  if (q8.y && q8.y->zero != 0) made.attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  return made;
}

namespace {

// What an 8-bit product has beside x, weight, output, bias and post-ops: scales and zero points.
void add_q8_operands(const NodeSetup& setup, const ops::Q8ProductAttrs& q8, Prepared& state) {
  const auto scalar = [&](int argument, auto value, dnnl::memory::data_type type) {
    const std::shared_ptr<std::byte[]> bytes(new std::byte[sizeof value]);
    std::memcpy(bytes.get(), &value, sizeof value);
    state.operands.push_back({argument, 0, Desc({1}, type, Tag::x), bytes});
  };
  using Type = dnnl::memory::data_type;
  const Desc scales({setup.sizes.inputs[2].shape[0].constant()}, kF32, Tag::x);
  state.operands.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, 2, scales, nullptr});
  if (q8.x_zero != 0) scalar(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, q8.x_zero, Type::s32);
  if (q8.y) scalar(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, q8.y->scale, Type::f32);
  if (q8.y && q8.y->zero != 0) scalar(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, q8.y->zero, Type::s32);
}

// The weight as the primitive wants it: brought into its form at each run where it is computed, packed once where it is a constant.
// Errors: resource_exhausted; throws dnnl::error.
Result<Prepared::Operand> weight_operand(const NodeSetup& setup, const Product& product, const Desc& wanted, int threads) {
  constexpr int kInput = 1;
  const Desc& plain = product.weight;
  Prepared::Operand operand{DNNL_ARG_WEIGHTS, kInput, wanted, nullptr};
  const std::byte* constant = setup.constants[kInput];
  if (plain == wanted) return operand;
  if (constant == nullptr) {
    std::byte* bytes = static_cast<std::byte*>(std::aligned_alloc(64, (wanted.get_size() + 63) / 64 * 64));
    if (bytes == nullptr) return error(Code::resource_exhausted, "oneDNN: input {} in another form: out of memory", kInput);
    operand.packed = {bytes, [](const std::byte* at) { std::free(const_cast<std::byte*>(at)); }};
    operand.plain = plain;
    operand.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(cpu_engine(), plain, cpu_engine(), wanted));
    return operand;
  }
  // The same bytes may be packed out of another order: a matrix and its transpose. Behind 8-bit weights stand sums.
  std::string form = fmt::format("{} from strides [{}]", form_of(wanted), text_of(plain.get_strides()));
  if (product.q8) {
    form += fmt::format(" for {} with zero {}", setup.sizes.inputs[0].dtype == DType::u8 ? "u8" : "s8", product.q8->x_zero != 0);
  }
  // oneDNN may throw in `pack`, between frames of others: what it says is carried out by hand. One thread packs: others prepare nodes of
  // their own.
  bool failed = false;
  const auto pack = [&](std::byte* out) {
    use_threads(1);
    try {
      dnnl::memory from(plain, cpu_engine(), const_cast<std::byte*>(constant)), to(wanted, cpu_engine(), out);
      dnnl::reorder(from, to).execute(stream(), from, to);
      stream().wait();
    } catch (const dnnl::error&) {
      failed = true;
    }
    use_threads(threads);
  };
  HR_ASSIGN_OR_RETURN(operand.packed, setup.packed.get({constant, plain.get_size()}, std::move(form), wanted.get_size(), pack));
  if (failed) return error(Code::internal, "oneDNN could not pack input {}", kInput);
  return operand;
}

// The primitive of `product` and its operands, but for their memory. Errors: resource_exhausted; throws dnnl::error.
Result<std::shared_ptr<Prepared>> prepared_of(const NodeSetup& setup, const Product& product, int threads) {
  const bool packs = product.packs_computed_weight || setup.constants[1] != nullptr;
  const dnnl::primitive_desc described = product.describe(packs ? in_any_form(product.weight) : product.weight, false);
  auto state = std::make_shared<Prepared>();
  HR_ASSIGN_OR_RETURN(Prepared::Operand weight, weight_operand(setup, product, described.weights_desc(0), threads));
  state->operands = {{DNNL_ARG_SRC, 0, product.x, nullptr}, std::move(weight), {DNNL_ARG_DST, -1, product.out, nullptr}};
  if (product.q8) add_q8_operands(setup, *product.q8, *state);
  if (!product.bias.is_zero()) state->operands.push_back({DNNL_ARG_BIAS, product.q8 ? 3 : 2, product.bias, nullptr});
  for (size_t i = 0; i < product.post.operands.size(); ++i) {
    state->operands.push_back({product.post.operands[i].first, product.post.operands[i].second, product.post.descs[i], nullptr});
  }
  state->primitive = dnnl::primitive(described);
  return state;
}

// Whether oneDNN has it, and not as its plain loops, which are slower than Headrace's.
bool is_fast(const dnnl::primitive_desc& described) {
  return described && !std::string_view(described.impl_info_str()).starts_with("ref");
}

}  // namespace

void run_prepared(const StepContext& step, const NodeArgs& args, Team&) {
  const auto& state = static_cast<const Prepared&>(*args.state);
  const auto fail = [&](Status status) {
    if (step.errors != nullptr) step.errors->fail(args.node, std::move(status));
  };
  try {
    use_threads(state.threads);
    for (size_t i = 0; i < state.operands.size(); ++i) {
      const Prepared::Operand& operand = state.operands[i];
      if (operand.packed != nullptr && !operand.reorder) continue;
      const TensorView& view = (operand.input < 0 ? args.outputs[0] : args.inputs[operand.input]).tensor;
      if (!is_packed(view)) {
        return fail(make_status(Code::internal, "oneDNN: operand {}: want a packed tensor, got a window", operand.input));
      }
      dnnl::memory& memory = operand.reorder ? state.plain[i] : state.memories[i];
      memory.set_data_handle(view.data);
      if (!operand.reorder) continue;
      dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, memory.get()}, {DNNL_ARG_TO, state.memories[i].get()}};
      const dnnl_status_t status = dnnl_primitive_execute(operand.reorder.get(), stream().get(), 2, list);
      if (status != dnnl_success) return fail(make_status(Code::internal, "oneDNN: status {}", static_cast<int>(status)));
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(state.primitive.get(), stream().get(), static_cast<int>(state.list.size()), state.list.data());
    if (status != dnnl_success) fail(make_status(Code::internal, "oneDNN: status {}", static_cast<int>(status)));
  } catch (const std::exception& thrown) {
    fail(make_status(Code::internal, "oneDNN: {}", thrown.what()));
  }
}

bool supports_product(MakeProduct make, std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs) {
  if (any_zero(inputs)) return false;
  try {
    const std::unique_ptr<Product> product = make(inputs, output, attrs);
    if (!is_fast(product->describe(in_any_form(product->weight), true))) return false;
    return product->packs_computed_weight || is_fast(product->describe(product->weight, true));
  } catch (const std::exception&) {
    return false;
  }
}

Result<std::shared_ptr<const KernelState>> prepare_product(std::string_view op, MakeProduct make, const NodeSetup& setup) {
  try {
    const std::unique_ptr<Product> product = make(setup.sizes.inputs, setup.sizes.outputs[0], setup.sizes.attrs);
    // Two microseconds of one core, which is what waking a second costs: below, one thread has done before a second has woken.
    constexpr double kAloneFlops = 4e5;
    const int threads = product->flops < kAloneFlops ? 1 : setup.threads;
    use_threads(threads);
    HR_ASSIGN_OR_RETURN(std::shared_ptr<Prepared> made, prepared_of(setup, *product, threads));
    made->threads = threads;
    for (const Prepared::Operand& operand : made->operands) {
      void* data = operand.packed == nullptr ? DNNL_MEMORY_NONE : const_cast<std::byte*>(operand.packed.get());
      made->memories.emplace_back(operand.desc, cpu_engine(), data);
      made->list.push_back({operand.argument, made->memories.back().get()});
      made->plain.push_back(operand.reorder ? dnnl::memory(operand.plain, cpu_engine(), DNNL_MEMORY_NONE) : dnnl::memory());
    }
    return std::shared_ptr<const KernelState>(std::move(made));
  } catch (const dnnl::error& thrown) {
    const Code code = thrown.status == dnnl_out_of_memory ? Code::resource_exhausted : Code::internal;
    return error(code, "{}: oneDNN: {}", op, thrown.what());
  } catch (const std::bad_alloc&) {
    return error(Code::resource_exhausted, "{}: oneDNN: out of memory", op);
  }
}

Dims dims_of(const Shape& shape) {
  Dims dims;
  for (const Dim& dim : shape) dims.push_back(dim.constant());
  return dims;
}

double elements(const Dims& dims) {
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(dim);
  return count;
}

}  // namespace headrace::onednn

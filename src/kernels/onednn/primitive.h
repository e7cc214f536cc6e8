#pragma once
// What the oneDNN kernels share: post-ops of an epilogue, packed constants, a prepared primitive and running it. oneDNN's exceptions
// end in the functions here; memory stays the caller's.

#include <optional>
#include <oneapi/dnnl/dnnl.hpp>

#include "ops/q8.h"

namespace headrace::onednn {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
inline constexpr auto kF32 = dnnl::memory::data_type::f32;
dnnl::memory::data_type type_of(DType dtype);  // f32, u8 or i8

const dnnl::engine& cpu_engine();

// Whether oneDNN has the epilogue's function exactly.
bool takes(const ops::Epilogue& epilogue);

// scale, then bias as an operand where `bias` is given, then residual, then the function. Operands that become post-ops are read from
// the inputs whose numbers go to `operands`, in the order of the post-ops' arguments.
struct PostOps {
  dnnl::primitive_attr attr;
  std::vector<std::pair<int, int>> operands;  // (argument of the primitive, input of the node)
  std::vector<Desc> descs;                    // of each
};
PostOps post_ops(const ops::Epilogue& epilogue, int first_input, float scale, std::optional<Desc> bias, const Desc& output);
// The same for 8-bit products, whose scales (input 2) go with the weight's dims of `scales_mask`: zero points and scales too.
PostOps post_ops(const ops::Q8ProductAttrs& q8, int scales_mask, const Desc& output);

// A primitive with all that a run needs but pointers, which it keeps from run to run: one run at a time.
class Prepared final : public KernelState {
 public:
  struct Operand {
    int argument;  // DNNL_ARG_...
    int input;     // of the node; -1: its output
    Desc desc;
    std::shared_ptr<const std::byte[]> packed;  // in place of the input's bytes
    // A computed input that the primitive wants in another form: brought from `plain` into `packed` before each run.
    Desc plain = {};
    dnnl::reorder reorder = {};
  };
  bool reads(int input) const override;

  dnnl::primitive primitive;
  std::vector<Operand> operands;
  int threads = 1;
  // Of the operands; made by guarded().
  mutable std::vector<dnnl::memory> memories;
  mutable std::vector<dnnl::memory> plain;  // what is brought into another form; empty ones for the others
  std::vector<dnnl_exec_arg_t> list;
};

// Input `input` as the primitive wants it: brought into its form at each run where it is computed, packed once where it is a constant in another form than `plain`. `more`: what the packed bytes
// depend on beyond the form. Errors: resource_exhausted; throws dnnl::error.
Result<Prepared::Operand> weight_operand(const NodeSetup& setup, int input, const Desc& plain, const Desc& wanted,
                                         std::string_view more = {});
// The operands of an 8-bit product but for its bias, when `post` is its own: x, weight, output, scales, zero points, residual.
void add_q8_operands(const NodeSetup& setup, const ops::Q8ProductAttrs& q8, const Desc& x, const Desc& output, const PostOps& post,
                     Prepared::Operand weight, Prepared& state);

// Runs `args.state`. Failures go to the step's errors.
void run_prepared(const StepContext& step, const NodeArgs& args, Team& team);

// Whether a primitive is oneDNN's plain loops, which are slower than Headrace's.
bool is_reference(const dnnl::primitive_desc_base& described);

// make() with oneDNN's exceptions turned into an error of the op. Below some `flops` one thread has done before a second has woken.
Result<std::shared_ptr<const KernelState>> guarded(const NodeSetup& setup, std::string_view op, double flops,
                                                   Result<std::shared_ptr<Prepared>> (*make)(const NodeSetup& setup));

// Sets how many threads oneDNN uses for what the calling thread asks of it.
void use_threads(int count);

Dims dims_of(const Shape& shape);
bool any_zero(std::span<const ValueType> types);

}  // namespace headrace::onednn

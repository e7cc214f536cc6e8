#pragma once
// What the oneDNN kernels share: post-ops of an epilogue, a node's product, its prepared primitive and running it, and the row of a
// kernel. oneDNN's exceptions end in the functions here; memory stays the caller's.

#include <optional>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/onednn/kernels.h"
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

// scale, then bias as an operand where `bias` is given, then residual, then the function. `in_place`: the residual is what the output holds
// before; a sum with that reads and writes each line once. Operands that become post-ops are read from
// the inputs whose numbers go to `operands`, in the order of the post-ops' arguments.
struct PostOps {
  dnnl::primitive_attr attr;
  std::vector<std::pair<int, int>> operands;  // (argument of the primitive, input of the node)
  std::vector<Desc> descs;                    // of each
};
PostOps post_ops(const ops::Epilogue& epilogue, int first_input, float scale, std::optional<Desc> bias, const Desc& output,
                 bool in_place = false);
// The same for 8-bit products, whose scales (input 2) go with the weight's dims of `scales_mask`: zero points and scales too.
PostOps post_ops(const ops::Q8ProductAttrs& q8, int scales_mask, const Desc& output);

// A node as oneDNN sees it: the memory of its operands and a description of the primitive. Each op derives its own, with
//   static constexpr const char* kOp;
//   static const ops::Epilogue& epilogue_of(const Attrs& attrs);
//   a constructor from (inputs, output, attrs, whether the output overwrites the input that overwrites() says): no dim is 0, and takes()
//   has accepted the epilogue. It may throw dnnl::error.
class Product {
 public:
  virtual ~Product() = default;
  // As Kernel has it; those that overwrite have their own.
  static int overwrites(const Attrs&) { return -1; }
  // The primitive with a weight in the form `wanted`. With `allow_empty` an empty description where oneDNN has none; else throws.
  virtual dnnl::primitive_desc describe(const Desc& wanted, bool allow_empty) const = 0;

  Desc x, weight, out;  // inputs 0 and 1 and the output, as they lie in memory
  Desc bias;            // the input behind the others, added by the primitive itself; empty: none
  PostOps post;
  double flops = 0;
  std::optional<ops::Q8ProductAttrs> q8;  // of 8-bit products
  // Whether a computed weight is brought at each run into the form that oneDNN likes best; a constant one always is, once.
  bool packs_computed_weight = true;
};

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
  // Of the operands; made by prepare_product().
  mutable std::vector<dnnl::memory> memories;
  mutable std::vector<dnnl::memory> plain;  // what is brought into another form; empty ones for the others
  std::vector<dnnl_exec_arg_t> list;
};

// Runs `args.state`. Failures go to the step's errors.
void run_prepared(const StepContext& step, const NodeArgs& args, Team& team);

// Makes a node's product; it may throw dnnl::error.
using MakeProduct = std::unique_ptr<Product> (*)(std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs,
                                                 bool in_place);

// Kernel::supports, for types whose epilogue takes() accepts: oneDNN itself is asked, as it refuses some pads and strides.
bool supports_product(MakeProduct make, std::span<const ValueType> inputs, const ValueType& output, const Attrs& attrs);
// Kernel::prepare. oneDNN's exceptions become an error of the op.
Result<std::shared_ptr<const KernelState>> prepare_product(std::string_view op, MakeProduct make, const NodeSetup& setup);

// The kernel of an op by its product.
template <class P>
PluginKernel kernel_of() {
  static constexpr MakeProduct kMake = [](std::span<const ValueType> inputs, const ValueType& output,
                                          const Attrs& attrs, bool in_place) -> std::unique_ptr<Product> {
    return std::make_unique<P>(inputs, output, attrs, in_place);
  };
  return {P::kOp,
          {.name = "onednn",
           .priority = kPriority,
           .row_invariant = false,
           .supports =
               [](std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
                 return takes(P::epilogue_of(attrs)) && supports_product(kMake, inputs, outputs[0], attrs);
               },
           .prepare = [](const NodeSetup& setup) { return prepare_product(P::kOp, kMake, setup); },
           .overwrites = P::overwrites,
           .outside_team = true,
           .run = run_prepared}};
}

// The input of a residual that follows the bias behind two inputs; -1: none.
inline int residual_of(const ops::Epilogue& epilogue) { return epilogue.residual ? 2 + int{epilogue.bias} : -1; }

Dims dims_of(const Shape& shape);
double elements(const Dims& dims);

}  // namespace headrace::onednn

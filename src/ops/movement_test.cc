// What the ops of graphs refuse, and what their kernels report to the step.
#include "ops/movement.h"

#include <gmock/gmock.h>

#include "ops/binary.h"
#include "ops/host.h"
#include "ops/op_table.h"
#include "ops/reduce.h"

namespace headrace::ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ValueType f32(Shape shape) { return ValueType::tensor(DType::f32, shape); }

std::string refusal(const Op& op, std::vector<ValueType> inputs, const Attrs& attrs) {
  const auto types = op.infer(inputs, attrs);
  return types ? "accepted" : types.error().message();
}

TensorView view_of(void* data, DType dtype, Shape shape) { return contiguous_view(data, dtype, shape, Bindings()); }

TEST(Movement, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(reshape, {f32({3, 4})}, ReshapeAttrs{{5, 2}}),
              AllOf(HasSubstr("reshape"), HasSubstr("[5, 2]"), HasSubstr("[3, 4]")));
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_THAT(refusal(reshape, {f32({3, 4})}, ReshapeAttrs{{kHuge, kHuge, kHuge}}), HasSubstr("do not hold"));
  EXPECT_THAT(refusal(transpose, {f32({3, 4})}, TransposeAttrs{{0, 0}}), HasSubstr("perm [0, 0]"));
  EXPECT_THAT(refusal(concat, {f32({3, 4}), f32({3, 5})}, ConcatAttrs{0}), HasSubstr("input 1"));
  EXPECT_THAT(refusal(slice, {f32({3, 4})}, SliceAttrs{{0, 3}, {1, 1}, {3, 2}}), HasSubstr("axis 1: 2 elements from 3 by 1"));
  EXPECT_THAT(refusal(slice, {f32({3})}, SliceAttrs{{1}, {-1}, {3}}), HasSubstr("do not lie within 3"));
  EXPECT_THAT(refusal(pad, {f32({3})}, PadAttrs{PadAttrs::Mode::reflect, {3}, {0}}), HasSubstr("too short"));
  EXPECT_THAT(refusal(expand, {f32({3})}, ExpandAttrs{{2}}), HasSubstr("does not broadcast"));
  EXPECT_THAT(refusal(gather, {f32({3}), f32({2})}, GatherAttrs{0}), HasSubstr("want i32 or i64"));
  EXPECT_THAT(refusal(where, {f32({3}), f32({3}), f32({3})}, WhereAttrs{}), HasSubstr("input 0 (condition)"));
  EXPECT_THAT(refusal(cast, {f32({3})}, CastAttrs{DType::c64}), HasSubstr("f32 to c64"));
  EXPECT_THAT(refusal(binary, {f32({3}), f32({2})}, BinaryAttrs{}), HasSubstr("do not broadcast"));
  EXPECT_THAT(refusal(reduce, {f32({3, 4})}, ReduceAttrs{ReduceAttrs::Kind::sum, {1, 0}}), HasSubstr("axes must rise"));
}

TEST(Movement, KeepsSymbolsThatItDoesNotCount) {
  const Dim tokens = Dim::symbol(0);
  const auto joined = concat.infer(std::vector{f32({tokens, 4}), f32({3, 4})}, ConcatAttrs{0});
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ((*joined)[0], f32({tokens + 3, 4}));
  const auto sum = binary.infer(std::vector{f32({tokens, 1}), f32({4})}, BinaryAttrs{});
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ((*sum)[0], f32({tokens, 4}));
}

TEST(Gather, ReportsAnIndexOutsideAndGivesZerosThere) {
  float x[3] = {1, 2, 3};
  int64_t index[3] = {2, -4, 0};
  const Attrs attrs = GatherAttrs{0};
  const Arg inputs[] = {{.tensor = view_of(x, DType::f32, {3})}, {.tensor = view_of(index, DType::i64, {3})}};
  int checked = 0;
  for (const Kernel* kernel : kernels_of(gather)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    float y[3] = {7, 7, 7};
    const Arg outputs[] = {{.tensor = view_of(y, DType::f32, {3})}};
    StepErrors errors;
    StepContext step;
    step.errors = &errors;
    TeamState state(1);
    Team team(state, 0);
    kernel->run(step, {.inputs = inputs, .outputs = outputs, .attrs = attrs, .node = 5}, team);
    int32_t node = -1;
    EXPECT_EQ(errors.take(&node).message(), "index -4: want -3 to 2");
    EXPECT_EQ(node, 5);
    EXPECT_THAT(y, ElementsAre(3, 0, 1));
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

class Doubling : public HostFunction {
 public:
  Status run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const override {
    if (inputs[0].as<float>()[0] < 0) return make_status(Code::invalid_argument, "below zero");
    outputs[0].as<float>()[0] = 2 * inputs[0].as<float>()[0];
    return {};
  }
};

TEST(Host, RunsItsFunctionAndReportsWhatItSays) {
  const Attrs attrs = HostAttrs{.name = "Doubling", .function = std::make_shared<Doubling>(), .outputs = {f32({1})}};
  EXPECT_EQ((*host.infer(std::vector{f32({1})}, attrs))[0], f32({1}));
  EXPECT_THAT(refusal(host, {f32({1})}, HostAttrs{.name = "Nothing"}), HasSubstr("Nothing: an operator on the host needs its function"));
  const std::vector<const Kernel*> kernels = kernels_of(host);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_TRUE(kernels[0]->outside_team);
  for (const float value : {3.0f, -3.0f}) {
    float x = value, y = 0;
    const Arg inputs[] = {{.tensor = view_of(&x, DType::f32, {1})}}, outputs[] = {{.tensor = view_of(&y, DType::f32, {1})}};
    StepErrors errors;
    StepContext step;
    step.errors = &errors;
    TeamState state(1);
    Team team(state, 0);
    kernels[0]->run(step, {.inputs = inputs, .outputs = outputs, .attrs = attrs, .node = 2}, team);
    EXPECT_EQ(errors.take(nullptr).ok(), value > 0);
    EXPECT_EQ(y, value > 0 ? 6.0f : 0.0f);
  }
}

}  // namespace
}  // namespace headrace::ops

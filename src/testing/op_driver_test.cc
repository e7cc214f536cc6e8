// Every op x case x kernel of this machine, through the driver, with those of the oneDNN plug-in where it is there; and the driver
// itself, on kernels that are wrong on purpose.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <tuple>

#include "core/half.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/gemm.h"
#include "ops/library_plugin.h"
#include "ops/rms_norm.h"
#include "ops/rope_kv_write.h"
#include "testing/compare.h"
#include "testing/op_case_runner.h"

namespace headrace::testing {
namespace {

// Cases above this need seconds of float64 loops: op_driver_slow_test.cc has them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kQuickWork = 3e6;  // ten times as slow
#else
constexpr double kQuickWork = 1e8;
#endif

class EveryOp : public ::testing::TestWithParam<const Op*> {};

TEST_P(EveryOp, HoldsOnEachCaseWithEachKernelOfThisMachine) {
  std::ignore = load_onednn_plugin();  // OneDnnPlugin's tests say whether it is there
  const Op& op = *GetParam();
  if (op.reference == nullptr) GTEST_SKIP() << "computed by a function that each node brings";
  const std::vector<OpCase> cases = op.cases();
  ASSERT_FALSE(cases.empty());
  int checked = 0;
  int index = 0;
  for (const OpCase& one : cases) {
    SCOPED_TRACE(one.name);
    ++index;  // teams of 2 and 3 take turns: starting threads is most of the time
    if (reference_work(op, one) > kQuickWork) continue;
    const Result<OpCheck> check = OpCheck::make(op, one);
    ASSERT_TRUE(check.has_value()) << check.error().to_string();
    for (const Kernel* kernel : kernels_of(op)) {
      if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
      SCOPED_TRACE(fmt::format("{} {}", isa_name(kernel->isa), kernel->name));
      const CaseReport report = check->check(*kernel, {.team_sizes = {1, 2 + index % 2}});
      checked += report.skipped ? 0 : 1;
      for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
    }
  }
  const bool of_devices = &op == &ops::rope_kv_write;  // what fuse_rope_kv_write makes for them alone: op_driver_cuda_test.cc proves it
  EXPECT_EQ(checked > 0, !op.effects.view && !of_devices);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, ::testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& param) { return std::string(param.param->name); });

// Skipped, with the reason, in a build without the plug-in: then every op runs on the kernels of kernels/cpu alone.
TEST(OneDnnPlugin, ServesConvolutionsAndProducts) {
  const auto plugin = load_onednn_plugin();
  if (!plugin) GTEST_SKIP() << plugin.error().message();
  for (const char* name : {"conv", "conv_transpose", "gemm", "conv_q8", "gemm_q8"}) {
    const Op& op = *find_op(name);
    int served = 0, cases = 0;
    for (const OpCase& one : op.cases()) {
      const Result<CaseData> data = make_case_data(op, one, false);
      ASSERT_TRUE(data.has_value()) << data.error().to_string();
      const KernelTarget target{.isa = detect_isa(), .row_invariant_only = false};
      const auto kernel = select_kernel(op, data->input_types, data->output_types, one.attrs, target);
      ASSERT_TRUE(kernel.has_value()) << one.name << ": " << kernel.error().to_string();
      served += (*kernel)->name == "onednn" ? 1 : 0;
      ++cases;
    }
    EXPECT_GT(served, cases / 2) << name;
    std::printf("%s: %s has %d of %d cases\n", (*plugin)->name, name, served, cases);
  }
}

// Two nodes with one constant share what is packed under one name.
TEST(OneDnnPlugin, NamesThePackedFormOfAMatrixAndOfItsTransposeApart) {
  const auto plugin = load_onednn_plugin();
  if (!plugin) GTEST_SKIP() << plugin.error().message();
  const auto prepare = [](const Op& op, const Attrs& attrs, const Shape& x, const Shape& weight, OwnPacked& packed) {
    const std::vector<ValueType> inputs = {ValueType::tensor(DType::f32, x), ValueType::tensor(DType::f32, weight)};
    const auto outputs = op.infer(inputs, attrs);
    ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();
    const auto kernel = select_kernel(op, inputs, *outputs, attrs, {.isa = detect_isa(), .row_invariant_only = false});
    ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
    ASSERT_EQ((*kernel)->name, "onednn");
    const std::vector<float> values(static_cast<size_t>(weight.elements({})), 1.0f);
    const std::byte* constants[] = {nullptr, reinterpret_cast<const std::byte*>(values.data())};
    const Bindings bindings;
    const auto state = (*kernel)->prepare({{inputs, *outputs, attrs, bindings}, constants, 1, packed});
    ASSERT_TRUE(state.has_value()) << state.error().to_string();
  };
  OwnPacked gemm, conv;
  for (const bool trans_b : {false, true}) prepare(ops::gemm, ops::GemmAttrs{.trans_b = trans_b}, {64, 128}, {128, 128}, gemm);
  for (const Op* op : {&ops::conv, &ops::conv_transpose}) prepare(*op, ops::ConvAttrs{}, {1, 14, 14, 64}, {64, 64, 3, 3}, conv);
  for (const OwnPacked* packed : {&gemm, &conv}) {
    ASSERT_EQ(packed->forms.size(), 2U);
    EXPECT_NE(packed->forms[0], packed->forms[1]);
  }
}

TEST(OneDnnPlugin, RunsATeamOnItsThreads) {
  const auto plugin = load_onednn_plugin();
  if (!plugin) GTEST_SKIP() << plugin.error().message();
  for (const int size : {1, 2, 3}) {
    TeamState state(size);
    std::atomic<int> ranks{0};
    struct Context {
      TeamState& state;
      std::atomic<int>& ranks;
    } context{state, ranks};
    const auto work = [](void* opaque, int rank) {
      auto& shared = *static_cast<Context*>(opaque);
      Team team(shared.state, rank);
      team.barrier();  // passes only if all members are there at once
      shared.ranks += 1 << rank;
    };
    EXPECT_TRUE((*plugin)->run_team(size, work, &context));
    EXPECT_EQ(ranks, (1 << size) - 1);
  }
}

TEST(ViewOps, MapTheWindowThatTheirReferenceCopies) {
  for (const Op* op : all_ops()) {
    if (!op->effects.view) continue;
    for (const OpCase& one : op->cases()) {
      SCOPED_TRACE(one.name);
      const Result<CaseData> data = make_case_data(*op, one);
      ASSERT_TRUE(data.has_value()) << data.error().to_string();
      Result<std::vector<HostTensor>> want = output_tensors(*data, data->inputs);
      ASSERT_TRUE(want.has_value());
      op->reference(one.attrs, data->inputs, *want);
      const Kernel none;
      const KernelMemory memory(*data, none, data->inputs, {}, {});
      const TensorView view = op->view(one.attrs, memory.args().inputs[0].tensor);
      const HostTensor& tensor = (*want)[0];
      ASSERT_EQ(std::vector<int64_t>(view.dims.begin(), view.dims.begin() + view.rank), tensor.dims);
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        int64_t place = 0;
        auto left = static_cast<int64_t>(i);
        for (int axis = view.rank - 1; axis >= 0; --axis) {
          place += left % view.dims[axis] * view.strides[axis];
          left /= view.dims[axis];
        }
        const double got = view.dtype == DType::f32 ? view.as<float>()[place] : to_float(view.as<f16>()[place]);
        EXPECT_EQ(got, tensor.values[i]);
      }
    }
  }
}

// Every attention kernel of this machine gives exactly `want`.
void expect_exactly(const CaseData& data, const HostTensor& want) {
  const Result<std::vector<HostTensor>> outputs = output_tensors(data, data.inputs);
  ASSERT_TRUE(outputs.has_value());
  for (const Kernel* kernel : kernels_of(ops::attention)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    const KernelMemory memory(data, *kernel, data.inputs, *outputs, {});
    TeamState state(1);
    Team team(state, 0);
    kernel->run({}, memory.args(), team);
    EXPECT_EQ(difference(memory.output(0), want, {0, 0}), "") << kernel->name;
  }
}

// A sequence of one key gives its value unchanged, so a pool that holds every half float shows each kernel's
// widening.
template <class Half>
void expect_every_value_unchanged(DType dtype) {
  constexpr int kHeads = 16;
  constexpr int kDim = 64;
  constexpr int kSeqs = 65536 / (kHeads * kDim);
  OpCase one{
      .name = "every value",
      .attrs = ops::AttentionAttrs{.heads = kHeads, .kv_heads = kHeads, .head_dim = kDim, .scale = 1.0f}};
  CaseInput starts{.dtype = DType::i32, .dims = {kSeqs + 1}};
  CaseInput contexts{.dtype = DType::i32, .dims = {kSeqs}, .values = std::vector<double>(kSeqs, 1.0)};
  CaseInput table{.dtype = DType::i32, .dims = {kSeqs, 1}};
  for (int i = 0; i <= kSeqs; ++i) starts.values.push_back(i);
  for (int i = 0; i < kSeqs; ++i) table.values.push_back(i + 1);
  one.inputs = {{.dims = {kSeqs, kHeads * kDim}},
                {.kind = ValueType::Kind::kv,
                 .dims = {kSeqs + 1},
                 .kv = {.heads = kHeads, .head_dim = kDim, .dtype = dtype}},
                starts,
                contexts,
                table};
  Result<CaseData> data = make_case_data(ops::attention, one);
  ASSERT_TRUE(data.has_value());
  HostTensor want{DType::f32, {kSeqs, kHeads * kDim}, {}};
  for (int bits = 0; bits < 65536; ++bits) {
    const double value = to_float(Half{static_cast<uint16_t>(bits)});
    const int seq = bits / (kHeads * kDim);
    const int head = bits / kDim % kHeads;
    data->inputs[1].kv->values[((seq + 1) * kHeads + head) * kKvBlockTokens * kDim + bits % kDim] = value;
    want.values.push_back(value);
  }
  expect_exactly(*data, want);
}

TEST(Attention, WidensEveryHalfFloatExactly) {
  expect_every_value_unchanged<f16>(DType::f16);
}
TEST(Attention, WidensEveryBfloatExactly) {
  expect_every_value_unchanged<bf16>(DType::bf16);
}

// The same for the codes of an i8 pool: -127 to 127 times a scale, rounded to float32 once.
TEST(Attention, GivesEveryCodeTimesItsScale) {
  constexpr int kDim = 255;
  const std::vector<float> scales = {1.0f, 0x1.fffffep-3f, 0x1.555556p-90f, 3e36f / 127, 0.0f};
  const auto seqs = static_cast<int64_t>(scales.size());
  OpCase one{.name = "every code", .attrs = ops::AttentionAttrs{.heads = 1, .kv_heads = 1, .head_dim = kDim, .scale = 1.0f}};
  CaseInput starts{.dtype = DType::i32, .dims = {seqs + 1}};
  CaseInput contexts{.dtype = DType::i32, .dims = {seqs}, .values = std::vector<double>(scales.size(), 1.0)};
  CaseInput table{.dtype = DType::i32, .dims = {seqs, 1}};
  for (int i = 0; i <= seqs; ++i) starts.values.push_back(i);
  for (int i = 0; i < seqs; ++i) table.values.push_back(i + 1);
  one.inputs = {{.dims = {seqs, kDim}},
                {.kind = ValueType::Kind::kv, .dims = {seqs + 1}, .kv = {.heads = 1, .head_dim = kDim, .dtype = DType::i8}},
                starts,
                contexts,
                table};
  Result<CaseData> data = make_case_data(ops::attention, one);
  ASSERT_TRUE(data.has_value());
  HostTensor want{DType::f32, {seqs, kDim}, {}};
  for (int64_t seq = 0; seq < seqs; ++seq) {
    for (int d = 0; d < kDim; ++d) {
      const double value = (d - 127) * static_cast<double>(scales[seq]);
      data->inputs[1].kv->values[(seq + 1) * kKvBlockTokens * kDim + d] = value;
      want.values.push_back(static_cast<float>(value));
    }
  }
  expect_exactly(*data, want);
}

// Two sequences of 2 and 40 queries over 200 and 210 keys, with a window of 50, so that blocks begin and end with tokens that
// no query sees.
class PoolWithNan : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int kWindow = 50, kDim = 16, kQueries[2] = {2, 40}, kContext[2] = {200, 210};
  static constexpr int kColumns = (210 + kKvBlockTokens - 1) / kKvBlockTokens;

  PoolWithNan() {
    one_ = {.name = "pool with nan",
            .attrs = ops::AttentionAttrs{.heads = 2, .kv_heads = 1, .head_dim = kDim, .scale = 0.25f, .window = kWindow}};
    one_.inputs = {{.dims = {kQueries[0] + kQueries[1], 2 * kDim}},
                   {.kind = ValueType::Kind::kv,
                    .dims = {1 + 2 * kColumns},
                    .kv = {.heads = 1, .head_dim = kDim, .window = kWindow, .dtype = GetParam()}},
                   {.dtype = DType::i32, .dims = {3}, .values = {0, kQueries[0], kQueries[0] + kQueries[1]}},
                   {.dtype = DType::i32, .dims = {2}, .values = {kContext[0], kContext[1]}},
                   {.dtype = DType::i32, .dims = {2, kColumns}}};
    for (int i = 0; i < 2 * kColumns; ++i) one_.inputs[4].values.push_back(1 + i);
    data_ = *make_case_data(ops::attention, one_);
  }
  // The place of a token's key and value in a HostKv.
  static int64_t at(int seq, int token) { return (kKvBlockTokens * (1 + seq * kColumns) + token) * int64_t{kDim}; }
  void fill(int seq, int begin, int end, double value) {
    HostKv& kv = *data_.inputs[1].kv;
    std::fill(kv.keys.begin() + at(seq, begin), kv.keys.begin() + at(seq, end), value);
    std::fill(kv.values.begin() + at(seq, begin), kv.values.begin() + at(seq, end), value);
  }
  std::vector<double> rows_of(const Kernel& kernel, int seq) const {
    const Result<std::vector<HostTensor>> outputs = output_tensors(data_, data_.inputs);
    const KernelMemory memory(data_, kernel, data_.inputs, *outputs, {});
    TeamState state(1);
    Team team(state, 0);
    kernel.run({}, memory.args(), team);
    const std::vector<double> all = memory.output(0).values;
    const auto begin = all.begin() + seq * kQueries[0] * 2 * kDim;
    return {begin, begin + kQueries[seq] * 2 * kDim};
  }

  OpCase one_;
  CaseData data_;
};

TEST_P(PoolWithNan, CountsNowhereOutsideTheKeysThatAreSeen) {
  for (const Kernel* kernel : kernels_of(ops::attention)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    data_ = *make_case_data(ops::attention, one_);
    const std::vector<double> want[2] = {rows_of(*kernel, 0), rows_of(*kernel, 1)};
    for (int seq = 0; seq < 2; ++seq) {
      fill(seq, 0, kContext[seq] - kQueries[seq] - kWindow + 1, std::nan(""));
      fill(seq, kContext[seq], kColumns * kKvBlockTokens, std::nan(""));
    }
    for (int seq = 0; seq < 2; ++seq) EXPECT_EQ(rows_of(*kernel, seq), want[seq]) << kernel->name;
  }
}

TEST_P(PoolWithNan, StaysInItsSequence) {
  for (const Kernel* kernel : kernels_of(ops::attention)) {
    if (kernel->device != DeviceKind::cpu || kernel->isa > detect_isa()) continue;
    data_ = *make_case_data(ops::attention, one_);
    const std::vector<double> want[2] = {rows_of(*kernel, 0), rows_of(*kernel, 1)};
    constexpr int kBad = 190, kFirstSeeing = kBad - (kContext[1] - kQueries[1]);  // of the second sequence's queries
    fill(1, kBad, kBad + 1, std::nan(""));
    EXPECT_EQ(rows_of(*kernel, 0), want[0]) << kernel->name;
    const std::vector<double> got = rows_of(*kernel, 1);
    for (size_t i = kFirstSeeing * 2 * kDim; i < got.size(); ++i) ASSERT_TRUE(std::isnan(got[i])) << kernel->name << " " << i;
    // A code is always a number, so that a weight of 0 hides it: the rows before keep their values too.
    for (size_t i = 0; GetParam() == DType::i8 && i < kFirstSeeing * 2 * kDim; ++i) {
      ASSERT_EQ(got[i], want[1][i]) << kernel->name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PoolWithNan, ::testing::Values(DType::f32, DType::f16, DType::bf16, DType::i8),
                         [](const auto& param) { return std::string(dtype_name(param.param)); });

// ---- the driver's own test: rms_norm done wrong in one way each ---------------------------------

using Mistake = void (*)(const NodeArgs& args, Team& team, int64_t row, float* y);

template <Mistake mistake>
void run_wrong(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const auto* weight = reinterpret_cast<const float*>(args.inputs[1].weight.data);
  const Team::Range rows = team.share(x.dims[0]);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* in = x.row<float>(row);
    float* y = args.outputs[0].tensor.row<float>(row);
    const int64_t width = x.dims[1] / attrs.heads;
    for (int64_t head = 0; head < x.dims[1]; head += width) {
      double squares = 0;
      for (int64_t i = head; i < head + width; ++i) squares += static_cast<double>(in[i]) * static_cast<double>(in[i]);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(attrs.eps));
      for (int64_t i = head; i < head + width; ++i) {
        y[i] = static_cast<float>(static_cast<double>(in[i]) * inverse) * (weight[i - head] + attrs.offset);
      }
    }
    mistake(args, team, row, y);
  }
}

bool weight_and_matrix(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  const bool floats = inputs[0].dtype == DType::f32 && outputs[0].dtype == DType::f32;
  return floats && inputs[0].shape.rank() == 2 && inputs[1].kind == ValueType::Kind::weight;
}

std::string first_failure(void (*run)(const StepContext&, const NodeArgs&, Team&),
                          bool row_invariant = true) {
  const Kernel kernel{.op = &ops::rms_norm,
                      .name = "wrong",
                      .row_invariant = row_invariant,
                      .layout = WeightLayout::dense_f32,
                      .supports = weight_and_matrix,
                      .run = run};
  for (const OpCase& one : ops::rms_norm.cases()) {
    if (one.bench) continue;
    const Result<OpCheck> check = OpCheck::make(ops::rms_norm, one);
    CHECK(check.has_value());
    const CaseReport report = check->check(kernel);
    if (!report.failures.empty()) return report.failures[0];
  }
  return "none";
}

void no_mistake(const NodeArgs&, Team&, int64_t, float*) {}
void slightly_off(const NodeArgs&, Team&, int64_t row, float* y) {
  y[0] += row == 1 ? 1e-3f : 0.0f;
}
void row_left_out(const NodeArgs& args, Team&, int64_t row, float* y) {
  if (row == args.inputs[0].tensor.dims[0] - 1) y[0] = NAN;
}
void writes_behind(const NodeArgs& args, Team&, int64_t, float* y) {
  y[args.inputs[0].tensor.dims[1]] = 0;
}
void writes_before(const NodeArgs&, Team&, int64_t row, float* y) {
  if (row == 0) y[-1] = 0;
}
void writes_input(const NodeArgs& args, Team&, int64_t row, float*) {
  args.inputs[0].tensor.row<float>(row)[0] += 1;
}
void writes_weight(const NodeArgs& args, Team&, int64_t, float*) {
  const_cast<std::byte*>(args.inputs[1].weight.data)[0] ^= std::byte{1};
}
// One unit in the last place when the batch has more than one row: within any tolerance, but not invariant.
void knows_the_batch(const NodeArgs& args, Team&, int64_t, float* y) {
  if (args.inputs[0].tensor.dims[0] > 1) y[0] = std::nextafter(y[0], 1e30f);
}
void knows_the_team(const NodeArgs&, Team& team, int64_t, float* y) {
  if (team.size() == 3) y[0] = std::nextafter(y[0], 1e30f);
}

TEST(OpDriver, AcceptsAKernelThatIsRight) {
  EXPECT_EQ(first_failure(run_wrong<no_mistake>), "none");
}
TEST(OpDriver, CatchesAValueOutsideTheTolerance) {
  EXPECT_NE(first_failure(run_wrong<slightly_off>).find("output 0 at [1, 0]"), std::string::npos);
}
TEST(OpDriver, CatchesARowThatWasLeftOut) {
  EXPECT_NE(first_failure(run_wrong<row_left_out>).find("got nan"), std::string::npos);
}
TEST(OpDriver, CatchesWritesBehindTheOutput) {
  EXPECT_NE(first_failure(run_wrong<writes_behind>).find("not the kernel's to write"), std::string::npos);
}
TEST(OpDriver, CatchesWritesBeforeTheOutput) {
  EXPECT_NE(first_failure(run_wrong<writes_before>).find("byte -4 of"), std::string::npos);
}
TEST(OpDriver, CatchesWritesToInputs) {
  EXPECT_NE(first_failure(run_wrong<writes_input>).find("input 0"), std::string::npos);
  EXPECT_NE(first_failure(run_wrong<writes_weight>).find("input 1"), std::string::npos);
}
TEST(OpDriver, CatchesARowThatDependsOnItsBatch) {
  EXPECT_NE(first_failure(run_wrong<knows_the_batch>).find("alone and in the batch"), std::string::npos);
  EXPECT_EQ(first_failure(run_wrong<knows_the_batch>, false), "none");
}
TEST(OpDriver, CatchesResultsThatDependOnTheTeam) {
  EXPECT_NE(first_failure(run_wrong<knows_the_team>).find("a team of 3 differs"), std::string::npos);
}

// A kv_write that stores nothing.
TEST(OpDriver, CatchesStateThatWasNotWrittenAsItShould) {
  const auto nothing = [](const StepContext&, const NodeArgs&, Team&) {};
  const OpCase write = ops::kv_write.cases()[0];
  const Result<OpCheck> check = OpCheck::make(ops::kv_write, write);
  ASSERT_TRUE(check.has_value());
  const CaseReport report = check->check({.op = &ops::kv_write, .name = "wrong", .run = nothing});
  ASSERT_FALSE(report.failures.empty());
  EXPECT_NE(report.failures[0].find("state in input 3"), std::string::npos);
}

}  // namespace
}  // namespace headrace::testing

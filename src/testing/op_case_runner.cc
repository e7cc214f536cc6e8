#include "testing/op_case_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/log.h"
#include "ops/device_plugin.h"
#include "testing/compare.h"

namespace headrace::testing {
namespace {

// One launch on a stream of its own, waited for. A failed launch leaves the outputs as garbage, which the comparison shows.
void run_on_device(const Kernel& kernel, const NodeArgs& args) {
  const DevicePlugin& plugin = **load_cuda_plugin();
  StepContext step;
  CHECK(plugin.make_stream(0, &step.stream));
  TeamState state(1);
  Team team(state, 0);
  kernel.run(step, args, team);
  if (!plugin.synchronize(step.stream)) log_error("{}: {}", kernel.name, plugin.last_error());
  plugin.drop_stream(0, step.stream);
}

// Every member on a thread of its own, with the barriers that the executor places.
void run_on_team(const Kernel& kernel, const NodeArgs& args, int team_size) {
  if (kernel.device == DeviceKind::cuda) return run_on_device(kernel, args);
  if (kernel.outside_team) team_size = 1;
  TeamState state(team_size);
  const auto member = [&](int rank) {
    Team team(state, rank);
    kernel.run(StepContext{}, args, team);
    team.barrier();
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < team_size; ++rank) threads.emplace_back(member, rank);
  member(0);
  for (std::thread& thread : threads) thread.join();
}

bool any_strided(const OpCase& declared) {
  return std::any_of(declared.inputs.begin(), declared.inputs.end(),
                     [](const CaseInput& input) { return input.strided; });
}

// Deep copies of what a run may change.
std::vector<HostValue> with_own_state(const Op& op, std::span<const HostValue> inputs) {
  std::vector<HostValue> copies(inputs.begin(), inputs.end());
  for (HostValue& value : copies) {
    if (value.kv != nullptr) value.kv = std::make_shared<HostKv>(*value.kv);
    if (op.effects.writes_state) value.state = std::make_shared<HostTensor>(value.tensor);
  }
  return copies;
}

// The first element at which two tensors differ in a bit; empty when none.
std::string bit_difference(const HostTensor& got, const HostTensor& want) {
  if (got.dims != want.dims) return "other dims";
  for (size_t i = 0; i < want.values.size(); ++i) {
    if (same_bits(got.values[i], want.values[i])) continue;
    return fmt::format("at {}: {:.9g} and {:.9g}", place_of(want.dims, static_cast<int64_t>(i)),
                       got.values[i], want.values[i]);
  }
  return {};
}

}  // namespace

double reference_work(const Op& op, const OpCase& declared) {
  if (for_devices_alone(declared)) return std::numeric_limits<double>::infinity();
  std::vector<ValueType> inputs;
  double elements = 0;
  for (const CaseInput& input : declared.inputs) {
    Shape shape;
    double count = 1;
    for (const int64_t dim : input.dims) {
      shape.push_back(dim);
      count *= static_cast<double>(dim);
    }
    elements += count;
    ValueType type{input.kind, input.dtype, input.format, shape, input.kv};
    if (input.kind == ValueType::Kind::kv) type = ValueType::kv_layer(input.kv);
    inputs.push_back(type);
  }
  const auto outputs = op.infer(inputs, declared.attrs);
  if (!outputs) return 0;
  return op.cost({inputs, *outputs, declared.attrs, Bindings()}).flops + 20 * elements;
}

Result<OpCheck> OpCheck::make(const Op& op, const OpCase& declared) {
  OpCheck check;
  HR_ASSIGN_OR_RETURN(check.data_, make_case_data(op, declared));
  HR_ASSIGN_OR_RETURN(check.expected_, output_tensors(check.data_, check.data_.inputs));
  check.after_ = with_own_state(op, check.data_.inputs);
  op.reference(declared.attrs, check.after_, check.expected_);
  check.tolerance_ = op.tolerance(check.data_.input_types, declared.attrs);
  return check;
}

struct OpCheck::Run {
  std::unique_ptr<KernelMemory> memory;
  std::vector<HostTensor> outputs;
};

OpCheck::Run OpCheck::run(const Kernel& kernel, std::span<const HostValue> inputs,
                          const KernelMemory::Options& options) const {
  const Result<std::vector<HostTensor>> outputs = output_tensors(data_, inputs);
  CHECK(outputs.has_value());
  Run run{std::make_unique<KernelMemory>(data_, kernel, inputs, *outputs, options), {}};
  run_on_team(kernel, run.memory->args(), options.team_size);
  for (size_t i = 0; i < outputs->size(); ++i) run.outputs.push_back(run.memory->output(static_cast<int>(i)));
  return run;
}

void OpCheck::check_values(const Run& run, std::vector<std::string>& failures) const {
  for (size_t i = 0; i < expected_.size(); ++i) {
    const std::string what = difference(run.outputs[i], expected_[i], tolerance_);
    if (!what.empty()) failures.push_back(fmt::format("output {} {}", i, what));
  }
  check_state(run, failures);
  if (const std::string what = run.memory->damage(); !what.empty()) failures.push_back(what);
}

void OpCheck::check_state(const Run& run, std::vector<std::string>& failures) const {
  for (size_t i = 0; i < after_.size() && data_.op->effects.writes_state; ++i) {
    const int index = static_cast<int>(i);
    std::string what;
    if (after_[i].kv != nullptr) {
      const HostKv got = run.memory->input_kv(index);
      const auto flat = [](const std::vector<double>& values) {
        return HostTensor{DType::f32, {static_cast<int64_t>(values.size())}, values};
      };
      what = difference(flat(got.keys), flat(after_[i].kv->keys), tolerance_);
      if (what.empty()) what = difference(flat(got.values), flat(after_[i].kv->values), tolerance_);
    } else if (data_.input_types[i].kind == ValueType::Kind::tensor) {
      what = difference(run.memory->input_tensor(index), *after_[i].state, {0, 0});
    }
    if (!what.empty()) failures.push_back(fmt::format("state in input {} {}", i, what));
  }
}

void OpCheck::check_in_place(const Kernel& kernel, const Run& plain,
                             std::vector<std::string>& failures) const {
  for (const auto& [output, input] : data_.op->in_place) {
    if (data_.declared->inputs[input].strided) continue;  // a window of another value is never taken over
    const HostTensor& from = data_.inputs[input].tensor;  // nor one of another size
    if (from.values.size() != expected_[output].values.size() || dtype_bytes(from.dtype) != dtype_bytes(expected_[output].dtype)) continue;
    const Run run_in_place =
        run(kernel, data_.inputs, {.team_size = 1, .in_place_output = output, .in_place_input = input});
    for (size_t i = 0; i < plain.outputs.size(); ++i) {
      const std::string what = bit_difference(run_in_place.outputs[i], plain.outputs[i]);
      if (!what.empty())
        failures.push_back(
            fmt::format("output {} with output {} in place of input {}: {}", i, output, input, what));
    }
  }
}

void OpCheck::check_rows_alone(const Kernel& kernel, const Run& batch, int max_rows,
                               std::vector<std::string>& failures) const {
  if (expected_.empty() || expected_[0].dims.empty()) return;
  const int64_t rows = expected_[0].dims[0];
  const int64_t step = std::max<int64_t>(1, (rows + max_rows - 1) / max_rows);
  for (int64_t i = 0; i < rows; i += step) {
    const int64_t row = std::min(rows - 1, i + (i / step) % step);  // not always the same place in a tile
    std::vector<HostValue> inputs;
    if (data_.op->row_alone != nullptr) {
      inputs = data_.op->row_alone(data_.declared->attrs, data_.inputs, row);
      if (inputs.empty()) continue;
    } else {
      inputs = data_.inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        HostTensor& tensor = inputs[k].tensor;
        if (data_.input_types[k].kind != ValueType::Kind::tensor || tensor.dims.empty() ||
            tensor.dims[0] != rows)
          continue;
        const int64_t width = static_cast<int64_t>(tensor.values.size()) / rows;
        tensor.values = {tensor.values.begin() + row * width, tensor.values.begin() + (row + 1) * width};
        tensor.dims[0] = 1;
      }
    }
    const Run alone = run(kernel, inputs, {.team_size = 1});
    for (size_t k = 0; k < batch.outputs.size(); ++k) {
      const HostTensor& whole = batch.outputs[k];
      if (whole.dims[0] != rows) continue;
      const int64_t width = static_cast<int64_t>(whole.values.size()) / rows;
      const std::vector<double>& got = alone.outputs[k].values;
      const HostTensor row_alone{whole.dtype, {width}, {got.end() - width, got.end()}};
      const HostTensor in_batch{
          whole.dtype,
          {width},
          {whole.values.begin() + row * width, whole.values.begin() + (row + 1) * width}};
      const std::string what = bit_difference(row_alone, in_batch);
      if (!what.empty())
        failures.push_back(fmt::format("row {} of output {} alone and in the batch {}", row, k, what));
    }
  }
}

void OpCheck::check_by_rows(const Kernel& kernel, const Run& plain, std::vector<std::string>& failures) const {
  constexpr int kMembers = 3;
  TeamState state(kMembers);
  for (int rank = 0; rank < kMembers; ++rank) {
    Team member(state, rank);
    const int64_t rows = expected_[0].dims[0];
    const Team::Range own = member.share(rows);
    std::vector<HostValue> inputs = data_.inputs;
    for (HostValue& input : inputs) {
      HostTensor& tensor = input.tensor;
      if (tensor.dims.size() != 2 || tensor.dims[0] != rows || tensor.dtype != DType::f32) continue;
      if (data_.input_types[&input - inputs.data()].kind != ValueType::Kind::tensor) continue;
      const int64_t width = static_cast<int64_t>(tensor.values.size()) / std::max<int64_t>(1, rows);
      std::fill(tensor.values.begin(), tensor.values.begin() + own.begin * width, std::nan(""));
      std::fill(tensor.values.begin() + own.end * width, tensor.values.end(), std::nan(""));
    }
    KernelMemory memory(data_, kernel, inputs, expected_, {.team_size = kMembers});
    std::vector<HostTensor> before;
    for (size_t i = 0; i < expected_.size(); ++i) before.push_back(memory.output(static_cast<int>(i)));
    kernel.run(StepContext{}, memory.args(), member);
    for (size_t i = 0; i < expected_.size(); ++i) {
      HostTensor want = before[i];
      const int64_t width = static_cast<int64_t>(want.values.size()) / std::max<int64_t>(1, rows);
      std::copy(plain.outputs[i].values.begin() + own.begin * width, plain.outputs[i].values.begin() + own.end * width,
                want.values.begin() + own.begin * width);
      const std::string what = bit_difference(memory.output(static_cast<int>(i)), want);
      if (!what.empty()) {
        failures.push_back(fmt::format("output {}: member {} of {} alone, with rows {} to {} {}", i, rank, kMembers, own.begin,
                                       own.end, what));
      }
    }
  }
}

void OpCheck::check_constants(const Kernel& kernel, const Run& plain, const CheckOptions& options,
                              std::vector<std::string>& failures) const {
  const Run now = run(kernel, data_.inputs,
                      {.team_size = options.team_sizes.back(), .strided_outputs = any_strided(*data_.declared), .constants = true});
  std::vector<std::string> found;
  check_values(now, found);
  for (size_t i = 0; i < now.outputs.size() && !kernel.outside_team; ++i) {
    const std::string what = bit_difference(now.outputs[i], plain.outputs[i]);
    if (!what.empty()) found.push_back(fmt::format("output {} differs {}", i, what));
  }
  for (const std::string& what : found) failures.push_back("with constants: " + what);
}

CaseReport OpCheck::check(const Kernel& kernel, const CheckOptions& options) const {
  CaseReport report;
  const Attrs& attrs = data_.declared->attrs;
  if (kernel.supports != nullptr && !kernel.supports(data_.input_types, data_.output_types, attrs)) {
    report.skipped = true;
    return report;
  }
  std::unique_ptr<Run> first;
  for (const int team_size : options.team_sizes) {
    auto now = std::make_unique<Run>(
        run(kernel, data_.inputs, {.team_size = team_size, .strided_outputs = any_strided(*data_.declared)}));
    std::vector<std::string> failures;
    check_values(*now, failures);
    for (std::string& what : failures)
      report.failures.push_back(fmt::format("team of {}: {}", team_size, what));
    if (first == nullptr) {
      first = std::move(now);
      continue;
    }
    for (size_t i = 0; i < first->outputs.size() && !kernel.outside_team; ++i) {
      const std::string what = bit_difference(now->outputs[i], first->outputs[i]);
      if (!what.empty())
        report.failures.push_back(fmt::format("output {}: a team of {} differs {}", i, team_size, what));
    }
  }
  if (kernel.prepare != nullptr) check_constants(kernel, *first, options, report.failures);
  check_in_place(kernel, *first, report.failures);
  if (kernel.by_rows) check_by_rows(kernel, *first, report.failures);
  if (kernel.row_invariant) check_rows_alone(kernel, *first, options.max_rows_alone, report.failures);
  return report;
}

}  // namespace headrace::testing

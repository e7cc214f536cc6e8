#include "runtime/local_runner.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "models/kv_groups.h"

namespace headrace::runtime {
namespace {

// "block_table.2" -> the field and group 2; a field without groups has group 0.
bool parse_input_name(std::string_view name, StepField& field, int& group) {
  const size_t dot = name.find('.');
  group = 0;
  if (dot != std::string_view::npos) {
    const std::string_view digits = name.substr(dot + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), group).ec != std::errc()) return false;
  }
  for (int i = 0; i < kNumStepFields; ++i) {
    if (name.substr(0, dot) == step_field_name(static_cast<StepField>(i))) {
      field = static_cast<StepField>(i);
      return true;
    }
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<LocalRunner>> LocalRunner::open(const io::ModelSource& source,
                                                       std::shared_ptr<DeviceQueue> queue, RunnerOptions options) {
  const bool on_cpu = queue->accelerator() == nullptr;
  std::unique_ptr<LocalRunner> runner = (on_cpu ? make_cpu_runner : make_accelerator_runner)(std::move(queue), std::move(options));
  HR_RETURN_IF_ERROR(runner->build(source));
  return runner;
}

Status LocalRunner::build(const io::ModelSource& source) {
  const bool on_cpu = queue_->accelerator() == nullptr;
  HR_ASSIGN_OR_RETURN(step_, StepProgram::build(source, {.policy = options_.policy,
                                                         .skip_passes = options_.skip_passes,
                                                         .isa = options_.isa,
                                                         .device = on_cpu ? DeviceKind::cpu : DeviceKind::cuda,
                                                         .row_invariant = on_cpu || options_.row_invariant,
                                                         .threads = queue_->threads(),
                                                         .max_context = options_.max_context,
                                                         .max_seqs = options_.max_seqs,
                                                         .max_tokens = options_.max_tokens,
                                                         .max_logit_rows = options_.max_logit_rows}));
  Program& program = *step_.program;
  weights_ = std::make_unique<WeightStore>(source, *queue_, options_.model_name);
  HR_RETURN_IF_ERROR(weights_->prepare(program.weight_requests(), options_.progress));
  HR_RETURN_IF_ERROR(program.bind_weights(*weights_));

  // One arena, as large as the largest bucket needs; a smaller bucket's plan is used when it fits, which it does but for
  // an unlucky packing.
  const MemoryPlan& largest = program.plan_for(step_.bucket(step_.limits.max_tokens));
  HR_ASSIGN_OR_RETURN(arena_, Buffer::allocate(queue_->ledger(), Account::arena, options_.model_name,
                                               uint64_t(largest.arena_bytes)));
  program.bind_arena(arena_.data(), largest.arena_bytes);
  HR_ASSIGN_OR_RETURN(last_token_, Buffer::allocate(queue_->ledger(), Account::arena, options_.model_name,
                                                    uint64_t(step_.limits.num_slots) * sizeof(int32_t)));

  limits_.max_tokens = int32_t(step_.limits.max_tokens);
  limits_.max_seqs = int32_t(step_.limits.max_seqs);
  limits_.max_logit_rows = int32_t(step_.limits.max_logit_rows);
  limits_.max_context = step_.max_context;
  limits_.vocab_size = int32_t(step_.info.vocab_size);
  limits_.embedding_size = int32_t(step_.info.embedding_size);
  const std::vector<int> group_of_layer = models::group_of_layer(step_.info.layer_kv);
  HR_RETURN_IF_ERROR(place_kv(group_of_layer));
  HR_RETURN_IF_ERROR(bind_inputs(group_of_layer));
  HR_RETURN_IF_ERROR(find_outputs());
  return prepare_device();
}

// Gives every group `blocks` blocks, those with a window no more than max_seqs sequences can hold at once, and one to spare for each.
// Returns the bytes of the pools.
uint64_t LocalRunner::set_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t blocks) const {
  uint64_t bytes = 0;
  for (KvPool::GroupSpec& group : groups) {
    const int64_t per_seq = kv_window_blocks(group.spec.window, int64_t{limits_.max_tokens} * (limits_.pipeline_depth + 1));
    const int64_t most = group.spec.window > 0 ? (per_seq + 1) * limits_.max_seqs + 1 : blocks;
    group.num_blocks = int32_t(std::min(blocks, most));
    const int64_t whole_runs = (group.num_blocks + kKvRunBlocks - 1) / kKvRunBlocks * kKvRunBlocks;
    bytes += uint64_t(whole_runs) * uint64_t(group.spec.block_bytes()) * uint64_t(group.num_layers);
  }
  return bytes;
}

// The most blocks, up to `wanted`, that `budget` bytes pay for.
int64_t LocalRunner::most_blocks(std::vector<KvPool::GroupSpec>& groups, int64_t wanted, uint64_t budget) const {
  int64_t fits = 0, too_many = wanted + 1;
  while (too_many - fits > 1) {
    const int64_t blocks = fits + (too_many - fits) / 2;
    (set_blocks(groups, blocks) <= budget ? fits : too_many) = blocks;
  }
  return fits;
}

Status LocalRunner::place_kv(const std::vector<int>& group_of_layer) {
  std::vector<KvPool::GroupSpec> groups;
  for (size_t layer = 0; layer < step_.info.layer_kv.size(); ++layer) {
    const size_t group = size_t(group_of_layer[layer]);
    if (group == groups.size()) groups.push_back({step_.info.layer_kv[layer], 0, 0});
    ++groups[group].num_layers;
  }
  if (!groups.empty()) {
    const uint64_t limit = queue_->ledger().limit();
    const uint64_t held = queue_->ledger().total();
    const uint64_t budget = limit == 0 ? options_.kv_budget_bytes : (limit > held ? limit - held : 0);
    const int64_t per_seq = kv_blocks_for(limits_.max_context);
    int64_t blocks = options_.kv_tokens > 0 ? kv_blocks_for(options_.kv_tokens) + 1 : per_seq * limits_.max_seqs + 1;
    // Two blocks are the least that anything runs in: the trash block and one of a sequence.
    const int64_t least = options_.kv_tokens > 0 ? blocks : 2;
    blocks = most_blocks(groups, blocks, limit == 0 && options_.kv_tokens > 0 ? std::numeric_limits<uint64_t>::max() : budget);
    if (blocks < least) {
      return make_status(Code::resource_exhausted,
                         "memory: the KV cache wants at least {} bytes for {} blocks of {} tokens, {} are left; raise --memory or "
                         "lower --kv-tokens",
                         set_blocks(groups, least), least, kKvBlockTokens, budget);
    }
    set_blocks(groups, blocks);
    limits_.max_context = int32_t(std::min<int64_t>(limits_.max_context, (blocks - 1) * kKvBlockTokens));
  }
  HR_ASSIGN_OR_RETURN(kv_, KvPool::create(queue_->ledger(), options_.model_name, std::move(groups)));
  for (const KvPool::GroupSpec& group : kv_.groups()) {
    limits_.groups.push_back({group.spec, group.num_layers, group.num_blocks});
  }
  return Status();
}

Status LocalRunner::bind_inputs(const std::vector<int>& group_of_layer) {
  const Graph& graph = step_.program->graph();
  std::vector<int> index_in_group(kv_.groups().size(), 0);
  std::vector<int> index_of_layer(group_of_layer.size(), 0);
  for (size_t layer = 0; layer < group_of_layer.size(); ++layer) {
    index_of_layer[layer] = index_in_group[size_t(group_of_layer[layer])]++;
  }
  input_data_.assign(graph.values.size(), nullptr);
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.role == ValueRole::state) {
      Arg arg;
      if (value.type.kind == ValueType::Kind::kv) {
        arg.kv = kv_.layer(group_of_layer[size_t(value.layer)], index_of_layer[size_t(value.layer)]);
      } else if (value.name == "last_token") {
        arg.tensor = contiguous_view(last_token_.data(), DType::i32, {Dim(step_.limits.num_slots)}, Bindings());
      } else {
        return make_status(Code::internal, "state {}: this runner has none of that name", value.name);
      }
      step_.program->bind_state(ValueId(id), arg);
    } else if (value.role == ValueRole::input) {
      InputSource source{ValueId(id), StepField::token_src, 0};
      if (!parse_input_name(value.name, source.field, source.group)) {
        return make_status(Code::internal, "input {}: not a field of the step plan", value.name);
      }
      inputs_.push_back(source);
    }
  }
  return Status();
}

Status LocalRunner::find_outputs() {
  static constexpr std::string_view kNames[kNumOutputs] = {"tokens", "logits", "logprobs", "top_ids", "top_logprobs", "embeddings"};
  for (int output = 0; output < kNumOutputs; ++output) {
    if ((output == kEmbeddings) != (limits_.embedding_size > 0)) continue;
    for (const GraphOutput& made : step_.program->graph().outputs) {
      if (made.name == kNames[output]) outputs_[output] = made.value;
    }
    if (outputs_[output] == kNone) return make_status(Code::internal, "step program: no output {}", kNames[output]);
  }
  return Status();
}

Status LocalRunner::check(const StepPlan& plan) const {
  const StepHeader& header = plan.header();
  const StepCounts& c = header.counts;
  if (!StepPlan::valid(plan.block()) || c.tokens < 1 || c.tokens > limits_.max_tokens || c.seqs < 1 ||
      c.seqs > limits_.max_seqs || c.seqs > c.tokens || c.logit_rows > std::min(c.tokens, limits_.max_logit_rows) ||
      c.groups != int(limits_.groups.size()) || c.blocks > step_.limits.max_blocks) {
    return make_status(Code::invalid_argument,
                       "step {}: {} tokens, {} sequences, {} logit rows, {} groups, {} blocks; the runner takes {} tokens, {} "
                       "sequences, {} logit rows, {} groups, {} blocks",
                       header.step, c.tokens, c.seqs, c.logit_rows, c.groups, c.blocks, limits_.max_tokens, limits_.max_seqs,
                       limits_.max_logit_rows, limits_.groups.size(), step_.limits.max_blocks);
  }
  return Status();
}

Status LocalRunner::copy_blocks(const StepPlan& plan, const std::function<Status(int32_t, int32_t, int32_t)>& copy) const {
  const StepHeader& header = plan.header();
  for (int32_t i = 0; i < header.counts.copies; ++i) {
    const int32_t group = plan.ints(StepField::copy_group)[i];
    const int32_t from = plan.ints(StepField::copy_src)[i], to = plan.ints(StepField::copy_dst)[i];
    if (group < 0 || group >= header.counts.groups || std::min(from, to) < 1 || std::max(from, to) >= limits_.groups[group].num_blocks) {
      return make_status(Code::invalid_argument, "step {}: no copy of block {} to block {} in group {}", header.step, from, to, group);
    }
    HR_RETURN_IF_ERROR(copy(group, from, to));
  }
  return Status();
}

void LocalRunner::place_inputs(const StepHeader& header, std::byte* block) {
  const StepCounts& c = header.counts;
  for (const InputSource& input : inputs_) {
    std::byte* data = block + header.offsets[static_cast<int>(input.field)];
    if (input.field == StepField::kv_slot) data += int64_t(input.group) * c.tokens * 4;
    if (input.field == StepField::block_table) data += int64_t(input.group) * c.seqs * c.blocks * 4;
    input_data_[size_t(input.value)] = data;
  }
}

Bindings LocalRunner::sizes_of(const StepCounts& counts) const {
  Bindings sizes;
  sizes.set(step_.tokens, counts.tokens);
  sizes.set(step_.seqs, counts.seqs);
  sizes.set(step_.rows, counts.logit_rows);
  sizes.set(step_.blocks, counts.blocks);
  sizes.set(step_.biases, counts.biases);
  sizes.set(step_.history, counts.history);
  return sizes;
}

Bindings LocalRunner::fitting_bucket(int32_t tokens) const {
  const Bindings bucket = step_.bucket(tokens);
  const bool fits = step_.program->plan_for(bucket).arena_bytes <= int64_t(arena_.bytes());
  return fits ? bucket : step_.bucket(limits_.max_tokens);
}

int64_t LocalRunner::wanted(Output output, const StepHeader& header) const {
  const int64_t rows = header.counts.logit_rows;
  const bool logprobs = (header.flags & kWantLogprobs) != 0;
  if (outputs_[output] == kNone) return 0;
  switch (output) {
    case kTokens: return rows;
    case kLogits: return (header.flags & kWantLogits) != 0 ? rows * limits_.vocab_size : 0;
    case kLogprobs: return logprobs ? rows : 0;
    case kTopIds:
    case kTopLogprobs: return logprobs ? rows * kMaxLogprobs : 0;
    case kEmbeddings: return int64_t{header.counts.seqs} * limits_.embedding_size;
    case kNumOutputs: break;
  }
  return 0;
}

void LocalRunner::take_result(const StepHeader& header, const void* const (&from)[kNumOutputs], StepResult& result) const {
  const auto take = [&](Output output, auto& to) {
    const auto* first = static_cast<const std::remove_reference_t<decltype(to[0])>*>(from[output]);
    to.assign(first, first + wanted(output, header));
  };
  result.step = header.step;
  take(kTokens, result.tokens);
  take(kLogits, result.logits);
  take(kLogprobs, result.logprobs);
  take(kTopIds, result.top_ids);
  take(kTopLogprobs, result.top_logprobs);
  take(kEmbeddings, result.embeddings);
}

RunnerMemory LocalRunner::memory() const {
  const MemoryLedger& ledger = queue_->ledger();
  return {weights_->bytes(), kv_.bytes(), arena_.bytes(), ledger.peak()};
}

}  // namespace headrace::runtime

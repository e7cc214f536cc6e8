#pragma once
// The golden prompts of tests/golden/tiny_decoders (transformers in float64, tools/golden/tiny_decoders.py) and the way to run one through a
// runner. A header alone, so that the tests of `runtime` can use it.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "runtime/local_runner.h"
#include "testing/golden.h"

namespace headrace::testing {

struct DecoderGolden {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // [ids][vocab]
};

inline DecoderGolden read_decoder_golden(const std::string& name) {
  DecoderGolden golden;
  const auto file = io::SafetensorsFile::open(golden_path("tiny_decoders/" + name + "/golden.safetensors"));
  EXPECT_TRUE(file) << file.error().to_string();
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    const int64_t count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> values(count);
    format_info(tensor.format).decode(file->data(tensor).data(), count, values.data());
    if (tensor.name == "ids.0") golden.ids.assign(values.begin(), values.end());
    if (tensor.name == "logits.0") golden.logits = std::move(values);
  }
  return golden;
}

// One sequence in blocks that run backwards, fed in chunks of `chunk`; the logits of every position.
inline std::vector<float> forced_logits(runtime::LocalRunner& runner, const std::vector<int32_t>& ids, int chunk) {
  std::vector<float> logits;
  using runtime::StepField;
  runtime::StepPlan plan;
  const auto groups = int32_t(runner.limits().groups.size());
  for (int at = 0, step = 1; at < int(ids.size()); at += chunk, ++step) {
    const int count = std::min<int>(chunk, int(ids.size()) - at), blocks = kv_blocks_for(at + count);
    const auto block_of = [](int index) { return 12 - index; };
    plan.reset(step, {.tokens = count, .seqs = 1, .logit_rows = count, .groups = groups, .blocks = blocks}, runtime::kWantLogits);
    for (int i = 0; i < count; ++i) {
      const int position = at + i;
      plan.ints(StepField::token_src)[i] = ids[position];
      plan.ints(StepField::positions)[i] = position;
      plan.ints(StepField::logit_rows)[i] = i;
      for (int group = 0; group < groups; ++group) {
        plan.kv_slots(group)[i] = block_of(position / kKvBlockTokens) * kKvBlockTokens + position % kKvBlockTokens;
      }
    }
    plan.ints(StepField::query_start)[1] = count;
    plan.ints(StepField::context_len)[0] = at + count;
    for (int group = 0; group < groups; ++group) {
      for (int b = 0; b < blocks; ++b) plan.block_row(group, 0)[b] = block_of(b);
    }
    const auto ticket = runner.submit(plan);
    if (!ticket) {
      ADD_FAILURE() << ticket.error().to_string();
      return {};
    }
    const auto result = runner.wait(*ticket);
    if (!result) {
      ADD_FAILURE() << result.error().to_string();
      return {};
    }
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
  }
  return logits;
}

}  // namespace headrace::testing

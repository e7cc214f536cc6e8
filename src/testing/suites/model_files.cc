// Suite `model_files`: damaged and unusual GGUF and safetensors files -> the tensors and metadata read, or a
// refusal.
#include <fmt/core.h>

#include <cctype>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "testing/case_suite.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

constexpr double kMaxSeconds = 1.0;  // the suite's own limit for any file

// What the suite lists of a tensor: its dtype, shape as stored and first values.
struct Seen {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<float> first;
};
struct Loaded {
  std::map<std::string, Seen> tensors;
  json kv = json::object();
};

std::vector<float> first_values(Format format, std::span<const std::byte> bytes) {
  const FormatInfo& info = format_info(format);
  const int64_t blocks = std::min<int64_t>(static_cast<int64_t>(bytes.size()) / info.block_bytes,
                                           (4 + info.block_elements - 1) / info.block_elements);
  std::vector<float> values(static_cast<size_t>(blocks * info.block_elements));
  info.decode(bytes.data(), blocks * info.block_elements, values.data());
  values.resize(std::min<size_t>(values.size(), 4));
  return values;
}

json to_json(const io::GgufArray& array) {
  if (const auto values = array.strings())
    return json(std::vector<std::string>(values->begin(), values->end()));
  if (const auto values = array.integers()) return json(*values);
  if (const auto values = array.numbers()) return json(*values);
  json nested = json::array();
  if (const auto values = array.arrays()) {
    for (const io::GgufArray& inner : *values) nested.push_back(to_json(inner));
  }
  return nested;
}

json to_json(const io::GgufEntry& entry) {
  if (const auto value = entry.boolean()) return *value;
  if (const auto value = entry.string()) return std::string(*value);
  if (const auto value = entry.integer()) return *value;
  if (const auto value = entry.number()) return *value;
  return entry.array() != nullptr ? to_json(*entry.array()) : json(std::get<uint64_t>(entry.value));
}

Result<Loaded> load_gguf(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::GgufFile file, io::GgufFile::open(path));
  Loaded out;
  for (const io::GgufTensor& tensor : file.tensors()) {
    Seen& seen = out.tensors[std::string(tensor.name)];
    for (const char c : format_info(tensor.format).name) seen.dtype += static_cast<char>(std::toupper(c));
    seen.shape.assign(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
    seen.first = first_values(tensor.format, file.data(tensor));
  }
  for (const io::GgufEntry& entry : file.metadata()) out.kv[std::string(entry.key)] = to_json(entry);
  return out;
}

Result<Loaded> load_safetensors(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::SafetensorsFile file, io::SafetensorsFile::open(path));
  Loaded out;
  for (const io::SafetensorsTensor& tensor : file.tensors()) {
    out.tensors[tensor.name] = {std::string(format_info(tensor.format).safetensors), tensor.shape,
                                first_values(tensor.format, file.data(tensor))};
  }
  return out;
}

// Empty when `loaded` is what `expected` lists.
std::string difference(const json& expected, const Loaded& loaded) {
  if (expected.contains("tensors")) {
    const json& tensors = expected["tensors"];
    if (tensors.size() != loaded.tensors.size()) {
      return fmt::format("want {} tensors, got {}", tensors.size(), loaded.tensors.size());
    }
    for (const auto& [name, want] : tensors.items()) {
      const auto at = loaded.tensors.find(name);
      if (at == loaded.tensors.end()) return fmt::format("no tensor {}", name);
      const Seen& seen = at->second;
      if (want[0] != seen.dtype) return fmt::format("{}: want {}, got {}", name, want[0].dump(), seen.dtype);
      if (want[1] != json(seen.shape))
        return fmt::format("{}: want shape {}, got {}", name, want[1].dump(), json(seen.shape).dump());
      if (!want[2].is_null() && want[2] != json(seen.first)) {
        return fmt::format("{}: want values {}, got {}", name, want[2].dump(), json(seen.first).dump());
      }
    }
  }
  if (expected.contains("kv") && expected["kv"] != loaded.kv) {
    return fmt::format("want metadata {}, got {}", expected["kv"].dump(), loaded.kv.dump());
  }
  return {};
}

}  // namespace

CaseResult run_model_files(const CaseContext& context) {
  const std::string path = (context.suite_dir / context.input.at("file").get<std::string>()).string();
  const TimePoint start = Clock::now();
  const Result<Loaded> loaded = path.ends_with(".gguf") ? load_gguf(path) : load_safetensors(path);
  const double seconds = seconds_between(start, Clock::now());
  if (seconds > kMaxSeconds) return CaseResult::fail(fmt::format("took {:.2f} s", seconds));
  const std::string want = context.expected.at("load");
  if (!loaded) {
    if (want == "ok") return CaseResult::fail("refused: " + loaded.error().message());
    return loaded.error().message().empty() ? CaseResult::fail("refused without a word") : CaseResult::pass();
  }
  if (want == "reject") return CaseResult::fail("loaded; want a refusal");
  const std::string why = difference(context.expected, *loaded);
  return why.empty() ? CaseResult::pass() : CaseResult::fail(why);
}

}  // namespace headrace::testing

// onnx_backend DIR... [--table FILE] [--known FILE]: runs the backend tests that scripts/onnx_backend.py wrote, each by the reference
// operators, compiled without a pass and compiled with all of them, prints each failure with its reason,
// and closes with "N passed, N failed" and what is known of the outputs' dims before a model runs. What is inferred of any value must hold
// of the real one: from the dims of the test's inputs, from the declared types, and with small inputs as constants. --table writes what
// failed, by operator, between the marks of a Markdown file. --known lists tests that must fail, "KIND/NAME: reason" a line: they do not
// count, unless they pass. Exit 0: something ran and nothing failed; 1: a test failed or none ran; 2: usage.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "io/mapped_file.h"
#include "onnx/file.h"
#include "onnx/infer.h"
#include "onnx/interpreter.h"
#include "testing/onnx_compare.h"
#include "testing/onnx_ways.h"

namespace headrace::testing {
namespace {

namespace fs = std::filesystem;
using onnx::Type;
using onnx::Value;

constexpr std::string_view kBegin = "<!-- written by onnx_backend --table: begin -->";
constexpr std::string_view kEnd = "<!-- written by onnx_backend --table: end -->";

// Of the tensors that tests give: how many there are, and of how many all dims are known before the model runs.
struct Known {
  int outputs = 0, by_dims = 0, by_contents = 0;  // from the inputs' dims alone; with small inputs as constants as well
  std::map<std::string, int> open;                // those that are not known even so, by operator
};

struct Outcome {
  std::string kind, name, op;  // op: the first node's
  std::string why;             // empty: passed
};

// Input `k` of a data set is the k-th that no initializer stands for, in files whose initializers are inputs too.
std::vector<const onnx::ValueInfo*> fed_inputs(const onnx::Graph& graph, size_t count) {
  std::vector<const onnx::ValueInfo*> all, fed;
  for (const onnx::ValueInfo& input : graph.inputs) {
    all.push_back(&input);
    if (!graph.initializers.contains(input.name)) fed.push_back(&input);
  }
  return fed.size() == count ? fed : all;
}

size_t count_files(const fs::path& folder, const char* what) {
  size_t count = 0;
  while (fs::exists(folder / fmt::format("{}_{}.pb", what, count))) ++count;
  return count;
}

Result<Value> read_value(const fs::path& path, Type::Kind kind) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path.string()));
  auto value = onnx::parse_value(file.bytes(), kind);
  if (!value) return tl::unexpected<Status>(value.error().with_context(path.filename().string()));
  return value;
}

// What `type` says of a value that is not so; empty when there is nothing.
std::string contradiction(const Type& type, const Value& value) {
  if (type.kind == Type::Kind::unknown || !value.has_value()) return "";
  const auto differs = [&] { return fmt::format("inferred {}, it is {}", describe(type), describe(onnx::type_of(value))); };
  if (const onnx::Tensor* tensor = value.tensor()) {
    if (type.kind != Type::Kind::tensor || type.dtype != tensor->dtype()) return differs();
    if (!type.shape) return "";
    if (std::ssize(*type.shape) != tensor->rank()) return differs();
    for (int i = 0; i < tensor->rank(); ++i) {
      const int64_t dim = (*type.shape)[static_cast<size_t>(i)].value;
      if (dim >= 0 && dim != tensor->dim(i)) return differs();
    }
    return "";
  }
  if (const onnx::Sequence* sequence = value.sequence()) {
    if (type.kind != Type::Kind::sequence) return differs();
    for (const onnx::Tensor& tensor : sequence->tensors) {
      if (type.element && !contradiction(*type.element, tensor).empty()) return differs();
    }
    return "";
  }
  if (type.kind != Type::Kind::optional) return differs();
  const onnx::Optional* optional = value.optional();
  return type.element && optional->value ? contradiction(*type.element, *optional->value) : "";
}

std::string contradiction(const onnx::ValueFact& fact, const Value& value) {
  std::string why = contradiction(fact.type, value);
  if (why.empty() && fact.constant && value.has_value()) why = onnx_difference(*fact.constant, value, {0, 0});
  if (!why.empty() || !fact.elements || value.tensor() == nullptr) return why;
  std::vector<int64_t> real;
  onnx::dispatch<int64_t, int32_t>(value.tensor()->dtype(), [&]<class T>() {
    for (const T element : value.tensor()->values<T>()) real.push_back(element);
  });
  if (real.size() != fact.elements->size()) return fmt::format("inferred {} elements, there are {}", fact.elements->size(), real.size());
  for (size_t i = 0; i < real.size(); ++i) {
    if ((*fact.elements)[i].number.value_or(real[i]) != real[i]) return fmt::format("inferred element {} otherwise", i);
  }
  return "";
}

// The model with all values of its main graph as outputs.
onnx::Model with_all_values(const onnx::Model& model) {
  onnx::Model all = model;
  std::set<std::string> names;
  for (const onnx::ValueInfo& output : all.graph.outputs) names.insert(output.name);
  for (const onnx::Node& node : all.graph.nodes) {
    for (const std::string& name : node.outputs) {
      if (!name.empty() && names.insert(name).second) all.graph.outputs.push_back({name, {}});
    }
  }
  return all;
}

bool has_all_dims(const onnx::ValueFact& fact) { return fact.type.shape && onnx::known_dims(*fact.type.shape); }

Status check_inference(const onnx::Model& model, const std::map<std::string, Value>& inputs, Known& known) {
  HR_ASSIGN_OR_RETURN(const auto values, onnx::interpret(with_all_values(model), inputs));
  std::map<std::string, Type> types;
  // What may tell dims is a constant: scalars, small lists of integers, and small lists of anything behind the first input.
  onnx::Model bound = model;
  std::map<std::string, Type> free;
  bool first = true;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) continue;
    Type type = onnx::type_of(given->second);
    if (input.type.kind == Type::Kind::tensor) types[input.name] = type;
    constexpr int64_t kSmall = 64;
    const onnx::Tensor* tensor = given->second.tensor();
    const bool is_data = std::exchange(first, false) && tensor != nullptr && tensor->rank() > 0 && tensor->dtype() != DType::i64;
    if (tensor != nullptr && !is_data && tensor->rank() <= 1 && tensor->elements() <= kSmall) {
      bound.graph.initializers[input.name] = *tensor;
    } else if (input.type.kind == Type::Kind::tensor) {
      free[input.name] = std::move(type);
    }
  }
  HR_ASSIGN_OR_RETURN(const auto by_dims, onnx::infer_types(model, types));
  HR_ASSIGN_OR_RETURN(const auto declared, onnx::infer_types(model));
  HR_ASSIGN_OR_RETURN(const auto by_contents, onnx::infer_types(bound, free));
  for (const auto& [how, facts] : {std::pair("the inputs' dims", &by_dims), std::pair("the declared types", &declared),
                                   std::pair("small inputs as constants", &by_contents)}) {
    for (const auto& [name, value] : values) {
      const std::string why = contradiction(facts->at(name), value);
      if (!why.empty()) return make_status(Code::internal, "value {}: from {}: {}", name, how, why);
    }
  }
  for (const onnx::ValueInfo& output : model.graph.outputs) {
    if (values.at(output.name).tensor() == nullptr) continue;
    ++known.outputs;
    known.by_dims += has_all_dims(by_dims.at(output.name)) ? 1 : 0;
    if (has_all_dims(by_contents.at(output.name))) {
      ++known.by_contents;
      continue;
    }
    for (const onnx::Node& node : model.graph.nodes) {
      if (std::ranges::find(node.outputs, output.name) != node.outputs.end()) ++known.open[node.op];
    }
  }
  return {};
}

Status run_data_set(const onnx::Model& model, const fs::path& folder, OnnxTolerance tolerance, Known& known) {
  const size_t num_inputs = count_files(folder, "input"), num_outputs = count_files(folder, "output");
  const auto declared = fed_inputs(model.graph, num_inputs);
  if (num_inputs > declared.size()) return make_status(Code::malformed, "{} inputs given, the model has {}", num_inputs, declared.size());
  std::map<std::string, Value> inputs;
  for (size_t i = 0; i < num_inputs; ++i) {
    HR_ASSIGN_OR_RETURN(inputs[declared[i]->name], read_value(folder / fmt::format("input_{}.pb", i), declared[i]->type.kind));
  }
  for (const OnnxWay& way : kOnnxWays) {
    const auto outputs = way.run(model, inputs);
    if (!outputs) return outputs.error().with_context(way.name);
    for (size_t i = 0; i < num_outputs; ++i) {
      const onnx::ValueInfo& output = model.graph.outputs.at(i);
      HR_ASSIGN_OR_RETURN(const Value want, read_value(folder / fmt::format("output_{}.pb", i), output.type.kind));
      const std::string why = onnx_difference(outputs->at(output.name), want, tolerance);
      if (!why.empty()) return make_status(Code::internal, "{}: output {}: {}", way.name, output.name, why);
    }
  }
  return check_inference(model, inputs, known);
}

Status run_test(const fs::path& folder, std::string& op, Known& known) {
  HR_ASSIGN_OR_RETURN(const onnx::Model model, onnx::read_model((folder / "model.onnx").string()));
  if (!model.graph.nodes.empty()) op = model.graph.nodes.front().op;
  OnnxTolerance tolerance;
  std::ifstream(folder / "tolerance.txt") >> tolerance.relative >> tolerance.absolute;
  size_t sets = 0;
  for (; fs::exists(folder / fmt::format("test_data_set_{}", sets)); ++sets) {
    HR_RETURN_IF_ERROR(run_data_set(model, folder / fmt::format("test_data_set_{}", sets), tolerance, known));
  }
  return sets > 0 ? Status() : make_status(Code::not_found, "no data");
}

// The operator that an error names: "node 3 (Conv, ...". Empty when it names none.
std::string named_operator(const std::string& message) {
  const size_t node = message.find("node ");
  const size_t open = node == std::string::npos ? node : message.find('(', node);
  return open == std::string::npos ? "" : message.substr(open + 1, message.find_first_of(",)", open) - open - 1);
}

Outcome judge(const fs::path& folder, Known& known) {
  Outcome outcome{folder.parent_path().filename().string(), folder.filename().string(), "", ""};
  try {
    const Status status = run_test(folder, outcome.op, known);
    if (!status.ok()) {
      outcome.why = status.message();
      const std::string path = (folder / "model.onnx").string() + ": ";
      if (outcome.why.starts_with(path)) outcome.why.erase(0, path.size());
      const std::string named = named_operator(outcome.why);
      if (!named.empty()) outcome.op = named;
    }
  } catch (const std::exception& e) {
    outcome.why = fmt::format("exception: {}", e.what());
  }
  return outcome;
}

std::vector<fs::path> find_tests(const fs::path& root) {
  std::vector<fs::path> folders;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    if (it->path().filename().string().starts_with('.')) it.disable_recursion_pending();
    else if (it->path().filename() == "model.onnx") folders.push_back(it->path().parent_path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// One cell of a Markdown table.
std::string cell(std::string text) {
  constexpr size_t kMax = 160;
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return out;
}

std::string make_table(const std::vector<Outcome>& outcomes, const std::vector<fs::path>& roots) {
  std::map<std::string, std::pair<int, int>> kinds;  // tests, passed
  struct Failed {
    int tests = 0;
    std::set<std::string> reasons;
  };
  std::map<std::string, Failed> failed;
  for (const Outcome& outcome : outcomes) {
    ++kinds[outcome.kind].first;
    if (outcome.why.empty()) {
      ++kinds[outcome.kind].second;
      continue;
    }
    Failed& row = failed[outcome.op.empty() ? outcome.name : outcome.op];
    ++row.tests;
    row.reasons.insert(outcome.name + ": " + outcome.why);
  }
  std::string text = "| tests | passed | of | share |\n|---|---|---|---|\n";
  for (const auto& [kind, counts] : kinds) {
    text += fmt::format("| {} | {} | {} | {:.1f}% |\n", kind, counts.second, counts.first, 100.0 * counts.second / counts.first);
  }
  if (!failed.empty()) text += "\n| operator | tests that fail | the first of them, and why |\n|---|---|---|\n";
  for (const auto& [op, row] : failed) text += fmt::format("| {} | {} | {} |\n", cell(op), row.tests, cell(*row.reasons.begin()));
  std::string left_out;
  for (const fs::path& root : roots) {
    std::ifstream file(root / "left_out.txt");  // "KIND/NAME: reason"
    std::map<std::string, std::vector<std::string>> by_reason;
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) by_reason[line.substr(colon + 2)].push_back(line.substr(0, colon));
    }
    for (const auto& [reason, names] : by_reason) {
      constexpr size_t kNamed = 12;
      left_out += fmt::format("| {} | {} | {}{} |\n", cell(reason), names.size(),
                              fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, names.size())), ", "),
                              names.size() > kNamed ? ", ..." : "");
    }
  }
  if (!left_out.empty()) text += "\n| left out, because | tests | which |\n|---|---|---|\n" + left_out;
  return text;
}

Status write_table(const fs::path& path, const std::string& table) {
  HR_ASSIGN_OR_RETURN(const std::string text, io::read_file(path.string()));
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return make_status(Code::malformed, "{}: want the lines \"{}\" and \"{}\"", path.string(), kBegin, kEnd);
  }
  std::ofstream file(path, std::ios::binary);
  file << text.substr(0, begin + kBegin.size()) << "\n" << table << text.substr(end);
  return file.flush() ? Status() : make_status(Code::unavailable, "{}: cannot be written", path.string());
}

// Names and reasons of the tests that must fail.
std::map<std::string, std::string> read_known(const std::string& path) {
  std::map<std::string, std::string> tests;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with('#') && colon != std::string::npos) tests[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return tests;
}

int run(const std::vector<fs::path>& roots, const std::string& table, const std::string& known_path) {
  const std::map<std::string, std::string> known_to_fail = read_known(known_path);
  if (known_to_fail.empty() && !known_path.empty()) {
    fmt::print(stderr, "onnx_backend: {}: no line \"KIND/NAME: reason\"\n", known_path);
    return 2;
  }
  const auto queue = runtime::DeviceQueue::cpu(1, 0);  // one for all sessions
  if (!queue) {
    fmt::print(stderr, "onnx_backend: {}\n", queue.error().message());
    return 2;
  }
  std::vector<Outcome> outcomes;
  int failed = 0, fail_as_known = 0;
  Known known;
  for (const fs::path& root : roots) {
    for (const fs::path& folder : find_tests(root)) {
      Outcome& outcome = outcomes.emplace_back(judge(folder, known));
      const std::string name = outcome.kind + "/" + outcome.name;
      const auto reason = known_to_fail.find(name);
      if (reason != known_to_fail.end() && !outcome.why.empty()) {
        fmt::print("known   {}: {}\n", name, reason->second);
        ++fail_as_known;
        continue;
      }
      if (reason == known_to_fail.end() && outcome.why.empty()) continue;
      ++failed;
      fmt::print("FAILED {}: {}\n", name, outcome.why.empty() ? "it passes: take it out of " + known_path : outcome.why);
    }
  }
  if (!table.empty()) {
    const Status status = write_table(table, make_table(outcomes, roots));
    if (!status.ok()) {
      fmt::print(stderr, "onnx_backend: {}\n", status.message());
      return 2;
    }
  }
  const int passed = static_cast<int>(outcomes.size()) - failed - fail_as_known;
  for (const auto& [op, count] : known.open) fmt::print("dims unknown before it runs: {} of {}\n", count, op);
  fmt::print(
      "{} passed, {} failed{}; of {} outputs all dims are known before the model runs from the inputs' dims for {}, and with small inputs "
      "as constants for {}\n",
      passed, failed, fail_as_known == 0 ? "" : fmt::format(", {} known to fail", fail_as_known), known.outputs, known.by_dims,
      known.by_contents);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace::testing

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> roots;
  std::string table, known;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--table" && i + 1 < argc) table = argv[++i];
    else if (argument == "--known" && i + 1 < argc) known = argv[++i];
    else if (!argument.starts_with("-")) roots.emplace_back(argument);
    else roots.clear(), i = argc;
  }
  if (roots.empty()) {
    fmt::print(stderr, "usage: onnx_backend DIR... [--table FILE] [--known FILE]\n");
    return 2;
  }
  try {
    return headrace::testing::run(roots, table, known);
  } catch (const std::exception& e) {
    fmt::print(stderr, "onnx_backend: {}\n", e.what());
    return 2;
  }
}

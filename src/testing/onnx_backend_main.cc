// onnx_backend DIR... [--table FILE]: runs the backend tests that scripts/onnx_backend.py wrote, prints each failure with its reason,
// and closes with "N passed, N failed". --table writes what failed, by operator, between the marks of a Markdown file. Exit 0: something
// ran and nothing failed; 1: a test failed or none ran; 2: usage.
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
#include "onnx/interpreter.h"
#include "testing/onnx_compare.h"

namespace headrace::testing {
namespace {

namespace fs = std::filesystem;
using onnx::Type;
using onnx::Value;

constexpr std::string_view kBegin = "<!-- written by onnx_backend --table: begin -->";
constexpr std::string_view kEnd = "<!-- written by onnx_backend --table: end -->";

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

Status run_data_set(const onnx::Model& model, const fs::path& folder, OnnxTolerance tolerance) {
  const size_t num_inputs = count_files(folder, "input"), num_outputs = count_files(folder, "output");
  const auto declared = fed_inputs(model.graph, num_inputs);
  if (num_inputs > declared.size()) return make_status(Code::malformed, "{} inputs given, the model has {}", num_inputs, declared.size());
  std::map<std::string, Value> inputs;
  for (size_t i = 0; i < num_inputs; ++i) {
    HR_ASSIGN_OR_RETURN(inputs[declared[i]->name], read_value(folder / fmt::format("input_{}.pb", i), declared[i]->type.kind));
  }
  HR_ASSIGN_OR_RETURN(const auto outputs, onnx::interpret(model, inputs));
  for (size_t i = 0; i < num_outputs; ++i) {
    const onnx::ValueInfo& output = model.graph.outputs.at(i);
    HR_ASSIGN_OR_RETURN(const Value want, read_value(folder / fmt::format("output_{}.pb", i), output.type.kind));
    const std::string why = onnx_difference(outputs.at(output.name), want, tolerance);
    if (!why.empty()) return make_status(Code::internal, "output {}: {}", output.name, why);
  }
  return {};
}

Status run_test(const fs::path& folder, std::string& op) {
  HR_ASSIGN_OR_RETURN(const onnx::Model model, onnx::read_model((folder / "model.onnx").string()));
  if (!model.graph.nodes.empty()) op = model.graph.nodes.front().op;
  OnnxTolerance tolerance;
  std::ifstream(folder / "tolerance.txt") >> tolerance.relative >> tolerance.absolute;
  size_t sets = 0;
  for (; fs::exists(folder / fmt::format("test_data_set_{}", sets)); ++sets) {
    HR_RETURN_IF_ERROR(run_data_set(model, folder / fmt::format("test_data_set_{}", sets), tolerance));
  }
  return sets > 0 ? Status() : make_status(Code::not_found, "no data");
}

// The operator that an error names: "node 3 (Conv, ...". Empty when it names none.
std::string named_operator(const std::string& message) {
  const size_t node = message.find("node ");
  const size_t open = node == std::string::npos ? node : message.find('(', node);
  return open == std::string::npos ? "" : message.substr(open + 1, message.find_first_of(",)", open) - open - 1);
}

Outcome judge(const fs::path& folder) {
  Outcome outcome{folder.parent_path().filename().string(), folder.filename().string(), "", ""};
  try {
    const Status status = run_test(folder, outcome.op);
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

int run(const std::vector<fs::path>& roots, const std::string& table) {
  std::vector<Outcome> outcomes;
  int failed = 0;
  for (const fs::path& root : roots) {
    for (const fs::path& folder : find_tests(root)) {
      Outcome& outcome = outcomes.emplace_back(judge(folder));
      if (outcome.why.empty()) continue;
      ++failed;
      fmt::print("FAILED {}/{}: {}\n", outcome.kind, outcome.name, outcome.why);
    }
  }
  if (!table.empty()) {
    const Status status = write_table(table, make_table(outcomes, roots));
    if (!status.ok()) {
      fmt::print(stderr, "onnx_backend: {}\n", status.message());
      return 2;
    }
  }
  const int passed = static_cast<int>(outcomes.size()) - failed;
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace::testing

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> roots;
  std::string table;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--table" && i + 1 < argc) table = argv[++i];
    else if (!argument.starts_with("-")) roots.emplace_back(argument);
    else roots.clear(), i = argc;
  }
  if (roots.empty()) {
    fmt::print(stderr, "usage: onnx_backend DIR... [--table FILE]\n");
    return 2;
  }
  try {
    return headrace::testing::run(roots, table);
  } catch (const std::exception& e) {
    fmt::print(stderr, "onnx_backend: {}\n", e.what());
    return 2;
  }
}

// `headrace graph`: ONNX models, operator by operator on the host.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "io/mapped_file.h"
#include "onnx/file.h"
#include "onnx/npy.h"
#include "onnx/optimize.h"
#include "onnx/session.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using onnx::Session;
using onnx::Tensor;
using onnx::Type;
using onnx::Value;
using Values = std::map<std::string, Value>;

constexpr std::string_view kAbout =
    "headrace graph - run, measure or explain an ONNX model\n\n"
    "Usage: headrace graph run MODEL [options]       run it once, show or write its outputs\n"
    "       headrace graph bench MODEL [options]     measure how long a run takes\n"
    "       headrace graph explain MODEL             its inputs, outputs and nodes\n"
    "       headrace graph optimize MODEL --out FILE what the passes make of it, as an ONNX model again\n\n"
    "Every operator is computed by its reference on the host. headrace graph run --help shows the options.\n\n"
    "Examples:\n"
    "  headrace graph explain model.onnx\n"
    "  headrace graph run model.onnx --random 1\n";

constexpr std::string_view kAboutRun =
    "headrace graph run - run an ONNX model once\n\n"
    "Inputs come from files, or are drawn with --random. Shapes, types and the first values of the outputs go to\n"
    "standard output; --out writes them whole.";
constexpr std::string_view kExamplesRun =
    "  headrace graph run model.onnx --input image=cat.npy\n"
    "  headrace graph run model.onnx --random 1 --dim batch=2 --json\n"
    "  headrace graph run model.onnx --input x=input_0.pb --out results\n";
constexpr std::string_view kAboutBench =
    "headrace graph bench - measure how long a run of an ONNX model takes\n\n"
    "One run that does not count, then --runs of them, one after another, on the reference operators.";
constexpr std::string_view kExamplesBench = "  headrace graph bench model.onnx --random 1 --runs 20\n";
constexpr std::string_view kAboutExplain =
    "headrace graph explain - what an ONNX model holds\n\n"
    "Inputs, outputs and nodes in the order in which they run, with the types that the file declares.";
constexpr std::string_view kExamplesExplain = "  headrace graph explain model.onnx | grep Conv\n";

constexpr std::string_view kAboutOptimize =
    "headrace graph optimize - write what the passes make of an ONNX model\n\n"
    "The model for one size of its inputs: shapes are computed, constants folded, operators fused and then spelled in\n"
    "standard ONNX, for any runtime. Every dim that the file leaves open needs a --dim.";
constexpr std::string_view kExamplesOptimize =
    "  headrace graph optimize model.onnx --out small.onnx --dim batch=1 --dim sequence=128\n"
    "  headrace graph optimize model.onnx --out small.onnx --dim x.0=1 --opset 23\n";

constexpr int64_t kShownValues = 6;

// How a run gets its inputs: options that `run` and `bench` share.
struct InputOptions {
  std::string model;
  std::vector<std::string> inputs, dims;
  int64_t seed = -1;  // below 0: not given

  void declare(Options& options) {
    options.positional(model, "MODEL", "An ONNX file");
    options.texts(inputs, "--input", "NAME=FILE", "An input's values: a .npy file, or a TensorProto (.pb); may be repeated");
    options.integer(seed, "--random", "SEED", "Draw the inputs that no --input gives: floats in [0, 1), integers in [0, 8)", 0,
                    std::numeric_limits<int64_t>::max());
    options.texts(dims, "--dim", "NAME=N", "What a dim of that name is when inputs are drawn (1); may be repeated");
  }
};

// "NAME=REST". The name may hold anything but '='.
Result<std::pair<std::string, std::string>> split_assignment(std::string_view flag, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) return error(Code::invalid_argument, "{}: want NAME=..., got \"{}\"", flag, text);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Result<Value> read_input(const std::string& path, Type::Kind kind) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  auto value = path.ends_with(".npy") ? onnx::parse_npy(file.bytes()).map([](Tensor&& tensor) { return Value(std::move(tensor)); })
                                      : onnx::parse_value(file.bytes(), kind);
  if (!value) return tl::unexpected<Status>(value.error().with_context(path));
  return value;
}

// SplitMix64: a seed gives the same inputs on every machine.
uint64_t next_random(uint64_t& state) {
  uint64_t value = state += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

template <class T>
T draw(uint64_t& state) {
  const uint64_t bits = next_random(state);
  const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;
  if constexpr (std::is_same_v<T, f16>) return to_f16(unit);
  else if constexpr (std::is_same_v<T, bf16>) return to_bf16(unit);
  else if constexpr (std::is_same_v<T, bool>) return (bits >> 63) != 0;
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(unit);
  else return static_cast<T>(bits >> 61);
}

Result<Value> draw_input(const onnx::ValueInfo& input, const std::map<std::string, int64_t>& dims, uint64_t& state) {
  if (input.type.kind != Type::Kind::tensor || !input.type.shape) {
    return error(Code::invalid_argument, "input {}: {} cannot be drawn; give it with --input", input.name, onnx::describe(input.type));
  }
  onnx::Dims shape;
  for (const Type::Dim& dim : *input.type.shape) {
    const auto named = dims.find(dim.symbol);
    shape.push_back(dim.value >= 0 ? dim.value : named == dims.end() ? 1 : named->second);
  }
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t count, onnx::count_elements(shape));
  Tensor tensor(input.type.dtype, shape);
  const bool known = onnx::dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool>(
      tensor.dtype(), [&]<class T>() {
        for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<T>()[i] = draw<T>(state);
      });
  if (!known) return error(Code::invalid_argument, "input {}: {} cannot be drawn; give it with --input", input.name, onnx::describe(input.type));
  return tensor;
}

// --dim NAME=N, several times.
Result<std::map<std::string, int64_t>> parse_dims(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : texts) {
    HR_ASSIGN_OR_RETURN(const auto pair, split_assignment("--dim", text));
    char* end = nullptr;
    dims[pair.first] = std::strtoll(pair.second.c_str(), &end, 10);
    if (pair.second.empty() || *end != '\0' || dims[pair.first] < 0) {
      return error(Code::invalid_argument, "--dim {}: want a number of 0 or more, got \"{}\"", pair.first, pair.second);
    }
  }
  return dims;
}

Result<Values> make_inputs(const Session& session, const InputOptions& options) {
  std::map<std::string, std::string> files;
  for (const std::string& text : options.inputs) {
    HR_ASSIGN_OR_RETURN(auto pair, split_assignment("--input", text));
    if (std::ranges::find(session.inputs(), pair.first, &onnx::ValueInfo::name) == session.inputs().end()) {
      std::vector<std::string> names;
      for (const onnx::ValueInfo& input : session.inputs()) names.push_back(input.name);
      return error(Code::invalid_argument, "--input {}: the model's inputs are {}", pair.first, fmt::join(names, ", "));
    }
    files.insert(std::move(pair));
  }
  HR_ASSIGN_OR_RETURN(const auto dims, parse_dims(options.dims));
  Values values;
  auto state = static_cast<uint64_t>(options.seed);
  for (const onnx::ValueInfo& input : session.inputs()) {
    const auto file = files.find(input.name);
    if (file != files.end()) {
      HR_ASSIGN_OR_RETURN(values[input.name], read_input(file->second, input.type.kind));
    } else if (session.may_be_left_out(input)) {
      continue;
    } else if (options.seed >= 0) {
      HR_ASSIGN_OR_RETURN(values[input.name], draw_input(input, dims, state));
    } else {
      return error(Code::invalid_argument, "input {}, {}: give it with --input {}=FILE, or draw what is missing with --random SEED", input.name,
                   onnx::describe(input.type), input.name);
    }
  }
  return values;
}

// The first values, as JSON: null for those that JSON has no number for.
Json first_values(const Tensor& tensor) {
  Json values = Json::array();
  const int64_t shown = std::min(tensor.elements(), kShownValues);
  onnx::dispatch<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, bool, std::string>(
      tensor.dtype(), [&]<class T>() {
        for (int64_t i = 0; i < shown; ++i) {
          if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) values.push_back(to_float(tensor.data<T>()[i]));
          else values.push_back(tensor.data<T>()[i]);
        }
      });
  if (values.empty() && shown > 0) {  // codes
    for (int64_t i = 0; i < shown; ++i) values.push_back(fmt::format("{:#x}", std::to_integer<unsigned>(tensor.raw()[i * static_cast<int64_t>(dtype_bytes(tensor.dtype()))])));
  }
  return values;
}

Json to_json(const Value& value) {
  if (const Tensor* tensor = value.tensor()) {
    return {{"dtype", dtype_name(tensor->dtype())}, {"dims", tensor->dims()}, {"first", first_values(*tensor)}};
  }
  if (const onnx::Sequence* sequence = value.sequence()) {
    Json tensors = Json::array();
    for (const Tensor& tensor : sequence->tensors) tensors.push_back(to_json(tensor));
    return {{"sequence", std::move(tensors)}};
  }
  const onnx::Optional* optional = value.optional();
  return {{"optional", optional == nullptr || optional->value == nullptr ? Json() : to_json(*optional->value)}};
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string to_line(const Value& value) {
  const Tensor* tensor = value.tensor();
  if (tensor == nullptr) return dump(to_json(value));
  std::string text = fmt::format("{} [{}] ", dtype_name(tensor->dtype()), fmt::join(tensor->dims(), ", "));
  for (const Json& one : first_values(*tensor)) text += " " + (one.is_number_float() ? fmt::format("{:.6g}", one.get<double>()) : dump(one));
  return text + (tensor->elements() > kShownValues ? " ..." : "");
}

// FOLDER/NAME.npy, or .pb where numpy has no such type. Names are the file's: what is no letter, digit, '.', '-' or '_' becomes '_'.
Status write_outputs(const fs::path& folder, const std::vector<onnx::ValueInfo>& order, const Values& outputs) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return make_status(Code::unavailable, "--out {}: {}", folder.string(), failed.message());
  std::map<std::string, std::string> written;  // file: output
  for (const onnx::ValueInfo& output : order) {
    const Value& value = outputs.at(output.name);
    std::string name = output.name;
    for (char& c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      if (!plain) c = '_';
    }
    if (name.starts_with('.')) name[0] = '_';
    const Tensor* tensor = value.tensor();
    Result<std::string> bytes = tensor == nullptr ? onnx::value_bytes(value) : onnx::npy_bytes(*tensor);
    const bool as_npy = tensor != nullptr && bytes.has_value();
    if (!bytes) bytes = onnx::value_bytes(value);
    if (!bytes) return bytes.error().with_context(output.name);
    const fs::path path = folder / (name + (as_npy ? ".npy" : ".pb"));
    if (const auto [other, fresh] = written.emplace(path.string(), output.name); !fresh) {
      return make_status(Code::invalid_argument, "--out: outputs {} and {} would both be {}", other->second, output.name, path.string());
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
    if (!file.flush()) return make_status(Code::resource_exhausted, "cannot write {}", path.string());
  }
  return {};
}

Status graph_run(const std::vector<std::string>& args) {
  Options options("graph run", kAboutRun, kExamplesRun);
  InputOptions wanted;
  std::string out;
  bool json = false;
  wanted.declare(options);
  options.text(out, "--out", "DIR", "Write the outputs there, as NAME.npy (.pb for types that numpy lacks)");
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const Session session, Session::load(wanted.model, {}));
  HR_ASSIGN_OR_RETURN(const Values inputs, make_inputs(session, wanted));
  HR_ASSIGN_OR_RETURN(const Values outputs, session.run(inputs));
  if (!out.empty()) HR_RETURN_IF_ERROR(write_outputs(out, session.outputs(), outputs));
  Json rows = Json::object();
  for (const onnx::ValueInfo& output : session.outputs()) {
    if (json) rows[output.name] = to_json(outputs.at(output.name));
    else fmt::print("{}: {}\n", printable(output.name), printable(to_line(outputs.at(output.name))));
  }
  if (json) fmt::print("{}\n", dump({{"outputs", std::move(rows)}}));
  return {};
}

Status graph_bench(const std::vector<std::string>& args) {
  Options options("graph bench", kAboutBench, kExamplesBench);
  InputOptions wanted;
  int64_t runs = 10;
  bool json = false;
  wanted.declare(options);
  options.integer(runs, "--runs", "N", "How many runs are measured", 1, 1'000'000);
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const Session session, Session::load(wanted.model, {}));
  HR_ASSIGN_OR_RETURN(const Values inputs, make_inputs(session, wanted));
  std::vector<double> milliseconds;
  for (int64_t i = -1; i < runs; ++i) {
    const TimePoint start = Clock::now();
    HR_ASSIGN_OR_RETURN([[maybe_unused]] const Values outputs, session.run(inputs));
    if (i >= 0) milliseconds.push_back(1e3 * seconds_between(start, Clock::now()));
  }
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2], best = milliseconds.front();
  if (json) {
    fmt::print("{}\n", dump({{"model", wanted.model}, {"kernels", "reference"}, {"runs", runs}, {"median_ms", median}, {"best_ms", best}}));
  } else {
    fmt::print("{:.4g} ms a run (median of {}), best {:.4g} ms; reference operators\n", median, runs, best);
  }
  return {};
}

std::string shown_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(name.empty() ? "-" : name);
  return fmt::format("{}", fmt::join(shown, ", "));
}

void explain_nodes(const std::vector<onnx::Node>& nodes, const std::map<std::string, Type>& types, int depth) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::Node& node = nodes[i];
    std::string line = fmt::format("{:{}}{}: {} -> {}", "", 2 * depth, node.describe(i), shown_names(node.inputs), shown_names(node.outputs));
    for (const std::string& output : node.outputs) {
      if (const auto type = types.find(output); type != types.end()) line += "  " + onnx::describe(type->second);
    }
    fmt::print("{}  reference\n", printable(line));
    for (const auto& [name, attribute] : node.attributes) {
      for (const auto& graph : attribute.graphs) {
        fmt::print("{:{}}{}:\n", "", 2 * depth + 2, printable(name));
        explain_nodes(graph->nodes, types, depth + 2);
      }
    }
  }
}

Status graph_explain(const std::vector<std::string>& args) {
  Options options("graph explain", kAboutExplain, kExamplesExplain);
  std::string path;
  options.positional(path, "MODEL", "An ONNX file");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const Session session, Session::load(path, {}));
  const onnx::Model& model = session.model();
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : model.opsets) opsets.push_back(fmt::format("{}{}{}", domain, domain.empty() ? "" : " ", version));
  fmt::print("IR {}, opset {}, {} nodes, {} initializers, {} functions\n", model.ir_version, printable(fmt::format("{}", fmt::join(opsets, ", "))),
             model.graph.nodes.size(), model.graph.initializers.size(), model.functions.size());
  std::map<std::string, Type> types;
  for (const auto* values : {&model.graph.values, &model.graph.outputs}) {
    for (const onnx::ValueInfo& value : *values) {
      if (value.type.kind != Type::Kind::unknown) types[value.name] = value.type;
    }
  }
  for (const onnx::ValueInfo& input : session.inputs()) {
    if (!session.may_be_left_out(input)) fmt::print("input {}: {}\n", printable(input.name), printable(onnx::describe(input.type)));
  }
  for (const onnx::ValueInfo& output : session.outputs()) fmt::print("output {}: {}\n", printable(output.name), printable(onnx::describe(output.type)));
  explain_nodes(model.graph.nodes, types, 0);
  for (const onnx::Function& function : model.functions) {
    fmt::print("function {} ({}) -> {}:\n", printable(function.name), printable(shown_names(function.inputs)), printable(shown_names(function.outputs)));
    explain_nodes(function.nodes, {}, 1);
  }
  return {};
}

Status graph_optimize(const std::vector<std::string>& args) {
  Options options("graph optimize", kAboutOptimize, kExamplesOptimize);
  std::string path, out;
  std::vector<std::string> dims, skipped;
  onnx::OptimizeOptions wanted;
  options.positional(path, "MODEL", "An ONNX file");
  options.text(out, "--out", "FILE", "The file to write");
  options.texts(dims, "--dim", "NAME=N", "What an open dim is; INPUT.AXIS names one without a name; may be repeated");
  options.texts(skipped, "--skip-pass", "NAME", "A pass to leave out, or all; may be repeated");
  options.integer(wanted.opset, "--opset", "N", "The opset to write (the model's, 21 at least)", onnx::kMinExportOpset, onnx::kMaxOpset);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (out.empty()) return make_status(Code::invalid_argument, "--out: want the FILE to write");

  HR_ASSIGN_OR_RETURN(wanted.dims, parse_dims(dims));
  Session::Options session_options;
  session_options.compile.skip_passes.insert(skipped.begin(), skipped.end());
  HR_ASSIGN_OR_RETURN(const Session session, Session::load(path, session_options));
  auto model = onnx::optimize(session, wanted);
  if (!model) return model.error().with_context(path);
  HR_RETURN_IF_ERROR(onnx::write_model(*model, out));
  fmt::print("{}: {} nodes, {} before; opset {}\n", printable(out), model->graph.nodes.size(), session.model().graph.nodes.size(), model->opsets.at(""));
  return {};
}

}  // namespace

Status graph_command(const std::vector<std::string>& args) {
  const std::string what = args.empty() ? "" : args.front();
  const std::vector<std::string> rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (what == "run") return graph_run(rest);
  if (what == "bench") return graph_bench(rest);
  if (what == "explain") return graph_explain(rest);
  if (what == "optimize") return graph_optimize(rest);
  if (what == "--help" || what == "-h") {
    fmt::print("{}", kAbout);
    return {};
  }
  return make_status(Code::invalid_argument, "want run, bench, explain or optimize and a MODEL, got \"{}\"", what);
}

}  // namespace headrace::cli

// `headrace graph run`: one run of an ONNX model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/graph_options.h"
#include "cli/terminal.h"
#include "onnx/file.h"
#include "onnx/npy.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using onnx::Session;
using onnx::Tensor;
using onnx::Type;
using onnx::Value;
using Values = std::map<std::string, Value>;

constexpr std::string_view kAboutRun =
    "headrace graph run - run an ONNX model once\n\n"
    "Inputs come from files, or are drawn with --random. Shapes, types and the first values of the outputs go to\n"
    "standard output; --out writes them whole.";
constexpr std::string_view kExamplesRun =
    "  headrace graph run model.onnx --input image=cat.npy\n"
    "  headrace graph run model.onnx --random 1 --dim batch=2 --json\n"
    "  headrace graph run model.onnx --input x=input_0.pb --out results\n";

constexpr int64_t kShownValues = 6;

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

}  // namespace

Status graph_run(const std::vector<std::string>& args) {
  Options options("graph run", kAboutRun, kExamplesRun);
  GraphOptions wanted;
  std::string out;
  bool json = false;
  wanted.declare(options);
  options.text(out, "--out", "DIR", "Write the outputs there, as NAME.npy (.pb for types that numpy lacks)");
  options.flag(json, "--json", "Print one JSON object");
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};

  HR_ASSIGN_OR_RETURN(const Session session, wanted.open());
  HR_ASSIGN_OR_RETURN(const Values inputs, wanted.make_inputs(session));
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

}  // namespace headrace::cli

// `headrace graph`: ONNX models. A file for each subcommand.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/graph_options.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAbout =
    "headrace graph - run, measure, explain or optimize an ONNX model\n\n"
    "Usage: headrace graph run MODEL [options]       run it once, show or write its outputs\n"
    "       headrace graph bench MODEL [options]     measure how long a run takes\n"
    "       headrace graph explain MODEL             what it holds, what becomes of it\n"
    "       headrace graph optimize MODEL --out FILE what the passes make of it, as an ONNX model\n\n"
    "headrace graph run --help shows the options.\n\n"
    "Examples:\n"
    "  headrace graph explain model.onnx\n"
    "  headrace graph run model.onnx --random 1\n";

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

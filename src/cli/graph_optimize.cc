// `headrace graph optimize`: what the passes make of an ONNX model, as an ONNX model.
#include <fmt/format.h>

#include "cli/graph_options.h"
#include "cli/terminal.h"
#include "onnx/file.h"
#include "onnx/optimize.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kAboutOptimize =
    "headrace graph optimize - write what the passes make of an ONNX model\n\n"
    "The model for one size of its inputs: shapes are computed, constants folded, operators fused and then spelled in\n"
    "standard ONNX, for any runtime. Every dim that the file leaves open needs a --dim.";
constexpr std::string_view kExamplesOptimize =
    "  headrace graph optimize model.onnx --out small.onnx --dim batch=1 --dim sequence=128\n"
    "  headrace graph optimize model.onnx --out small.onnx --dim x.0=1 --opset 23\n";

}  // namespace

Status graph_optimize(const std::vector<std::string>& args) {
  Options options("graph optimize", kAboutOptimize, kExamplesOptimize);
  GraphOptions given;
  onnx::OptimizeOptions wanted;
  std::string out;
  options.positional(given.model, "MODEL", "An ONNX file");
  options.text(out, "--out", "FILE", "The file to write");
  options.texts(given.dims, "--dim", "NAME=N", "What an open dim is; INPUT.AXIS stands for one without a name; may be repeated");
  options.texts(given.skip_passes, "--skip-pass", "NAME", "Leave a pass out, \"all\" for every one; may be repeated");
  options.integer(wanted.opset, "--opset", "N", "The opset to write (the model's, 21 at least)", onnx::kMinExportOpset, onnx::kMaxOpset);
  HR_ASSIGN_OR_RETURN(const Options::Parsed parsed, options.parse(args));
  if (parsed == Options::Parsed::help_shown) return {};
  if (out.empty()) return make_status(Code::invalid_argument, "--out: want the FILE to write");

  HR_ASSIGN_OR_RETURN(wanted.dims, given.parse_dims());
  given.skip_passes.push_back("fuse_qdq");  // ONNX says arithmetic of 8 bits as quantized models say it already
  HR_ASSIGN_OR_RETURN(const onnx::Session session, given.open());
  const auto model = onnx::optimize(session, wanted);
  if (!model) return model.error().with_context(given.model);
  HR_RETURN_IF_ERROR(onnx::write_model(*model, out));
  fmt::print("{}: {} nodes, {} before; opset {}\n", printable(out), model->graph.nodes.size(), session.model().graph.nodes.size(),
             model->opsets.at(""));
  return {};
}

}  // namespace headrace::cli

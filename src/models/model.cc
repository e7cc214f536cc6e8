// The one place that knows every model family.
#include "models/model.h"

#include <algorithm>
#include <map>

#include "graph/passes/dead_code.h"

namespace headrace::models {

#define HR_MODEL(model_type, file) extern const ModelFamily model_type##_family;
#include "models/models.def"
#undef HR_MODEL

namespace {
constexpr const ModelFamily* kFamilies[] = {
#define HR_MODEL(model_type, file) &model_type##_family,
#include "models/models.def"
#undef HR_MODEL
};
}  // namespace

std::span<const ModelFamily* const> all_families() { return kFamilies; }

TensorLookup tensors_of(const io::ModelSource& source) {
  const auto tensors = std::make_shared<std::map<std::string, TensorInfo, std::less<>>>();
  for (const io::SourceTensor& tensor : source.tensors()) (*tensors)[tensor.name] = {tensor.format, tensor.shape};
  return [tensors](std::string_view name) -> const TensorInfo* {
    const auto found = tensors->find(name);
    return found == tensors->end() ? nullptr : &found->second;
  };
}

Result<const ModelFamily*> find_family(std::string_view model_type) {
  std::string known;
  for (const ModelFamily* family : kFamilies) {
    if (family->model_type == model_type) return family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->model_type);
  }
  // What a file says is quoted in part only: it may be long and hold anything.
  return error(Code::unsupported, "model_type \"{}\" is not known; Headrace runs: {}", model_type.substr(0, 64), known);
}

void keep_outputs(Graph& graph, const std::vector<std::string>& names) {
  const auto kept = [&](const GraphOutput& output) {
    return std::find(names.begin(), names.end(), output.name) != names.end();
  };
  std::vector<ValueId> dropped;
  for (const GraphOutput& output : graph.outputs) {
    if (!kept(output)) dropped.push_back(output.value);
  }
  std::erase_if(graph.outputs, [&](const GraphOutput& output) { return !kept(output); });
  passes::remove_dead_code(graph);
  const auto users = graph.users();
  for (const ValueId value : dropped) {
    const NodeId producer = graph.values[value].producer;
    const bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                       [&](const GraphOutput& output) { return output.value == value; });
    if (producer == kNone || is_output || graph.nodes[producer].outputs.size() != 1) continue;
    if (graph.nodes[producer].op->effects.writes_state && users[value].empty()) graph.nodes[producer].dead = true;
  }
  passes::remove_dead_code(graph);
}

}  // namespace headrace::models

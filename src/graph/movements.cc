#include "graph/movements.h"

#include "graph/fold_constants.h"
#include "graph/match.h"
#include "ops/movement.h"

namespace headrace::movements {

int64_t count(const Dims& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

bool is_identity(const Perm& perm) {
  for (size_t axis = 0; axis < perm.size(); ++axis) {
    if (perm[axis] != static_cast<int32_t>(axis)) return false;
  }
  return true;
}

Perm inverse(const Perm& perm) {
  Perm result(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis) result[perm[axis]] = static_cast<int32_t>(axis);
  return result;
}

Perm then(const Perm& first, const Perm& second) {
  Perm result;
  for (const int32_t axis : second) result.push_back(first[axis]);
  return result;
}

Dims permuted(const Dims& dims, const Perm& perm) {
  Dims result;
  for (const int32_t axis : perm) result.push_back(dims[axis]);
  return result;
}

bool moves_nothing(const Dims& dims, const Perm& perm) {
  int32_t last = -1;
  for (const int32_t axis : perm) {
    if (dims[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  std::vector<Group> groups;
  if (movements::count(from) == 0) return groups;
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    Group group{i, i + 1, j, j + 1};
    int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
    group.end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  if (groups.empty()) return groups;
  groups.back().end = from.size();  // what is left are ones
  groups.back().to_end = to.size();
  return groups;
}

ValueId reshape(Rewriter& graph, ValueId x, const Dims& dims, const std::string& name) {
  if (x == kNone) return kNone;
  while (const Node* inner = match::of(graph, x, ops::reshape)) x = inner->inputs[0];
  if (graph.dims(x) == dims) return graph.resolve(x);
  if (graph.is_constant(x)) return reshaped_constant(graph, x, dims);
  return graph.add(ops::reshape, ops::ReshapeAttrs{dims}, {x}, name);
}

ValueId transpose(Rewriter& graph, ValueId x, const Perm& perm, const std::string& name) {
  if (x == kNone) return kNone;
  Perm whole = perm;
  while (const Node* inner = match::of(graph, x, ops::transpose)) {
    whole = then(inner->attrs.as<ops::TransposeAttrs>().perm, whole);
    x = inner->inputs[0];
  }
  if (is_identity(whole)) return graph.resolve(x);
  const Dims dims = graph.dims(x);
  if (moves_nothing(dims, whole)) return reshape(graph, x, permuted(dims, whole), name);
  const int64_t bytes = count(dims) * static_cast<int64_t>(dtype_bytes(graph.type(x).dtype));
  if (graph.is_constant(x) && graph.affords(bytes)) return transposed_constant(graph, x, whole);
  return graph.add(ops::transpose, ops::TransposeAttrs{whole}, {x}, name);
}

}  // namespace headrace::movements

// Projections of one value by constant matrices that attention alone reads (q, k and v) become one gemm; its windows of columns are views,
// and attention reads rows with a stride. A slice of columns that attention alone reads becomes such a view, too.
#include <algorithm>
#include <cstring>
#include <map>

#include "core/buffer.h"
#include "graph/match.h"
#include "graph/passes.h"
#include "graph/passes/linear_node.h"
#include "ops/movement.h"
#include "ops/rows.h"
#include "ops/sdpa.h"

namespace headrace::passes {
namespace {

using Users = std::vector<std::vector<NodeId>>;

// Whether sdpa nodes alone read `value`, as q, k or v.
bool feeds_attention(Rewriter& graph, const Users& users, ValueId value) {
  if (users[value].empty() || graph.is_output(value)) return false;
  return std::all_of(users[value].begin(), users[value].end(), [&](NodeId id) {
    const Node& user = graph.node(id);
    return user.op == &ops::sdpa && (user.inputs.size() < 4 || user.inputs[3] != value);
  });
}

bool is_mergeable(Rewriter& graph, const LinearNode& linear) {
  if (linear.op != &ops::gemm || !linear.is_bare()) return false;
  if (linear.bias != kNone && !graph.is_constant(linear.bias)) return false;
  return graph.is_constant(linear.weight) && graph.type(linear.weight).shape.rank() == 2 && graph.num_uses(linear.weight) == 1;
}

// What the members of one merged gemm agree in.
struct Key {
  ValueId x;
  bool trans_b;
  float scale;
  bool bias;
  auto operator<=>(const Key&) const = default;
};

struct Member {
  LinearNode linear;
  ValueId output;
  int64_t columns;
};

// Matrices of rows of equal bytes beside each other: [K, N0 + N1 + ...] of [K, N0], [K, N1], ...
class JoinedRows final : public ConstantSource {
 public:
  struct Part {
    ConstantBytes bytes;
    uint64_t row_bytes;
  };
  JoinedRows(std::vector<Part> parts, uint64_t rows)
      : ConstantSource(rows * row_bytes_of(parts), depth_of(parts)), parts_(std::move(parts)), rows_(rows) {}

  void write(std::byte* to) const override {
    // Parts of one row lie in the result as they are.
    std::shared_ptr<std::byte[]> part_bytes;
    uint64_t capacity = 0, begin = 0;
    for (const Part& part : parts_) {
      const uint64_t size = rows_ * part.row_bytes;
      if (rows_ == 1 && begin % 16 == 0) {
        part.bytes.write(to + begin, size);
      } else {
        if (size > capacity) part_bytes = host_bytes(capacity = size);
        part.bytes.write(part_bytes.get(), size);
        const uint64_t stride = bytes() / rows_;
        for (uint64_t row = 0; row < rows_; ++row) {
          std::memcpy(to + row * stride + begin, part_bytes.get() + row * part.row_bytes, part.row_bytes);
        }
      }
      begin += part.row_bytes;
    }
  }

 private:
  static uint64_t row_bytes_of(const std::vector<Part>& parts) {
    uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.row_bytes;
    return bytes;
  }
  static int depth_of(const std::vector<Part>& parts) {
    int depth = 0;
    for (const Part& part : parts) depth = std::max(depth, part.bytes.depth());
    return depth;
  }

  std::vector<Part> parts_;
  uint64_t rows_;
};

// The weights of all members; with trans_b those of one stand behind those of another.
ValueId joined_weights(Rewriter& graph, const std::vector<Member>& members, int64_t columns) {
  const bool trans_b = members[0].linear.gemm.trans_b;
  const int64_t inner = graph.dims(members[0].linear.weight)[trans_b ? 1 : 0];
  std::vector<JoinedRows::Part> parts;
  for (const Member& member : members) {
    const int64_t width = trans_b ? inner * member.columns : member.columns;
    parts.push_back({graph.value(member.linear.weight).bytes, static_cast<uint64_t>(width) * sizeof(float)});
  }
  const Shape shape = trans_b ? Shape{columns, inner} : Shape{inner, columns};
  auto joined = std::make_shared<JoinedRows>(std::move(parts), trans_b ? 1 : static_cast<uint64_t>(inner));
  return graph.constant_bytes(graph.value(members[0].linear.weight).name, DType::f32, shape, std::move(joined));
}

bool merge(Rewriter& graph, const std::vector<Member>& members) {
  int64_t columns = 0, elements = 0;
  for (const Member& member : members) {
    columns += member.columns;
    elements += graph.type(member.linear.weight).shape.elements(Bindings());
  }
  if (members.size() < 2 || elements == 0 || !graph.affords(elements * static_cast<int64_t>(sizeof(float)))) return false;
  LinearNode merged = members[0].linear;
  merged.weight = joined_weights(graph, members, columns);
  if (merged.bias != kNone) {
    std::vector<double> bias;
    for (const Member& member : members) {
      const std::vector<double> part = constant_values(graph.value(member.linear.bias));
      bias.insert(bias.end(), part.begin(), part.end());
    }
    merged.bias = graph.constant(graph.value(merged.bias).name, DType::f32, {columns}, bias);
  }
  const ValueId output = merged.add_to(graph);
  int64_t begin = 0;
  for (const Member& member : members) {
    const ops::SliceColumnsAttrs window{begin, begin + member.columns};
    graph.replace(member.output, graph.add(ops::slice_columns, window, {output}, member.linear.name));
    begin += member.columns;
  }
  return true;
}

// The view that a slice of columns alone is; kNone for other slices.
ValueId as_window(Rewriter& graph, const Node& node) {
  const auto& slice = node.attrs.as<ops::SliceAttrs>();
  std::vector<int64_t> dims = graph.dims(node.inputs[0]);
  const size_t last = dims.size() - 1;
  dims[last] = slice.size[last];
  if (dims != slice.size || slice.step[last] != 1 || dims[last] == 0) return kNone;
  for (size_t axis = 0; axis < last; ++axis) {
    if (slice.begin[axis] != 0 || (slice.step[axis] != 1 && dims[axis] > 1)) return kNone;
  }
  const ops::SliceColumnsAttrs window{slice.begin[last], slice.begin[last] + dims[last]};
  return graph.add(ops::slice_columns, window, {node.inputs[0]}, node.name);
}

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  const Users users = graph.users();
  std::map<Key, std::vector<Member>> groups;
  int hits = 0;
  const NodeId num_nodes = rewriter.num_nodes();
  for (NodeId id = 0; id < num_nodes; ++id) {
    const Node& node = rewriter.node(id);
    if (node.dead || (node.op != &ops::gemm && node.op != &ops::slice) || !feeds_attention(rewriter, users, node.outputs[0])) continue;
    if (node.op == &ops::slice) {
      const ValueId window = as_window(rewriter, node);
      rewriter.replace(node.outputs[0], window);
      hits += window == kNone ? 0 : 1;
    } else if (const auto linear = LinearNode::of(&node); is_mergeable(rewriter, *linear)) {
      const Key key{linear->x, linear->gemm.trans_b, linear->gemm.scale, linear->bias != kNone};
      groups[key].push_back({*linear, node.outputs[0], rewriter.dims(node.outputs[0]).back()});
    }
  }
  for (const auto& [key, members] : groups) hits += merge(rewriter, members) ? 1 : 0;
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass merge_gemms_pass;
const Pass merge_gemms_pass = {"merge_gemms", "Makes one gemm of the projections that attention reads, and views of its columns.", run};

}  // namespace headrace::passes

#include "ops/rotary.h"

#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;

ValueId rotate_half(Dense& g, ValueId x) {
  return g.concat({g.unary(UnaryKind::neg, g.slice(x, 3, 4, 8)), g.slice(x, 3, 0, 4)}, 3);
}

TEST(FuseRotary, ReadsComputedTablesWhoseHalvesAreOneValue) {
  for (const bool heads_first : {true, false}) {
    Dense g;
    const ValueId rows = g.input({2, 5, 24}), split = g.reshape(rows, {2, 5, 3, 8});
    const ValueId x = heads_first ? g.transpose(split, {0, 2, 1, 3}) : split;
    const ValueId angles = g.input({2, 5, 4});
    const auto table = [&](UnaryKind kind) {
      return g.reshape(g.times(g.unary(kind, g.concat({angles, angles}, 2)), g.number(0.9)),
                       heads_first ? Dims{2, 1, 5, 8} : Dims{2, 5, 1, 8});
    };
    const ValueId turned = g.plus(g.times(x, table(UnaryKind::cos)), g.times(rotate_half(g, x), table(UnaryKind::sin)));
    g.output(heads_first ? g.reshape(g.transpose(turned, {0, 2, 1, 3}), {2, 5, 24}) : turned);
    EXPECT_EQ(g.run("fuse_rotary"), 1);
    const Node& rotary = g.only(ops::rotary);
    EXPECT_EQ(rotary.inputs[0], rows);
    EXPECT_EQ(rotary.attrs.as<ops::RotaryAttrs>().heads, 3);
    EXPECT_EQ(rotary.attrs.as<ops::RotaryAttrs>().head_dim, 8);
  }
}

TEST(FuseRotary, ReadsConstantTablesAndLeavesThoseWithUnequalHalves) {
  for (const bool equal : {true, false}) {
    Dense g;
    const ValueId x = g.input({2, 3, 5, 8});
    const auto table = [&] {
      std::vector<double> data(40);
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i / 8 * 4 + i % (equal ? 4 : 8)) / 64;
      return g.constant({5, 8}, data);
    };
    g.output(g.plus(g.times(rotate_half(g, x), table()), g.times(table(), x)));
    EXPECT_EQ(g.run("fuse_rotary"), equal ? 1 : 0);
    EXPECT_EQ(g.num(ops::rotary), equal ? 1 : 0);
  }
}

}  // namespace
}  // namespace headrace

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/passes.h"
#include "graph/test_ops.h"

namespace headrace {
namespace {

using test_ops::NoAttrs;
using ::testing::HasSubstr;

Graph two_equal_nodes() {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, {4});
  for (const char* name : {"a", "b"}) {
    graph.set_output(name, graph.add_node(test_ops::sum, NoAttrs{}, {x}, name)->at(0));
  }
  return graph;
}

TEST(PassManager, EveryPassHasANameOfItsOwnAndASummary) {
  std::set<std::string_view> names;
  for (const Pass& pass : all_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.summary.empty()) << pass.name;
  }
}

TEST(PassManager, ReportsHitsAndSkipsByName) {
  for (const bool skip : {false, true}) {
    Graph graph = two_equal_nodes();
    PassOptions options;
    if (skip) options.skip = {"common_subexpressions"};
    const auto reports = run_passes(graph, options);
    ASSERT_TRUE(reports) << reports.error().to_string();
    ASSERT_EQ(reports->size(), all_passes().size());
    for (const PassReport& report : *reports) {
      if (report.name != "common_subexpressions") continue;
      EXPECT_EQ(report.skipped, skip);
      EXPECT_EQ(report.hits, skip ? 0 : 1);
    }
    EXPECT_EQ(graph.nodes.size(), skip ? 2u : 1u);
  }
}

TEST(PassManager, AllSkipsEveryPass) {
  Graph graph = two_equal_nodes();
  const std::string before = graph.to_string();
  PassOptions options;
  options.skip = {"all"};
  const auto reports = run_passes(graph, options);
  ASSERT_TRUE(reports);
  for (const PassReport& report : *reports) EXPECT_TRUE(report.skipped) << report.name;
  EXPECT_EQ(graph.to_string(), before);
}

TEST(PassManager, AnUnknownNameIsRefusedWithTheNamesThatExist) {
  Graph graph = two_equal_nodes();
  PassOptions options;
  options.skip = {"merge_qkv_typo"};
  const auto reports = run_passes(graph, options);
  ASSERT_FALSE(reports);
  EXPECT_EQ(reports.error().code(), Code::invalid_argument);
  EXPECT_THAT(reports.error().message(), HasSubstr("\"merge_qkv_typo\" is not known"));
  EXPECT_THAT(reports.error().message(), HasSubstr("dead_code, common_subexpressions"));
}

TEST(PassManager, AnIllegalGraphIsRefusedBeforeAnyPassRuns) {
  Graph graph = two_equal_nodes();
  graph.nodes[1].inputs[0] = 77;
  const auto reports = run_passes(graph, {});
  ASSERT_FALSE(reports);
  EXPECT_EQ(reports.error().code(), Code::internal);
}

}  // namespace
}  // namespace headrace

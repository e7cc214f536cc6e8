#include "graph/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/test_ops.h"

namespace headrace {
namespace {

using test_ops::NoAttrs;
using ::testing::HasSubstr;
using ::testing::Not;

// x -> copy a -> view h of a -> sum s in a place of its own; s -> sum t in place of s
struct Planned {
  Graph graph;
  MemoryPlan memory;
  Kernel kernel{.op = &test_ops::copy, .name = "avx2_lines", .isa = Isa::avx2, .priority = 20};
  PlanFacts facts;
  Planned() {
    const ValueId x = graph.add_input("x", DType::f32, {Dim::symbol(graph.symbols.add("T", 4)), 32});
    const ValueId a = graph.add_node(test_ops::copy, NoAttrs{}, {x}, "a")->at(0);
    const ValueId h = graph.add_node(test_ops::half, NoAttrs{}, {a}, "h")->at(0);
    const ValueId s = graph.add_node(test_ops::sum, NoAttrs{}, {h}, "s")->at(0);
    const ValueId t = graph.add_node(test_ops::sum, NoAttrs{5}, {s}, "t\xff")->at(0);
    graph.set_output("t", t);
    facts.bucket = graph.symbols.upper_bounds();
    graph.nodes.back().in_place = true;
    memory = plan_memory(graph, facts.bucket, {0, 0, 0, 0});
    facts.memory = &memory;
    facts.kernels = {&kernel, nullptr, &kernel, &kernel};
    facts.passes = {{"dead_code", 3, 0.25, false}, {"merge_linears", 0, 0, true}};
  }
};

TEST(Explain, TextShowsPassesKernelsPlacesAndTheThreeByteCounts) {
  const Planned p;
  const std::string text = explain_text(p.graph, p.facts);
  EXPECT_THAT(text, HasSubstr("dead_code                   3 hits     0.250 ms\n"));
  EXPECT_THAT(text, HasSubstr("merge_linears           skipped\n"));
  EXPECT_THAT(text, HasSubstr("nodes: 4 (1 copy, 1 half, 2 sum)\n"));
  EXPECT_THAT(text, HasSubstr("    0 cpu/avx2_lines           @0         %1 f32 [T, 32] = copy(@x)  # a\n"));
  EXPECT_THAT(text, HasSubstr("    1 view                     =%1        %2 f32 [T, 16] = half(%1)  # h\n"));
  EXPECT_THAT(text, HasSubstr("=%3        %4 f32 [T, 16] = sum(%3) {tag=5}"));
  EXPECT_THAT(text, HasSubstr("memory for T=4\n"));
  EXPECT_THAT(text, HasSubstr("planned peak               768 bytes"));
  EXPECT_THAT(text, HasSubstr("live-set bound             768 bytes"));
  EXPECT_THAT(text, HasSubstr("naive sum                 1024 bytes"));
}

TEST(Explain, TheMemoryPlanSaysWhatATokenTakesOfTheCacheOfEveryLayer) {
  Planned p;
  EXPECT_THAT(explain_text(p.graph, p.facts), Not(HasSubstr("kv cache")));
  for (int layer = 0; layer < 2; ++layer) {
    const KvSpec spec{.heads = 3, .head_dim = 64, .dtype = DType::i8};
    p.graph.add_state(fmt::format("kv.{}", layer), ValueType::kv_layer(spec), layer);
  }
  p.memory = plan_memory(p.graph, p.facts.bucket, {0, 0, 0, 0});
  // 64 codes and a scale for a key and for a value, of 3 heads and 2 layers.
  EXPECT_THAT(explain_text(p.graph, p.facts), HasSubstr("kv cache                   816 bytes  for each token of context"));
  EXPECT_EQ(nlohmann::json::parse(explain_json(p.graph, p.facts))["memory"]["kv_bytes_per_token"], 816);
}

TEST(Explain, TextWithoutAPlanShowsTheGraphAlone) {
  const Planned p;
  const std::string text = explain_text(p.graph, {});
  EXPECT_THAT(text, HasSubstr("    0 %1 f32 [T, 32] = copy(@x)  # a\n"));
  EXPECT_THAT(text, Not(HasSubstr("memory")));
  EXPECT_THAT(text, Not(HasSubstr("passes")));
}

TEST(Explain, JsonIsValidWhateverBytesNamesHold) {
  const Planned p;
  const auto json = nlohmann::json::parse(explain_json(p.graph, p.facts));
  EXPECT_EQ(json["passes"][0]["hits"], 3);
  EXPECT_EQ(json["passes"][1]["skipped"], true);
  EXPECT_EQ(json["bucket"]["T"], 4);
  ASSERT_EQ(json["nodes"].size(), 4u);
  EXPECT_EQ(json["nodes"][0]["kernel"]["name"], "avx2_lines");
  EXPECT_FALSE(json["nodes"][1].contains("kernel"));
  EXPECT_EQ(json["nodes"][0]["inputs"][0], "x");
  EXPECT_EQ(json["nodes"][0]["outputs"][0]["bytes"], 512);
  EXPECT_EQ(json["nodes"][3]["outputs"][0]["storage"], 3);
  EXPECT_EQ(json["nodes"][3]["outputs"][0]["offset"], json["nodes"][2]["outputs"][0]["offset"]);
  EXPECT_EQ(json["outputs"]["t"], 4);
  EXPECT_EQ(json["memory"]["planned_peak_bytes"], 768);
  EXPECT_EQ(json["memory"]["live_set_bound_bytes"], 768);
  EXPECT_EQ(json["memory"]["naive_bytes"], 1024);
  EXPECT_EQ(json["stages"], 4);
}

}  // namespace
}  // namespace headrace

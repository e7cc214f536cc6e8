// What sessions hold and give back, by the ledger and by the process's resident size; and that runs side by side give what each gives
// alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "onnx/file.h"
#include "onnx/session.h"
#include "onnx/wire.h"
#include "testing/golden.h"

namespace headrace::onnx {
namespace {

using Values = std::map<std::string, Value>;

Session load(const std::string& name, const Session::Options& options = {}) {
  auto session = Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), options);
  if (!session) throw std::runtime_error(session.error().message());
  return *std::move(session);
}

// Inputs of which every open dim is `size`, or, where the symbol is "batch", `batch`. Integers are 1, numbers follow a pattern.
Values inputs_of(const Session& session, int64_t batch, int64_t size) {
  Values values;
  for (const ValueInfo& input : session.inputs()) {
    if (session.may_be_left_out(input)) continue;
    Dims dims;
    for (const Type::Dim& dim : *input.type.shape) dims.push_back(dim.value >= 0 ? dim.value : dim.symbol == "batch" ? batch : size);
    Tensor tensor(input.type.dtype, dims);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if (tensor.dtype() == DType::f32) tensor.data<float>()[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
      else if (tensor.dtype() == DType::i64) tensor.data<int64_t>()[i] = 1;
    }
    values[input.name] = tensor;
  }
  return values;
}

Values run(const Session& session, const Values& inputs) {
  auto outputs = session.run(inputs);
  EXPECT_TRUE(outputs) << outputs.error().message();
  return outputs ? *std::move(outputs) : Values();
}

bool same_bits(const Values& a, const Values& b) {
  if (a.empty() || a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const auto& entry) {
    const Tensor *left = entry.second.tensor(), *right = b.at(entry.first).tensor();
    return left->dims() == right->dims() && std::memcmp(left->raw(), right->raw(), left->bytes()) == 0;
  });
}

// 0 where a sanitizer's memory hides the program's.
double resident_mb() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif

  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-6;
}

TEST(Memory, ComesBackFromAHundredSessions) {
  const auto queue = runtime::DeviceQueue::cpu(0, 0).value();  // keeps the ledger
  const uint64_t start = queue->ledger().total();
  double settled = 0;
  for (int round = 0; round < 50; ++round) {
    const Session image = load("resnet_tiny"), text = load(round % 2 == 0 ? "bert_tiny" : "mobilenet_tiny");
    ASSERT_FALSE(run(image, inputs_of(image, 1, 32)).empty());
    ASSERT_FALSE(run(text, inputs_of(text, 1 + round % 3, 16)).empty());
    EXPECT_GT(queue->ledger().total(), start);
    if (round == 9) settled = resident_mb();
  }
  EXPECT_EQ(queue->ledger().total(), start);
  EXPECT_LT(resident_mb(), settled + 2);
}

TEST(Memory, ShapesShareTheirConstants) {
  const auto queue = runtime::DeviceQueue::cpu(0, 0).value();
  Session::Options options;
  options.compile.library_kernels = false;  // a library may want another form for another shape
  for (const char* name : {"resnet_tiny", "mobilenet_tiny", "bert_tiny"}) {
    SCOPED_TRACE(name);
    const Session session = load(name, options);
    run(session, inputs_of(session, 1, 32));
    const uint64_t once = queue->ledger().held(Account::weights);
    EXPECT_GT(once, 0u);
    run(session, inputs_of(session, 2, 32));
    run(session, inputs_of(session, 3, 32));
    EXPECT_EQ(queue->ledger().held(Account::weights), once);
  }
}

TEST(Memory, RunsSideBySideGiveWhatEachGivesAlone) {
  const Session one = load("resnet_tiny"), other = load("bert_tiny");
  std::vector<Values> wanted_one, wanted_other;
  {
    const Session alone = load("resnet_tiny"), alone_too = load("bert_tiny");
    for (int64_t batch = 1; batch <= 4; ++batch) {
      wanted_one.push_back(run(alone, inputs_of(alone, batch, 32)));
      wanted_other.push_back(run(alone_too, inputs_of(alone_too, batch, 8 + batch)));
    }
  }
  std::vector<int> right(4);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t at = (t + i) % 4, batch = at + 1;
        const bool same = same_bits(run(one, inputs_of(one, batch, 32)), wanted_one[static_cast<size_t>(at)]);
        const bool too = same_bits(run(other, inputs_of(other, batch, 8 + batch)), wanted_other[static_cast<size_t>(at)]);
        right[static_cast<size_t>(t)] += int{same} + int{too};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, (std::vector<int>{16, 16, 16, 16}));
}

Model model_of(std::vector<std::string> inputs, std::vector<Node> nodes) {
  Model model;
  model.opsets[""] = 20;
  for (std::string& input : inputs) model.graph.inputs.push_back({std::move(input), {}});
  model.graph.nodes = std::move(nodes);
  model.graph.outputs = {{"y", {}}};
  return model;
}

// A section keeps 32 plans, the least recently used goes first, and what it alone held goes with it.
TEST(Memory, StaysTheSameForTenThousandShapes) {
  const Model model = model_of({"x"}, {{.op = "Relu", .inputs = {"x"}, .outputs = {"r"}},
                                       {.op = "Add", .inputs = {"r", "x"}, .outputs = {"y"}}});
  const Session session = Session::make(model, {}).value();
  const auto queue = runtime::DeviceQueue::cpu(0, 0).value();  // keeps the ledger
  uint64_t settled = 0;
  double settled_mb = 0;
  for (int64_t shape = 0; shape < 10'000; ++shape) {
    const int64_t rows = 1 + shape % 100, columns = 1 + shape / 100;
    const Tensor x = Tensor::of({rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns), 1));
    const Values outputs = run(session, {{"x", x}});
    ASSERT_EQ(outputs.at("y").tensor()->dims(), x.dims());
    ASSERT_EQ(*outputs.at("y").tensor()->data<float>(), 2);
    if (shape % 1000 == 999) {
      // The largest shapes so far are behind each other: what a later thousand may hold more is their tensors, of 40 KB at most.
      EXPECT_LE(session.compiled()->section().plans().size(), 32u);
      if (shape == 999) {
        settled = queue->ledger().total();
        settled_mb = resident_mb();
      }
      EXPECT_LE(queue->ledger().total(), settled + 32 * 3 * 40'000);
    }
  }
  if (settled_mb > 0) EXPECT_LT(resident_mb(), settled_mb + 16);
}

// Each output's length is known when it is there: 1,000 sections behind each other would be as many plans within plans.
TEST(Memory, IsBoundedForAChainOfNodesThatDependOnData) {
  // The places of three numbers that are not 0, and 1 more, which are three such numbers again.
  std::vector<Node> nodes;
  for (int i = 0; i < 1000; ++i) {
    const std::string own = std::to_string(i), from = i == 0 ? "x" : "v" + std::to_string(i - 1), to = i == 999 ? "y" : "v" + own;
    nodes.push_back({.op = "NonZero", .inputs = {from}, .outputs = {"places" + own}});
    nodes.push_back({.op = "Squeeze", .inputs = {"places" + own, "first"}, .outputs = {"row" + own}});
    nodes.push_back({.op = "Add", .inputs = {"row" + own, "one"}, .outputs = {to}});
  }
  Model model = model_of({"x"}, nodes);
  model.graph.initializers["first"] = Tensor::of<int64_t>({1}, {0});
  model.graph.initializers["one"] = Tensor::scalar<int64_t>(1);
  const Values inputs = {{"x", Tensor::of<int64_t>({3}, {4, 5, 6})}};
  Session::Options reference;
  reference.reference = true;
  const Values wanted = run(Session::make(model, reference).value(), inputs);
  ASSERT_EQ(wanted.at("y").tensor()->values<int64_t>()[2], 3);
  const double before = resident_mb();
  const Session session = Session::make(model, {}).value();
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(same_bits(run(session, inputs), wanted));
  if (before > 0) EXPECT_LT(resident_mb(), before + 64);
}

TEST(Memory, IsBoundedForAHundredThousandInputs) {
  constexpr size_t kInputs = 100'000;
  std::vector<std::string> names;
  Values inputs;
  for (size_t i = 0; i < kInputs; ++i) {
    names.push_back("x" + std::to_string(i));
    inputs[names.back()] = Tensor::of<float>({1}, {static_cast<float>(i % 8)});
  }
  const Model model = model_of(names, {{.op = "Concat", .inputs = names, .outputs = {"y"}, .attributes = {{"axis", {.integer = 0}}}}});
  const double before = resident_mb();
  for (const bool reference : {true, false}) {
    SCOPED_TRACE(reference ? "reference" : "compiled");
    Session::Options options;
    options.reference = reference;
    const Session session = Session::make(model, options).value();
    const Values outputs = run(session, inputs);
    ASSERT_EQ(outputs.at("y").tensor()->dims(), Dims{kInputs});
    EXPECT_EQ(outputs.at("y").tensor()->data<float>()[kInputs - 1], static_cast<float>((kInputs - 1) % 8));
  }
  if (before > 0) EXPECT_LT(resident_mb(), before + 512);  // 5 KB for each input at most
}

// A file whose tensors stand at all four remainders of an element's size.
TEST(Memory, ATensorOfAFileIsThereWhileItIsHeldAndComesBack) {
  Model model;
  model.ir_version = 8;
  model.opsets[""] = 17;
  std::map<std::string, Tensor> written;
  constexpr int64_t kElements = 100'000;
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<float> values;
    for (int64_t at = 0; at < kElements; ++at) values.push_back(static_cast<float>(at * (i + 1)));
    const std::string name = "w" + std::string(static_cast<size_t>(i), 'x');
    model.graph.initializers[name] = written[name] = Tensor::of<float>({kElements}, values);
    model.graph.nodes.push_back({.op = "Identity", .inputs = {name}, .outputs = {"y" + name}});
    model.graph.outputs.push_back({"y" + name, {}});
  }
  const std::string path = ::testing::TempDir() + "headrace_memory_test.onnx";
  ASSERT_TRUE(write_model(model, path).ok());
  const Model read = read_model(path).value();
  for (const auto& [name, tensor] : written) {
    const Tensor& shown = read.graph.initializers.at(name);
    for (int times = 0; times < 2; ++times) {
      const auto held = shown.share();
      EXPECT_EQ(held, shown.share());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(held.get()) % alignof(float), 0u);
      EXPECT_EQ(std::memcmp(held.get(), tensor.raw(), tensor.bytes()), 0);
    }
    ASSERT_NE(shown.file(), nullptr);
    std::vector<std::byte> copy(tensor.bytes());
    shown.file()->write(copy.data());
    EXPECT_EQ(std::memcmp(copy.data(), tensor.raw(), tensor.bytes()), 0);
    EXPECT_EQ(shown.data<float>()[kElements - 1], tensor.data<float>()[kElements - 1]);
    EXPECT_EQ(shown.raw(), shown.share().get());
  }
  std::remove(path.c_str());
}

TEST(Memory, AModelIsDetachedFromItsRawData) {
  // ModelProto {ir_version 8, graph {initializer {raw_data "abcdef"}, name "g"}}, by the wire format.
  const std::string tensor = std::string("\x4A\x06") + "abcdef", graph = std::string("\x2A\x08") + tensor + "\x12\x01g";
  const std::string model = std::string("\x08\x08\x3A") + static_cast<char>(graph.size()) + graph;
  const DetachedModel detached = detach_raw_data(std::as_bytes(std::span(model)));
  ASSERT_EQ(detached.raw_data.size(), 1u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(detached.raw_data[0].data()), detached.raw_data[0].size()), "abcdef");
  EXPECT_EQ(detached.model, std::string("\x08\x08\x3A\x0B\x2A\x06\x4A\x04\0\0\0\0\x12\x01g", 15));
}

}  // namespace
}  // namespace headrace::onnx

// Where plans are looked for, what is said of one that does not fit, and which products a model has. The device is the fake one.
#include "runtime/matmul_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "models/host_stepper.h"
#include "testing/fake_accelerator.h"
#include "testing/scoped_environment.h"

namespace headrace::runtime {
namespace {

namespace fs = std::filesystem;
using headrace::testing::fake_matmul_plan;
using headrace::testing::ScopedEnvironment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MatmulPlan : public ::testing::Test {
 protected:
  MatmulPlan() : folder_(fs::temp_directory_path() / ("headrace_plan_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fake_matmul_plan() = {};
  }
  ~MatmulPlan() override { fs::remove_all(folder_); }

  // Where the cache's plan of the fake card lies.
  fs::path cached() const { return folder_ / "headrace" / "plans" / "fake.plan"; }
  static void write(const fs::path& path, const char* text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // What loading says on standard error.
  std::string load() {
    ::testing::internal::CaptureStderr();
    load_first_matmul_plan(*queue_->accelerator());
    return ::testing::internal::GetCapturedStderr();
  }

  const fs::path folder_;
  const std::shared_ptr<DeviceQueue> queue_ = headrace::testing::fake_device_queue(1);
};

TEST_F(MatmulPlan, IsNamedAfterItsCard) {
  EXPECT_EQ(matmul_plan_name("NVIDIA H200"), "nvidia-h200.plan");
  EXPECT_EQ(matmul_plan_name("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3.plan");
  EXPECT_EQ(matmul_plan_name("../A (B)"), "a-b.plan");
}

TEST_F(MatmulPlan, IsLookedForInTheCacheAndThenBesideTheProgram) {
  const std::string shipped = program_folder() + "/plans/nvidia-h200.plan";
  {
    const ScopedEnvironment cache({{"HEADRACE_PLAN", {}}, {"XDG_CACHE_HOME", "/cache"}, {"HOME", "/home/me"}});
    EXPECT_THAT(matmul_plan_places("NVIDIA H200"), ElementsAre("/cache/headrace/plans/nvidia-h200.plan", shipped));
    EXPECT_EQ(matmul_plan_to_write("NVIDIA H200").value(), "/cache/headrace/plans/nvidia-h200.plan");
  }
  {
    const ScopedEnvironment home({{"HEADRACE_PLAN", {}}, {"XDG_CACHE_HOME", ""}, {"HOME", "/home/me"}});
    EXPECT_THAT(matmul_plan_places("NVIDIA H200"), ElementsAre("/home/me/.cache/headrace/plans/nvidia-h200.plan", shipped));
  }
  const ScopedEnvironment nowhere({{"HEADRACE_PLAN", {}}, {"XDG_CACHE_HOME", {}}, {"HOME", {}}});
  EXPECT_THAT(matmul_plan_places("NVIDIA H200"), ElementsAre(shipped));
  EXPECT_THAT(matmul_plan_to_write("NVIDIA H200").error().to_string(), HasSubstr("--out FILE"));
}

TEST_F(MatmulPlan, IsTheOneThatTheEnvironmentNames) {
  {
    const ScopedEnvironment named(ScopedEnvironment::Values{{"HEADRACE_PLAN", "/my.plan"}});
    EXPECT_THAT(matmul_plan_places("NVIDIA H200"), ElementsAre("/my.plan"));
    EXPECT_EQ(matmul_plan_to_write("NVIDIA H200").value(), "/my.plan");
  }
  const ScopedEnvironment none({{"HEADRACE_PLAN", ""}, {"XDG_CACHE_HOME", "/cache"}});
  EXPECT_TRUE(matmul_plan_places("NVIDIA H200").empty());
}

TEST_F(MatmulPlan, IsLoadedInSilence) {
  const ScopedEnvironment cache({{"HEADRACE_PLAN", {}}, {"XDG_CACHE_HOME", folder_.string()}});
  EXPECT_EQ(load(), "");
  EXPECT_THAT(fake_matmul_plan().loaded, ElementsAre());  // none is there
  write(cached(), "fake plan\n");
  EXPECT_EQ(load(), "");
  EXPECT_THAT(fake_matmul_plan().loaded, ElementsAre(cached().string()));
}

TEST_F(MatmulPlan, IsLeftOutWithAWarningThatSaysWhatToDo) {
  const ScopedEnvironment cache({{"HEADRACE_PLAN", {}}, {"XDG_CACHE_HOME", folder_.string()}});
  write(cached(), "headrace-matmul-plan 0\n");
  const std::string said = load();
  EXPECT_THAT(said, HasSubstr("this is no fake plan"));
  EXPECT_THAT(said, HasSubstr("headrace tune MODEL --device cuda"));
}

TEST_F(MatmulPlan, ThatWasNamedAndIsNotThereIsAWarningToo) {
  const ScopedEnvironment named(ScopedEnvironment::Values{{"HEADRACE_PLAN", (folder_ / "none.plan").string()}});
  EXPECT_THAT(load(), HasSubstr("headrace tune"));
  EXPECT_EQ(fake_matmul_plan().loaded.size(), 1u);
}

TEST_F(MatmulPlan, IsSavedInAFolderThatIsMadeAndGetsItsNameWhenItIsWhole) {
  const Accelerator& accelerator = *queue_->accelerator();
  ASSERT_TRUE(accelerator.save_matmul_plan(cached()).ok());
  EXPECT_THAT(fake_matmul_plan().saved, ElementsAre(cached().string() + ".part"));
  EXPECT_TRUE(fs::exists(cached()));
  EXPECT_FALSE(fs::exists(cached().string() + ".part"));
  EXPECT_TRUE(accelerator.load_matmul_plan(cached()).ok());

  const Status below_a_file = accelerator.save_matmul_plan((cached() / "x.plan").string());
  EXPECT_EQ(below_a_file.code(), Code::unavailable);
}

TEST_F(MatmulPlan, TunesWhatItIsAsked) {
  const Result<DeviceTuning> tuning = queue_->accelerator()->tune_matmul({DType::bf16, DType::f32, true, 128, 64, 16});
  ASSERT_TRUE(tuning);
  EXPECT_EQ(tuning->us, 2);
  ASSERT_EQ(fake_matmul_plan().tuned.size(), 1u);
  EXPECT_EQ(fake_matmul_plan().tuned[0].n, 128);
}

std::vector<std::string> texts(const std::vector<DeviceMatmul>& products) {
  std::vector<std::string> texts;
  for (const DeviceMatmul& p : products) {
    texts.push_back(fmt::format("{} {} {} {} {} {}", dtype_name(p.dtype), dtype_name(p.out), p.bias ? "bias" : "-", p.n, p.k, p.tokens));
  }
  return texts;
}

// untied_biases/config.json: hidden 64, MLP 96, two heads and one of keys and values of 48 numbers, 100 tokens, biases. So queries, keys
// and values together are (2 + 1 + 1) * 48 = 192 rows of 64 columns, and gate and up are 2 * 96.
TEST(MatmulProducts, AreThoseOfTheModelsLinearsOnce) {
  const models::testing::GoldenCheckpoint checkpoint("tiny_decoders/untied_biases");
  Bindings most;
  const auto products_of = [&](const DtypePolicy& policy) {
    const models::testing::Built built = models::testing::build(checkpoint, policy, {});
    for (int symbol = 0; symbol < built.graph.symbols.size(); ++symbol) {
      most.set(static_cast<SymbolId>(symbol), built.graph.symbols.names()[symbol] == "R" ? 40 : 300);
    }
    return texts(matmul_products(built.graph, most));
  };
  // The last down projection ends in the residual stream, which is float32; the others are read by a norm.
  EXPECT_THAT(products_of(DtypePolicy::bf16()), ElementsAre("bf16 bf16 bias 192 64 300", "bf16 bf16 bias 64 96 300",
                                                            "bf16 f32 bias 64 96 300", "bf16 f32 - 100 64 40"));
  EXPECT_THAT(products_of(DtypePolicy::exact()),
              ElementsAre("f32 f32 bias 192 64 300", "f32 f32 bias 64 96 300", "f32 f32 - 100 64 40"));
}

TEST(MatmulProducts, AreTunedUpToTheNextNumberOfTokens) {
  EXPECT_THAT(tuned_tokens(1), ElementsAre(16));
  EXPECT_THAT(tuned_tokens(100), ElementsAre(16, 32, 48, 64, 96, 128));
  EXPECT_THAT(tuned_tokens(512), ElementsAre(16, 32, 48, 64, 96, 128, 192, 256, 384, 512));
  EXPECT_EQ(tuned_tokens(8192).back(), 8192);
  EXPECT_EQ(tuned_tokens(1 << 20).back(), 16384);
}

}  // namespace
}  // namespace headrace::runtime

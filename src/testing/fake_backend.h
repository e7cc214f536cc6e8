#pragma once
// A server backend without weights: the engine over a fake runner, texts as bytes. Chat messages are written
// one after the other as "<role>content\n", and "<assistant>" opens the answer.

#include <memory>
#include <string>

#include "engine/config.h"
#include "server/backend.h"
#include "testing/fake_runner.h"

namespace headrace::testing {

struct FakeBackendOptions {
  std::string name = "m";
  FakeModel model;
  engine::EngineConfig config;
  std::string
      reply;  // what every chat and the prompt "<assistant>" are answered with; "": hashed tokens of `model`
};

std::unique_ptr<server::Backend> make_fake_backend(FakeBackendOptions options);

}  // namespace headrace::testing

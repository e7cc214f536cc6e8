#pragma once
// What the writers of checkpoints share: the tensors of a ModelSource, a megabyte at a time by every thread of a team.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "core/team.h"
#include "io/model_source.h"

namespace headrace::io {

// Runs a function on every thread of a team (DeviceQueue::run).
using OnTeam = std::function<void(const std::function<void(Team&)>&)>;
// Hears the fraction written, from one thread at a time, and says whether to go on. May be null.
using WriteProgress = std::function<bool(double)>;
// Takes bytes of source.tensors()[tensor], from `offset` in it. Called from several threads at once.
using PutBytes = std::function<Status(size_t tensor, uint64_t offset, std::span<const std::byte> bytes)>;

// Hands every byte of every tensor to `put`, once. `what` is being written, for the message of a write that `progress` ended. Errors: the
// first of the source's and put's; cancelled.
Status write_tensors(const ModelSource& source, std::string_view what, const OnTeam& on_team, const WriteProgress& progress,
                     const PutBytes& put);

// All of `bytes` to `offset` of an open file. False: errno says why.
bool write_at(int file, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace headrace::io

#pragma once
// From a case's declaration to numbers, and from numbers to the memory that a kernel reads and writes. Values
// come from a seed that depends on the op, the case and the input alone, so that a failure repeats
// everywhere.

#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/op_table.h"

namespace headrace::testing {

// A case with its values on the host.
struct CaseData {
  const Op* op = nullptr;
  const OpCase* declared = nullptr;
  std::vector<ValueType> input_types;
  std::vector<ValueType> output_types;
  std::vector<HostValue> inputs;                // rounded to what their dtype or format can hold
  std::vector<std::vector<std::byte>> encoded;  // weights, row-major in their format; empty for other inputs
};

// Cases of the phase "h200" fill a large card: they are measured there, and nothing else runs them.
inline bool for_devices_alone(const OpCase& declared) { return declared.phase == "h200"; }

// Errors: what infer() says of the case's types. `host_values` false leaves out decoded weights and what KV pools hold: the bench needs
// none, and KernelMemory then fills a pool with a few random blocks over and over.
Result<CaseData> make_case_data(const Op& op, const OpCase& declared, bool host_values = true);

// Types, dims and zeroed values of the outputs that `inputs` give. Errors: what infer() says.
Result<std::vector<HostTensor>> output_tensors(const CaseData& data, std::span<const HostValue> inputs);

// Packs each time: what a plan would keep is one case's here.
class OwnPacked final : public PackedConstants {
 public:
  Result<std::shared_ptr<const std::byte[]>> get(std::span<const std::byte> constant, std::string form, uint64_t bytes,
                                                 const std::function<void(std::byte*)>& pack) override;
  std::vector<std::string> forms;  // that were asked for
};

// Inputs, outputs and scratch of one kernel in memory as the executor would bind them, with guard bytes
// around each buffer and between the rows of strided tensors; outputs start as garbage (NaN for floats). A device's kernel gets host
// memory that the device reads and writes in place, unless it is timed.
class KernelMemory {
 public:
  struct Options {
    int team_size = 1;
    bool strided_outputs = false;
    int in_place_output = -1;  // this output takes the storage of in_place_input
    int in_place_input = -1;
    bool constants = false;  // float tensors behind the first input are constants, of which prepare() may keep packed copies
    bool for_timing = false;  // in the device's own memory, pools without gaps; values cannot be read back, damage() knows nothing
  };
  KernelMemory(const CaseData& data, const Kernel& kernel, std::span<const HostValue> inputs,
               std::span<const HostTensor> outputs, const Options& options);
  ~KernelMemory();

  NodeArgs args() const { return {inputs_, outputs_, attrs_, scratch_, state_.get()}; }
  HostTensor output(int index) const;
  // A tensor or kv input as it stands now.
  HostTensor input_tensor(int index) const;
  HostKv input_kv(int index) const;
  // Empty when no byte outside the tensors and no input that is not state was written; else what was.
  std::string damage() const;
  size_t bytes() const;  // of all buffers

 private:
  struct Block;
  Block& add_block(std::string name, size_t bytes);
  void add_input(const CaseData& data, const Kernel& kernel, const HostValue& value, size_t index,
                 bool overwritten);
  TensorView add_tensor(std::string name, const HostTensor& tensor, bool strided);
  void prepare(const Kernel& kernel, const NodeSizes& sizes, const Options& options);
  void move_to_device();

  const Attrs& attrs_;
  const DeviceKind device_;
  const bool for_timing_;
  std::vector<Arg> inputs_;
  std::vector<Arg> outputs_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::byte* scratch_ = nullptr;
  std::shared_ptr<const KernelState> state_;
};

}  // namespace headrace::testing

#pragma once
// Proves a kernel on one case of its op, in ways that hold for every op: outputs and written state against
// the float64 reference, on teams of 1, 2 and 3 members with the same bits; nothing written outside the
// outputs; in-place pairs give the same bits; a row computed alone has the bits that it has in the batch
// (kernels that claim row_invariant); members of a team keep to their rows (kernels that claim by_rows). Kernels that prepare
// run a second time with every input but the first as a constant. Kernels with threads of their own (outside_team) are run by
// one thread and may give other bits with other numbers of threads.

#include <string>
#include <vector>

#include "testing/op_case_data.h"

namespace headrace::testing {

struct CheckOptions {
  std::vector<int> team_sizes = {1, 2, 3};
  int max_rows_alone = 9;  // rows spread over the batch that are computed alone
};

// One sentence a failure; empty: the kernel holds on this case.
struct CaseReport {
  std::vector<std::string> failures;
  bool skipped = false;  // the kernel does not support the case's types
};

// A case with its reference's results, for any number of kernels.
class OpCheck {
 public:
  // Errors: the case itself is wrong (infer refuses it).
  static Result<OpCheck> make(const Op& op, const OpCase& declared);
  CaseReport check(const Kernel& kernel, const CheckOptions& options = {}) const;

 private:
  struct Run;
  Run run(const Kernel& kernel, std::span<const HostValue> inputs,
          const KernelMemory::Options& options) const;
  void check_values(const Run& run, std::vector<std::string>& failures) const;
  void check_state(const Run& run, std::vector<std::string>& failures) const;
  void check_in_place(const Kernel& kernel, const Run& plain, std::vector<std::string>& failures) const;
  void check_by_rows(const Kernel& kernel, const Run& plain, std::vector<std::string>& failures) const;
  void check_rows_alone(const Kernel& kernel, const Run& batch, int max_rows,
                        std::vector<std::string>& failures) const;

  void check_constants(const Kernel& kernel, const Run& plain, const CheckOptions& options,
                       std::vector<std::string>& failures) const;

  CaseData data_;
  std::vector<HostValue> after_;  // inputs as the reference left them: kv and state
  std::vector<HostTensor> expected_;
  Tolerance tolerance_;
};

// Multiply-adds, exponentials and the like that the reference of a case needs: what decides whether a quick
// test runs it. Infinite for a case that is measured on devices alone.
double reference_work(const Op& op, const OpCase& declared);

}  // namespace headrace::testing

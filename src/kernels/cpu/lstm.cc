// lstm: units in blocks of sixteen, whose four gates are 64 neighbouring columns of the packed weights, so that the member that has their
// sums computes their states too. One product gives what all steps take of x; then each step adds r h to its rows and applies the cell.
// A member keeps to its blocks; h changes hands between steps, one barrier each, in two copies. A step of one row is bound by the bytes of
// r, which stay in the second-level cache up to some hundred units. Steps too small to share are one member's.
#include "ops/lstm.h"

#include "kernels/cpu/product_tile.h"
#include "ops/packed_constant.h"

HR_BEGIN_KERNELS
namespace {

constexpr int kGates = 4;
constexpr int64_t kColumns = kGates * kLanes;  // of a block
constexpr int64_t kPanels = kColumns / kPanelWidth;
constexpr std::string_view kForm = kPanelWidth == 32 ? "lstm blocks of panels of 32" : "lstm blocks of panels of 16";
// A step with fewer operations takes one core some three microseconds: two with their barriers are no faster.
constexpr double kSharedFlops = 3e5;

// From types (prepare, scratch) or from views (run).
struct Sizes {
  int64_t directions, steps, batch, inputs, hidden;

  template <class DimOf>
  explicit Sizes(DimOf dim)
      : directions(dim(1, 0)), steps(dim(0, 0)), batch(dim(0, 1)), inputs(dim(0, 2)), hidden(dim(2, 2)) {}
  int64_t blocks() const { return ceil_of(hidden, kLanes); }  // of a direction
  int64_t width() const { return blocks() * kLanes; }         // of a row of h, with what fills the last block
  int64_t packed_floats(int64_t terms) const { return directions * blocks() * kColumns * terms; }
  // What scratch holds, one behind the other: a packed block for each member, gates, and h twice.
  int64_t block_floats() const { return kColumns * larger(inputs, hidden); }
  int64_t gate_floats() const { return directions * blocks() * steps * batch * kColumns; }
  int64_t state_floats() const { return directions * batch * width(); }
  bool step_is_shared() const {
    return 2.0 * static_cast<double>(directions * batch) * static_cast<double>(blocks() * kColumns * hidden) > kSharedFlops;
  }
};

Sizes sizes_of(const NodeSizes& sizes) {
  return Sizes([&](int input, int axis) { return sizes.inputs[input].shape[axis].eval(sizes.bindings); });
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  const Sizes s = sizes_of(sizes);
  return static_cast<size_t>(team_size * s.block_floats() + s.gate_floats() + 2 * s.state_floats()) * sizeof(float);
}

// Block `block` (counted over all directions) of weights [directions, 4 * hidden, terms]: [panel][term][kPanelWidth], zeros behind the
// last unit.
void pack_block(const Sizes& s, const float* weight, int64_t terms, int64_t block, float* packed) {
  const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
  const int64_t units = smaller(kLanes, s.hidden - first);
  for (int64_t column = 0; column < kColumns; ++column) {
    const int64_t gate = column / kLanes, unit = column % kLanes;
    const float* row = weight + ((direction * kGates + gate) * s.hidden + first + unit) * terms;
    float* to = packed + column / kPanelWidth * terms * kPanelWidth + column % kPanelWidth;
    for (int64_t k = 0; k < terms; ++k) to[k * kPanelWidth] = unit < units ? row[k] : 0.0f;
  }
}

template <int input>
void pack_all(const NodeSizes& sizes, const std::byte* constant, std::byte* out) {
  const Sizes s = sizes_of(sizes);
  const int64_t terms = input == 1 ? s.inputs : s.hidden;
  for (int64_t block = 0; block < s.directions * s.blocks(); ++block) {
    pack_block(s, reinterpret_cast<const float*>(constant), terms, block, reinterpret_cast<float*>(out) + block * kColumns * terms);
  }
}

Result<std::shared_ptr<const KernelState>> prepare(const NodeSetup& setup) {
  const Sizes s = sizes_of(setup.sizes);
  const auto bytes = [&](int64_t terms) { return static_cast<uint64_t>(s.packed_floats(terms)) * sizeof(float); };
  return ops::pack_constants(setup, {1, kForm, bytes(s.inputs), pack_all<1>}, {2, kForm, bytes(s.hidden), pack_all<2>});
}

// One node while it runs.
struct Layer {
  const ops::LstmAttrs& attrs;
  const NodeArgs& args;
  const Sizes s;
  const ops::PackedPair* packed;  // null: blocks are packed where they are used, those of r at each step
  float* mine;                    // for such a block
  float* gates;                   // [block][steps, batch][kColumns]
  float* states[2];               // h before and after a step: [directions, batch, width]

  float* output(int index) const { return args.outputs[index].tensor.as<float>(); }
  const float* input(int index) const { return args.inputs[index].tensor.as<float>(); }
  int64_t length(int64_t b) const { return attrs.lengths ? args.inputs[6].tensor.as<int32_t>()[b] : s.steps; }
  // Of batch row `b` at the `step`-th turn, which is below its length.
  int64_t time_of(int64_t direction, int64_t step, int64_t b) const {
    return attrs.backward(direction) ? length(b) - 1 - step : step;
  }

  // The packed block of w (input 1) or r (input 2).
  const float* weights(int index, int64_t block) const {
    const int64_t terms = index == 1 ? s.inputs : s.hidden;
    if (packed != nullptr) {
      const ops::PackedConstant& all = index == 1 ? packed->first : packed->second;
      return reinterpret_cast<const float*>(all.data) + block * kColumns * terms;
    }
    pack_block(s, input(index), terms, block, mine);
    return mine;
  }

  // What all steps take of x, with both biases.
  void multiply_inputs(int64_t block) const {
    const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
    const int units = static_cast<int>(smaller(kLanes, s.hidden - first));
    float bias[kColumns];
    for (int gate = 0; gate < kGates; ++gate) {
      const float* of_w = input(3) + (2 * kGates * direction + gate) * s.hidden + first;
      store(bias + gate * kLanes, load_some(of_w, units) + load_some(of_w + kGates * s.hidden, units));
    }
    const int64_t rows = s.steps * s.batch;
    const float* panels = weights(1, block);
    for (int64_t panel = 0; panel < kPanels; ++panel) {
      const Product product{.a = input(0),
                            .a_stride = s.inputs,
                            .terms = s.inputs,
                            .out = gates + block * rows * kColumns + panel * kPanelWidth,
                            .out_stride = kColumns,
                            .columns = kPanelWidth};
      multiply_chunks(product, {.bias = bias + panel * kPanelWidth}, rows,
                      [&](int64_t term, int64_t) { return panels + (panel * s.inputs + term) * kPanelWidth; });
    }
  }

  // Adds r h to the gates of `count` batch rows from `b` on, which lie at one time. `panels`: the block of r.
  void add_recurrent(int64_t block, const float* panels, const float* h, int64_t time, int64_t b, int64_t count) const {
    for (int64_t panel = 0; panel < kPanels; ++panel) {
      Product product{.a = h + (block / s.blocks() * s.batch + b) * s.width(),
                      .a_stride = s.width(),
                      .terms = 0,
                      .out = gates + ((block * s.steps + time) * s.batch + b) * kColumns + panel * kPanelWidth,
                      .out_stride = kColumns,
                      .columns = kPanelWidth,
                      .first = false};
      product.panel = panels + panel * s.hidden * kPanelWidth;
      for (int64_t term = 0; term < s.hidden; term += product.terms) {
        product.a += product.terms;
        product.panel += product.terms * kPanelWidth;
        product.terms = smaller(kChunkTerms, s.hidden - term);
        multiply_block(product, {}, count);
      }
    }
  }

  // The cell of one batch row's units of a block.
  void apply_cell(int64_t block, int64_t time, int64_t b, float* h) const {
    const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
    const int units = static_cast<int>(smaller(kLanes, s.hidden - first));
    const float* gate = gates + ((block * s.steps + time) * s.batch + b) * kColumns;
    float* c = output(2) + (direction * s.batch + b) * s.hidden + first;
    const Lanes one = broadcast(1.0f);
    const auto sigmoid = [&](int at) { return one / (one + exp(zero() - load(gate + at * kLanes))); };
    const Lanes cell = sigmoid(2) * load_some(c, units) + sigmoid(0) * tanh(load(gate + 3 * kLanes));
    const Lanes state = sigmoid(1) * tanh(cell);
    store_some(c, cell, units);
    store(h + (direction * s.batch + b) * s.width() + first, state);
    store_some(output(0) + ((time * s.directions + direction) * s.batch + b) * s.hidden + first, state, units);
  }

  // A sequence that has ended keeps its state.
  void keep_state(int64_t block, int64_t step, int64_t b, const float* before, float* after) const {
    const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
    const int units = static_cast<int>(smaller(kLanes, s.hidden - first));
    const int64_t at = (direction * s.batch + b) * s.width() + first;
    store(after + at, load(before + at));
    store_some(output(0) + ((step * s.directions + direction) * s.batch + b) * s.hidden + first, zero(), units);
  }

  void run_step(int64_t block, int64_t step) const {
    const float* before = states[step % 2];
    float* after = states[(step + 1) % 2];
    const int64_t direction = block / s.blocks();
    const float* panels = weights(2, block);
    const bool together = !attrs.lengths || !attrs.backward(direction);
    if (together) add_recurrent(block, panels, before, time_of(direction, step, 0), 0, s.batch);
    for (int64_t b = 0; b < s.batch; ++b) {
      if (step >= length(b)) {
        keep_state(block, step, b, before, after);
        continue;
      }
      const int64_t time = time_of(direction, step, b);
      if (!together) add_recurrent(block, panels, before, time, b, 1);
      apply_cell(block, time, b, after);
    }
  }

  // Both states of a block, out of what is given or into what is asked for.
  void begin(int64_t block) const {
    const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
    const int units = static_cast<int>(smaller(kLanes, s.hidden - first));
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t row = direction * s.batch + b, at = row * s.hidden + first;
      store(states[0] + row * s.width() + first, load_some(input(4) + at, units));
      store_some(output(2) + at, load_some(input(5) + at, units), units);
    }
  }
  void end(int64_t block) const {
    const int64_t direction = block / s.blocks(), first = block % s.blocks() * kLanes;
    const int units = static_cast<int>(smaller(kLanes, s.hidden - first));
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t row = direction * s.batch + b;
      store_some(output(1) + row * s.hidden + first, load(states[s.steps % 2] + row * s.width() + first), units);
    }
  }
};

// Every length is one that memory is there for; all members see the same ones.
bool check_lengths(const StepContext& step, const NodeArgs& args, const Sizes& s, bool report) {
  const int32_t* lengths = args.inputs[6].tensor.as<int32_t>();
  bool fit = true;
  for (int64_t b = 0; b < s.batch; ++b) {
    if (lengths[b] >= 0 && lengths[b] <= s.steps) continue;
    fit = false;
    if (report && step.errors != nullptr) step.errors->out_of_range(args.node, lengths[b], 0, s.steps + 1);
  }
  return fit;
}

void run_lstm(const StepContext& step, const NodeArgs& args, Team& team) {
  const Sizes s([&](int input, int axis) { return args.inputs[input].tensor.dims[axis]; });
  const auto& attrs = args.attrs.as<ops::LstmAttrs>();
  if (attrs.lengths && !check_lengths(step, args, s, team.rank() == 0)) return;
  const int64_t blocks = s.directions * s.blocks();
  float* scratch = reinterpret_cast<float*>(args.scratch);
  const auto* packed = static_cast<const ops::PackedPair*>(args.state);
  float* gates = scratch + team.size() * s.block_floats();
  float* states = gates + s.gate_floats();
  const Layer layer{attrs, args, s, packed, scratch + team.rank() * s.block_floats(), gates, {states, states + s.state_floats()}};
  const Team::Range share = team.share(blocks);
  for (int64_t block = share.begin; block < share.end; ++block) {
    layer.begin(block);
    layer.multiply_inputs(block);
  }
  team.barrier();
  const bool shared = s.step_is_shared();
  if (!shared && team.rank() != 0) return;
  const Team::Range mine = shared ? share : Team::Range{0, blocks};
  for (int64_t turn = 0; turn < s.steps; ++turn) {
    for (int64_t block = mine.begin; block < mine.end; ++block) layer.run_step(block, turn);
    if (shared) team.barrier();
  }
  for (int64_t block = mine.begin; block < mine.end; ++block) layer.end(block);
}

constexpr Kernel kLstm{.op = &ops::lstm,
                       .name = kIsaName,
                       .isa = kIsa,
                       .priority = kIsaPriority,
                       .scratch_bytes = scratch_bytes,
                       .prepare = prepare,
                       .run = run_lstm};

}  // namespace

const KernelList kernels_lstm = {&kLstm, 1};
HR_END_KERNELS

// embed: gathers rows out of tile16, so that a tied table is one copy for embed and for the logits' matmul. Each member
// takes a contiguous part of the tokens. One row touches all cache lines of its tile (16 rows): nothing beside a step's
// matmuls.
#include "kernels/cpu/isa.h"
#include "ops/embed.h"
#include "quant/layout.h"

HR_BEGIN_KERNELS
#if defined(HEADRACE_ISA_GENERIC)
namespace {

void run_embed(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& ids = args.inputs[0].tensor;
  const WeightView& table = args.inputs[1].weight;
  const TensorView& out = args.outputs[0].tensor;
  const float scale = args.attrs.as<ops::EmbedAttrs>().scale;
  const uint64_t tile_bytes = tile16_bytes(table.format, table.columns);
  const Team::Range part = team.share(ids.dim(0));
  for (int64_t t = part.begin; t < part.end; ++t) {
    const int64_t id = *ids.row<int32_t>(t);
    float* row = out.row<float>(t);
    if (id < 0 || id >= table.rows) {
      for (int64_t i = 0; i < table.columns; ++i) row[i] = 0.0f;
      continue;
    }
    const std::byte* tile = table.data + static_cast<uint64_t>(id / kTileRows) * tile_bytes;
    decode_tile16_row(table.format, table.columns, tile, static_cast<int>(id % kTileRows), row);
    if (scale != 1.0f) {
      for (int64_t i = 0; i < table.columns; ++i) row[i] *= scale;
    }
  }
}

constexpr Kernel kEmbed[] = {
    {.op = &ops::embed, .name = "tile16", .isa = kIsa, .by_rows = true, .layout = WeightLayout::tile16, .run = run_embed}};

}  // namespace
const KernelList kernels_embed = {kEmbed, 1};
#else
const KernelList kernels_embed = {};
#endif
HR_END_KERNELS

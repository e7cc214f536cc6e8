// resize_2d: a place of the output copies the channels of one place, or weighs those of four. Bound by memory: the output is written once.
#include "ops/resize_2d.h"

#include "kernels/cpu/row.h"

HR_BEGIN_KERNELS
namespace {

void run_resize_2d(const StepContext&, const NodeArgs& args, Team& team) {
  const auto& attrs = args.attrs.as<ops::Resize2dAttrs>();
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  const int64_t height = x.dims[1], width = x.dims[2], channels = x.dims[3];
  const int64_t out_height = y.dims[1], out_width = y.dims[2], line = out_width * channels;
  const bool linear = attrs.mode == ops::Resize2dAttrs::Mode::linear;
  const Lanes one = broadcast(1.0f);
  int64_t last_source = -1;  // the input's row that the row before was copied from
  const Team::Range rows = team.share(x.dims[0] * out_height);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const ops::ResizePlace v = ops::resize_place(attrs, 0, row % out_height, height);
    const int64_t image = row / out_height * height;
    const float* upper = x.as<float>() + (image + v.first) * width * channels;
    const float* lower = x.as<float>() + (image + v.second) * width * channels;
    float* out = y.as<float>() + row * line;
    if (!linear && last_source == image + v.first) {
      std::memcpy(out, out - line, static_cast<size_t>(line) * sizeof(float));
      continue;
    }
    last_source = image + v.first;
    const Lanes down = broadcast(v.weight), up = one - down;
    for (int64_t column = 0; column < out_width; ++column, out += channels) {
      const ops::ResizePlace h = ops::resize_place(attrs, 1, column, width);
      const int64_t first = h.first * channels, second = h.second * channels;
      if (!linear) {
        over_row(channels, [&](int64_t i, int n) { store_some(out + i, load_some(upper + first + i, n), n); });
        continue;
      }
      const Lanes right = broadcast(h.weight), left = one - right;
      over_row(channels, [&](int64_t i, int n) {
        const Lanes above = mul_add(right, load_some(upper + second + i, n), left * load_some(upper + first + i, n));
        const Lanes below = mul_add(right, load_some(lower + second + i, n), left * load_some(lower + first + i, n));
        store_some(out + i, mul_add(down, below, up * above), n);
      });
    }
  }
}

constexpr Kernel kResize{.op = &ops::resize_2d, .name = kIsaName, .isa = kIsa, .priority = kIsaPriority, .run = run_resize_2d};

}  // namespace

const KernelList kernels_resize_2d = {&kResize, 1};
HR_END_KERNELS

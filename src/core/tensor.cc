#include "core/tensor.h"

namespace headrace {

TensorView contiguous_view(void* data, DType dtype, const Shape& shape, const Bindings& bindings) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<uint8_t>(shape.rank());
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    view.dims[axis] = shape[axis].eval(bindings);
    view.strides[axis] = stride;
    stride *= view.dims[axis];
  }
  return view;
}

}  // namespace headrace

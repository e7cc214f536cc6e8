#include "graph/constant_bytes.h"

#include <cstring>

#include "core/buffer.h"

namespace headrace {

std::shared_ptr<const std::byte[]> ConstantSource::hold() const {
  std::shared_ptr<std::byte[]> held = host_bytes(bytes_);
  write(held.get());
  return held;
}

void ConstantBytes::write(std::byte* to, uint64_t bytes) const {
  if (source_ != nullptr) return source_->write(to);
  if (bytes > 0) std::memcpy(to, bytes_.get(), bytes);
}

}  // namespace headrace

#pragma once
// Bytes of a constant of a graph: in memory, or made when they are wanted. A large weight that a kernel packs is so written once, to where it
// is packed from. Immutable and shared by copies; any thread may read them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace headrace {

// Makes the bytes of a constant: out of a file, or out of other constants. Thread-safe; out of memory throws as new does.
class ConstantSource {
 public:
  // `depth`: sources of sources below this one.
  ConstantSource(uint64_t bytes, int depth) : bytes_(bytes), depth_(depth) {}
  virtual ~ConstantSource() = default;
  uint64_t bytes() const { return bytes_; }
  int depth() const { return depth_; }
  // All of them, to `to`, 16-byte aligned.
  virtual void write(std::byte* to) const = 0;
  // In memory, as long as they are held: what others hold already, where the source knows of it.
  virtual std::shared_ptr<const std::byte[]> hold() const;

 private:
  uint64_t bytes_;
  int depth_;
};

class ConstantBytes {
 public:
  ConstantBytes() = default;  // none
  template <class T>
    requires std::convertible_to<std::shared_ptr<T>, std::shared_ptr<const std::byte[]>>
  ConstantBytes(std::shared_ptr<T> bytes) : bytes_(std::move(bytes)) {}  // NOLINT: they are bytes
  template <class T>
    requires std::derived_from<T, ConstantSource>
  ConstantBytes(std::shared_ptr<T> source) {  // NOLINT
    // A rewrite may follow a rewrite as often as a model likes.
    constexpr int kMaxDepth = 4;
    if (source->depth() > kMaxDepth) bytes_ = source->hold();
    else source_ = std::move(source);
  }

  bool has_value() const { return bytes_ != nullptr || source_ != nullptr; }
  bool in_memory() const { return bytes_ != nullptr; }
  // Tells bytes apart: one for all copies; null for none.
  const void* id() const { return bytes_ != nullptr ? static_cast<const void*>(bytes_.get()) : source_.get(); }
  // Whether there are copies of this.
  bool is_shared() const { return (bytes_ != nullptr ? bytes_.use_count() : source_.use_count()) > 1; }
  // Null where they are not in memory.
  const std::byte* get() const { return bytes_.get(); }

  // Of a source made out of these.
  int depth() const { return source_ != nullptr ? source_->depth() + 1 : 0; }

  // In memory as long as the result is held.
  std::shared_ptr<const std::byte[]> hold() const { return source_ != nullptr ? source_->hold() : bytes_; }
  // `bytes`: how many they are.
  void write(std::byte* to, uint64_t bytes) const;

 private:
  std::shared_ptr<const std::byte[]> bytes_;
  std::shared_ptr<const ConstantSource> source_;  // in place of bytes_
};

}  // namespace headrace

#pragma once

#include <utility>

namespace cohort::internal {

/// A smart pointer to an object that counts its own references with ref() and unref().
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T& object) : object_(&object) { object_->ref(); }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) object_->ref();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(const Ref& other) {
    Ref copy(other);
    std::swap(object_, copy.object_);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { reset(); }

  void reset() {
    if (object_ != nullptr) std::exchange(object_, nullptr)->unref();
  }

  /// Gives the reference up without unref(). The caller must pass the pointer to adopt(), or call unref() on it.
  [[nodiscard]] T* release() { return std::exchange(object_, nullptr); }

  /// Takes over a reference that is counted already, such as the first reference of a new object.
  static Ref adopt(T* object) {
    Ref result;
    result.object_ = object;
    return result;
  }

  [[nodiscard]] T* get() const { return object_; }
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.UndefReturn): the analyzer loses track of atomics.
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace cohort::internal

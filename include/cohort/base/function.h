#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "cohort/base/assert.h"

namespace cohort {

template <class Signature>
class Function;

/// A wrapper of any callable. It can be moved but not copied, so the callable may own move-only objects. A callable of
/// at most 48 bytes whose move does not throw is stored in place; any other is stored on the heap.
///
/// Calling an empty Function is a programming error.
///
/// Thread-safety: thread-compatible.
template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}  // NOLINT: implicit by design

  template <class F, class Callable = std::decay_t<F>>
    requires(!std::is_same_v<Callable, Function> && std::is_invocable_r_v<R, Callable&, Args...>)
  Function(F&& callable) {  // NOLINT: implicit by design
    if constexpr (is_empty_able<Callable>) {
      if (!static_cast<bool>(callable)) return;
    }
    if constexpr (kFits<Callable>) {
      ::new (storage()) Callable(std::forward<F>(callable));
    } else {
      ::new (storage()) Callable*(new Callable(std::forward<F>(callable)));
    }
    operations_ = &kOperations<Callable>;
  }

  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Function() { reset(); }

  explicit operator bool() const { return operations_ != nullptr; }

  R operator()(Args... args) {
    COHORT_ASSERT(operations_ != nullptr, "an empty Function cannot be called");
    return operations_->call(storage(), std::forward<Args>(args)...);
  }

 private:
  static constexpr std::size_t kInPlace = 48;
  template <class Callable>
  static constexpr bool kFits = sizeof(Callable) <= kInPlace && alignof(Callable) <= alignof(std::max_align_t) &&
                                std::is_nothrow_move_constructible_v<Callable>;
  template <class Callable>
  static constexpr bool is_empty_able =
      std::is_pointer_v<Callable> || (std::is_constructible_v<bool, Callable> && std::is_class_v<Callable> &&
                                      std::is_default_constructible_v<Callable>);

  struct Operations {
    R (*call)(void* storage, Args&&... args);
    void (*move)(void* from, void* to);
    void (*destroy)(void* storage);
  };

  template <class Callable>
  static Callable& callable_in(void* storage) {
    if constexpr (kFits<Callable>) {
      return *std::launder(static_cast<Callable*>(storage));
    } else {
      return **std::launder(static_cast<Callable**>(storage));
    }
  }

  template <class Callable>
  static constexpr Operations kOperations = {[](void* storage, Args&&... args) -> R {
                                               if constexpr (std::is_void_v<R>) {
                                                 callable_in<Callable>(storage)(std::forward<Args>(args)...);
                                               } else {
                                                 return callable_in<Callable>(storage)(std::forward<Args>(args)...);
                                               }
                                             },
                                             [](void* from, void* to) {
                                               if constexpr (kFits<Callable>) {
                                                 ::new (to) Callable(std::move(callable_in<Callable>(from)));
                                                 callable_in<Callable>(from).~Callable();
                                               } else {
                                                 ::new (to) Callable*(&callable_in<Callable>(from));
                                               }
                                             },
                                             [](void* storage) {
                                               if constexpr (kFits<Callable>) {
                                                 callable_in<Callable>(storage).~Callable();
                                               } else {
                                                 delete &callable_in<Callable>(storage);
                                               }
                                             }};

  void take(Function& other) {
    if (other.operations_ == nullptr) return;
    other.operations_->move(other.storage(), storage());
    operations_ = std::exchange(other.operations_, nullptr);
  }
  void reset() {
    if (operations_ != nullptr) std::exchange(operations_, nullptr)->destroy(storage());
  }
  void* storage() { return storage_; }

  const Operations* operations_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInPlace];
};

}  // namespace cohort

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace cohort::internal {

/// A list whose first kFew elements stand in the object itself, so that it and they are fetched from memory together.
///
/// Thread-safety: thread-compatible.
template <class T, std::size_t kFew>
class InlineList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineList() = default;
  InlineList(const InlineList&) = delete;
  InlineList& operator=(const InlineList&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool is_full() const { return size_ == capacity_; }
  [[nodiscard]] T* begin() { return more_ ? more_.get() : few_; }
  [[nodiscard]] const T* begin() const { return more_ ? more_.get() : few_; }
  [[nodiscard]] T* end() { return begin() + size_; }
  [[nodiscard]] const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  [[nodiscard]] const T& back() const { return begin()[size_ - 1]; }

  /// Makes room for as many again. May throw; then nothing has changed.
  void grow() {
    auto larger = std::make_unique<T[]>(2 * capacity_);
    std::copy(begin(), end(), larger.get());
    more_ = std::move(larger);
    capacity_ *= 2;
  }
  /// There is room.
  void push_back(const T& element) { begin()[size_++] = element; }
  void pop_back() { --size_; }
  void drop_last(std::size_t count) { size_ -= count; }
  /// Gives back what it has beside the object.
  void clear() {
    size_ = 0;
    capacity_ = kFew;
    more_.reset();
  }

 private:
  std::size_t size_ = 0;
  std::size_t capacity_ = kFew;
  std::unique_ptr<T[]> more_;
  T few_[kFew];
};

}  // namespace cohort::internal

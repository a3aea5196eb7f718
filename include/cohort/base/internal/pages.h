#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace cohort::internal {

/// Memory that goes back to the system as soon as it is not used, whatever the program's heap looks like.
///
/// A page is 64 KiB, aligned to that. Given back it keeps its addresses, which the next one gets, and loses its memory;
/// all but a few, which are kept as they are. Builds with a sanitizer use operator new, so that it sees each page.
///
/// Thread-safety: thread-safe.
inline constexpr std::size_t kPageBytes = std::size_t{64} << 10;
[[nodiscard]] void* take_page();
void give_page(void* page);

/// Zeros, straight from the system.
[[nodiscard]] void* map_zeros(std::size_t bytes);
void unmap(void* memory, std::size_t bytes);

/// A fixed number of elements that begin as zeros. Nothing is touched before it is used.
///
/// Thread-safety: thread-compatible.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t size) : data_(static_cast<T*>(map_zeros(size * sizeof(T)))), size_(size) {}
  ZeroedArray(ZeroedArray&& other) noexcept { *this = std::move(other); }
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~ZeroedArray() {
    if (data_ != nullptr) unmap(data_, size_ * sizeof(T));
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cohort::internal

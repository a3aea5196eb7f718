#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace cohort::internal {

/// Allocates pages whose memory goes back to the system as soon as they are free, even if the heap is fragmented.
///
/// A page has 64 KiB and is aligned to 64 KiB. give_page() returns the page's memory to the system; a later take_page()
/// reuses its addresses. A few free pages keep their memory, so that they can be reused at once. Builds with a
/// sanitizer use operator new, so that the sanitizer sees each page.
///
/// Thread-safety: thread-safe.
inline constexpr std::size_t kPageBytes = std::size_t{64} << 10;
[[nodiscard]] void* take_page();
void give_page(void* page);

/// Gets `bytes` of zeroed memory directly from the system.
[[nodiscard]] void* map_zeros(std::size_t bytes);
void unmap(void* memory, std::size_t bytes);

/// An array of fixed size whose elements begin as zeros. Its memory is not touched before an element is used.
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

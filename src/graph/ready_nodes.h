#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort::internal {

/// Nodes that may start. A few of them need no memory of their own, and as a rule there are few.
///
/// Thread-safety: thread-compatible.
class ReadyNodes {
 public:
  [[nodiscard]] bool empty() const { return few_count_ == 0 && more_.empty(); }
  void push(std::uint32_t node) {
    if (few_count_ < few_.size() && more_.empty()) {
      few_[few_count_++] = node;
    } else {
      more_.push_back(node);
    }
  }
  /// The first for which `goes_first(node)`; if there is none, the last.
  template <class GoesFirst>
  std::uint32_t take(GoesFirst goes_first) {
    const auto end = few_.begin() + static_cast<std::ptrdiff_t>(few_count_);
    if (const auto found = std::find_if(few_.begin(), end, goes_first); found != end) return take_few(found);
    if (const auto found = std::ranges::find_if(more_, goes_first); found != more_.end()) {
      const std::uint32_t node = *found;
      more_.erase(found);
      return node;
    }
    if (more_.empty()) return take_few(end - 1);
    const std::uint32_t node = more_.back();
    more_.pop_back();
    return node;
  }

 private:
  using Few = std::array<std::uint32_t, 14>;
  std::uint32_t take_few(Few::iterator place) {
    const std::uint32_t node = *place;
    std::copy(place + 1, few_.begin() + static_cast<std::ptrdiff_t>(few_count_), place);
    --few_count_;
    return node;
  }

  Few few_;
  std::size_t few_count_ = 0;
  std::vector<std::uint32_t> more_;  // When there are more.
};

}  // namespace cohort::internal

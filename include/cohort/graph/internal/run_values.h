#pragma once

#include <cstdint>

namespace cohort::internal {

/// What a run has made so far, as callables see it: only of nodes that have ended before.
class RunValues {
 public:
  [[nodiscard]] virtual const void* request() const = 0;
  /// Null: that node gave none.
  [[nodiscard]] virtual const void* value(std::uint32_t index) const = 0;

 protected:
  ~RunValues() = default;
};

}  // namespace cohort::internal

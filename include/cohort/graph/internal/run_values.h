#pragma once

#include <cstdint>

namespace cohort::internal {

/// The view of a run for callables: the request, and the values of nodes that have ended.
class RunValues {
 public:
  [[nodiscard]] virtual const void* request() const = 0;
  /// The value of a node that has ended. Null if it has none.
  [[nodiscard]] virtual const void* value(std::uint32_t index) const = 0;

 protected:
  ~RunValues() = default;
};

}  // namespace cohort::internal

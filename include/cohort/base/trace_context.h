#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/random.h"

namespace cohort {

/// Which trace a piece of work belongs to, as W3C Trace Context writes it in the `traceparent` header.
///
/// Thread-safety: thread-compatible.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  ///< Not all zero.
  std::array<std::uint8_t, 8> span_id{};    ///< Not all zero.
  bool sampled = false;

  /// Reads "00-<32 hex>-<16 hex>-<2 hex>"; nothing when it is malformed, has zero ids or the version "ff". A later
  /// version is read as far as this one goes.
  [[nodiscard]] static std::optional<TraceContext> parse(std::string_view traceparent);
  /// A new trace.
  [[nodiscard]] static TraceContext start(Random& random, bool sampled);
  /// The same trace with a new span.
  [[nodiscard]] TraceContext child(Random& random) const;
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

}  // namespace cohort

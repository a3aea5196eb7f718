#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/random.h"

namespace cohort {

/// Says which trace a piece of work belongs to. W3C Trace Context defines its text form, the `traceparent` header.
///
/// Thread-safety: thread-compatible.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  ///< Not all zero.
  std::array<std::uint8_t, 8> span_id{};    ///< Not all zero.
  bool sampled = false;

  /// Reads "00-<32 hex>-<16 hex>-<2 hex>". Returns nullopt if the text is malformed, an id is all zero, or the version
  /// is "ff". Of a later version, only the fields of version 00 are read.
  [[nodiscard]] static std::optional<TraceContext> parse(std::string_view traceparent);
  /// Makes a new trace with random ids.
  [[nodiscard]] static TraceContext start(Random& random, bool sampled);
  /// Makes a context of this trace with a new span id.
  [[nodiscard]] TraceContext child(Random& random) const;
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

}  // namespace cohort

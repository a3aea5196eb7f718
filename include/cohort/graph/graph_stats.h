#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/step/outcome.h"

namespace cohort {

/// One node of one run.
struct NodeReport {
  std::string name;
  std::string group;
  Outcome outcome = Outcome::kOk;
  bool is_fallback = false;    ///< Its value is that of its otherwise(), also if it was skipped.
  Error error{};               ///< Why it is not ok; for a fallback, why that was needed.
  std::uint32_t attempts = 0;  ///< 0: it never started.
  Duration ready{0};           ///< When it could have started, since the run began,
  Duration queued{0};          ///< how long it waited then for its first attempt,
  Duration ran{0};             ///< and how long it took from there to its end, retries included.
  bool on_critical_path = false;
};

/// A node over all runs.
struct NodeStats {
  std::string name;
  std::string group;
  std::array<std::uint64_t, kOutcomes> outcomes{};
  Duration queued_p50{0};
  Duration queued_p99{0};
  Duration p50{0};  ///< Of the time it ran, as are
  Duration p95{0};
  Duration p99{0};
  std::uint64_t on_critical_path = 0;  ///< In how many runs.
  // Of its group, now.
  std::uint32_t concurrency = 0;
  std::uint32_t running = 0;
  std::uint64_t waiting = 0;

  [[nodiscard]] std::uint64_t count(Outcome outcome) const { return outcomes[static_cast<std::size_t>(outcome)]; }
  /// How much of its concurrency is in use, 0 to 1.
  [[nodiscard]] double saturation() const {
    return concurrency == 0 ? 0 : static_cast<double>(running) / static_cast<double>(concurrency);
  }
};

struct GraphStats {
  std::uint64_t runs = 0;
  std::uint64_t complete = 0;  ///< Those in which every output had a value.
  Duration p50{0};
  Duration p99{0};
  std::vector<NodeStats> nodes;
};

}  // namespace cohort

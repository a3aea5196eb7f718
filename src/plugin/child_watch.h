#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "plugin/child_process.h"

namespace cohort {

struct WatchOptions {
  std::size_t max_output = 0;  ///< More ends the child.
  Duration kill_after{};       ///< From SIGTERM, sent when a stop is requested, to SIGKILL.
};

/// What a child did until its end.
struct ChildEnd {
  ChildStatus status = {};
  std::string output = {};      ///< At most max_output.
  std::string errors = {};      ///< The last kMaxErrorBytes.
  bool errors_are_cut = false;  ///< There were more.
  bool wrote_too_much = false;  ///< It was killed for that.
  bool was_stopped = false;     ///< It was asked to end before it did.
};

inline constexpr std::size_t kMaxErrorBytes = 8U << 10U;

/// Reads what a child writes until it and all its descendants have ended, and makes them end when `stop` asks for it.
///
/// Blocks until then. That a process with SIGKILL pending ends is up to the kernel, and is waited for without a limit:
/// as long as it is there it may still write. kUnavailable, kRejected: it could not be watched and was killed.
[[nodiscard]] Result<ChildEnd> watch(ChildProcess child, const WatchOptions& options, const std::stop_token& stop);

}  // namespace cohort

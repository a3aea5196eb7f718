#include "cohort/task/task_status.h"

#include <ostream>

namespace cohort {

std::string_view to_string(TaskStatus status) {
  switch (status) {
    case TaskStatus::kSuccess: return "success";
    case TaskStatus::kFailed: return "failed";
    case TaskStatus::kCancelled: return "cancelled";
    case TaskStatus::kRejected: return "rejected";
    case TaskStatus::kTimedOutQueued: return "timed out while queued";
    case TaskStatus::kTimedOutRunning: return "timed out while running";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, TaskStatus status) { return out << to_string(status); }

}  // namespace cohort

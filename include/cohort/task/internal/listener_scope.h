#pragma once

#include <utility>

#include "cohort/task/internal/task_record.h"
#include "cohort/task/task_event.h"

namespace cohort::internal {

/// Marks the scope in which a lifecycle listener runs on this thread.
class ListenerScope {
 public:
  ListenerScope() : outer_(std::exchange(inside_, true)) {}
  ~ListenerScope() { inside_ = outer_; }
  ListenerScope(const ListenerScope&) = delete;
  ListenerScope& operator=(const ListenerScope&) = delete;
  [[nodiscard]] static bool is_inside() { return inside_; }

 private:
  static inline thread_local constinit bool inside_ = false;
  bool outer_;
};

/// Makes the event for a listener. For kSettled, the record must have its error already, and is not published yet.
[[nodiscard]] inline TaskEvent event_of(TaskEvent::Kind kind, const TaskRecord& record, Time at, TaskStatus status) {
  TaskEvent event{
      .kind = kind, .group = record.label().key(), .task_id = record.label().id(), .status = status, .at = at};
  if (kind == TaskEvent::Kind::kSubmitted) return event;
  const bool has_begun = record.has_begun();
  event.queued = (has_begun ? record.started_at : at) - record.submitted_at;
  if (kind != TaskEvent::Kind::kSettled) return event;
  event.error = record.error();
  if (has_begun) event.ran = at - record.started_at;
  return event;
}

}  // namespace cohort::internal

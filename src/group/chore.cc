#include "group/chore.h"

#include <string>

namespace cohort::internal {

std::string text_of(const Reason& how_full, std::string_view group) {
  const auto number = [&](std::size_t place) { return std::to_string(how_full.numbers[place]); };
  return "group '" + std::string(group) + "' has " + number(0) + " tasks waiting and " + number(1) +
         " running (max_waiting " + number(2) + ", max_concurrency " + number(3) + ")";
}

Error error_of(const TaskRecord& record, const Reason& reason) {
  const std::string group = "group '" + record.group_key() + "'";
  const std::string task = "task '" + record.task_id() + "'";
  const auto number = [&](std::size_t place) { return std::to_string(reason.numbers[place]); };
  const auto how_full = [&] { return text_of(reason, record.label().key()); };
  switch (reason.why) {
    case Why::kCancelled: return {ErrorCode::kCancelled, "the task was cancelled while it waited", {}};
    case Why::kGroupShutDown: return {ErrorCode::kCancelled, group + " was shut down", {}};
    case Why::kExecutorShutDown: return {ErrorCode::kCancelled, "the executor was shut down", {}};
    case Why::kTokenClosed: return {ErrorCode::kCancelled, "the token for " + group + " was closed", {}};
    case Why::kTimedOutWaiting:
      return {ErrorCode::kTimedOut, task + " of " + group + " was still waiting when its time ran out", {}};
    case Why::kTimedOutRunning:
      return {ErrorCode::kTimedOut,
              task + " of " + group + " was still running when its time ran out; its body has been asked to stop",
              {}};
    case Why::kTimedOutBefore:
      return {ErrorCode::kTimedOut, "the deadline or time-out of " + task + " had passed when it was submitted", {}};
    case Why::kFull: return {ErrorCode::kRejected, how_full() + "; raise max_waiting or slow the producer", {}};
    case Why::kNoRoomToFollow: return {ErrorCode::kRejected, how_full() + "; then() finds no place for its task", {}};
    case Why::kDiscarded:
      return {ErrorCode::kRejected,
              "the task was discarded for a newer one: " + group + " was full (max_waiting " + number(0) + ")",
              {}};
    case Why::kDraining: return {ErrorCode::kEnded, group + " is draining and takes no new work from outside", {}};
    case Why::kHopeless:
      return {ErrorCode::kRejected,
              task + " of " + group + " would wait for about " + number(0) + " ms, and its time runs out in " +
                  number(1) + " ms",
              {}};
    case Why::kKeyEmpty: return {ErrorCode::kInvalid, "the group key is empty", {}};
    case Why::kKeyTooLong:
      return {ErrorCode::kInvalid,
              "the group key is longer than " + std::to_string(TaskLabel::kMaxKeyBytes) + " bytes",
              {}};
    case Why::kIdTooLong:
      return {
          ErrorCode::kInvalid, "the task id is longer than " + std::to_string(TaskLabel::kMaxIdLength) + " bytes", {}};
    case Why::kTokenWasClosed: return {ErrorCode::kEnded, "the token for " + group + " has been closed", {}};
    case Why::kExecutorWasShutDown:
      return {ErrorCode::kEnded, "the executor has been shut down and takes no new work", {}};
  }
  return {ErrorCode::kInternal, "", {}};
}

}  // namespace cohort::internal

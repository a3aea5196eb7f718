#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/base/retry_policy.h"
#include "cohort/base/wall_clock.h"
#include "cohort/task/submit_options.h"

namespace cohort {

/// The state of a durable task.
///
///     pending -> ready -> processing -> completed | failed | cancelled | expired | poison
///        |         ^          |
///        |         '----------'  retried later, given back, or taken over from a node that died
///        '-> waits for the message that readies it
enum class ChainState : std::uint8_t {
  kPending,     ///< Waits for its message.
  kReady,       ///< Waits to be claimed, perhaps until a time.
  kProcessing,  ///< Claimed by a node, which runs its steps.
  kCompleted,   ///< Every step has its checkpoint.
  kFailed,      ///< A step failed for good. Has a dead letter.
  kCancelled,   ///< A caller cancelled it.
  kExpired,     ///< Its deadline passed before it could go on. Has a dead letter.
  kPoison,      ///< One of its steps kills its nodes, or its row cannot be read. Has a dead letter.
};
inline constexpr std::size_t kChainStates = 8;

[[nodiscard]] std::string_view to_string(ChainState state);
[[nodiscard]] std::optional<ChainState> chain_state_of(std::string_view name);
/// True if the task has ended. Only a replay changes it then.
[[nodiscard]] constexpr bool is_final(ChainState state) { return state >= ChainState::kCompleted; }
[[nodiscard]] constexpr bool has_dead_letter(ChainState state) {
  return state == ChainState::kFailed || state == ChainState::kExpired || state == ChainState::kPoison;
}
std::ostream& operator<<(std::ostream& out, ChainState state);

/// An entry of a chain: the name of a plugin, and its parameters.
struct ChainStep {
  std::string plugin;
  std::string parameters = "{}";          ///< A JSON object.
  std::optional<Duration> timeout = {};   ///< Time-out of one attempt. Nothing: the engine's default.
  std::optional<RetryPolicy> retry = {};  ///< Nothing: the engine's default.

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

/// The request of a submitter: a task to make.
struct NewTask {
  static constexpr std::size_t kMaxIdLength = 128;  ///< In characters of UTF-8.
  static constexpr std::size_t kMaxGroupLength = 1024;
  static constexpr std::size_t kMaxPayloadBytes = 1 << 20;
  static constexpr std::size_t kMaxContextBytes = 256 << 10;
  static constexpr std::size_t kMaxSteps = 100;
  static constexpr std::size_t kMaxTags = 32;

  std::string id = {};     ///< Empty: the engine makes one.
  std::string group = {};  ///< The unit of limits and fair share, for example a tenant.
  std::string session = {};
  std::string file = {};       ///< The file that the steps work on: "file:…", "https:…".
  std::string payload = "{}";  ///< JSON for the steps.
  std::vector<ChainStep> steps = {};
  std::string chain = {};         ///< The named chain from which `steps` were made.
  std::string parameters = "{}";  ///< JSON object: the values that the named chain was given.
  static constexpr Duration kDefaultDeadline = std::chrono::hours(1);
  /// No step starts later than this after the start time (or the submit). Measured on CLOCK_BOOTTIME, so a jump of the
  /// wall clock does not change it. Nothing: `default_deadline`.
  std::optional<Duration> deadline = {};
  std::optional<WallTime> deadline_at = {};  ///< A deadline as a time of day (wall clock); replaces `deadline`.
  Priority priority = Priority::kNormal;
  std::vector<std::string> tags = {};
  std::optional<WallTime> start_at = {};  ///< The task does not start before this time.
  /// Another submit in this group with the same key and the same request gives this task back.
  std::string idempotency_key = {};
  bool pending = false;  ///< True: the task waits for a message that names it.

  /// The deadline if `deadline` and `deadline_at` are not given. Duration::max(): no deadline. The engine sets it
  /// (ChainOptions::deadline). It is not a part of the request: JSON and hash leave it out.
  Duration default_deadline = kDefaultDeadline;

  friend bool operator==(const NewTask&, const NewTask&) = default;
};

/// True for "@" and a number: the id of a task whose own id is damaged. The number is its sequence number.
[[nodiscard]] bool is_sequence_reference(std::string_view id);
/// kInvalid, with the name of the field: something is missing, too large, or not UTF-8. Does not look into JSON and
/// does not know plugins.
[[nodiscard]] Result<void> check(const NewTask& task);
/// A hash of the request without its id and its idempotency key. Equal requests have equal hashes.
[[nodiscard]] std::string request_hash(const NewTask& task);

/// The part of a durable task that changes. Only the store changes it; each write gives it back.
struct ChainRow {
  ChainState state = ChainState::kReady;
  std::uint64_t sequence = 0;  ///< The order of arrival. Within a priority, lower numbers go first.
  WallTime created_at{};
  WallTime deadline_at{};  ///< Before extensions by pauses. Steady clock if `deadline_after` is set, else wall clock.
  std::optional<Duration> deadline_after = {};  ///< The length behind `deadline_at`.
  /// The earliest time of the next claim. A start time is on the wall clock. A delay is on the steady clock, and
  /// `due_after` is its length.
  std::optional<WallTime> due_at = {};
  std::optional<Duration> due_after = {};
  std::optional<WallTime> started_at = {};  ///< The first claim.
  std::optional<WallTime> ended_at = {};

  std::uint32_t step = 0;                         ///< The first step without a checkpoint, counted from 0.
  std::uint32_t attempt = 0;                      ///< Attempts of that step that began.
  std::uint32_t failures = 0;                     ///< Attempts of that step that used up a retry.
  bool attempt_open = false;                      ///< The last attempt has begun and has no recorded end.
  std::optional<WallTime> attempt_began_at = {};  ///< Start of the open attempt.
  std::uint32_t attempt_lines = 0;                ///< Log lines of the open attempt.
  std::uint32_t attempts_made = 0;                ///< Attempts of all steps that were recorded (AttemptRecord::number).
  bool alone = false;                             ///< The open attempt runs alone on its node.
  /// The boots that died, or seemed to die, while they ran this step; "overrun" for a body that did not end in time.
  std::vector<std::string> crashes = {};
  /// The boot that seems to have died while it ran this step alone. If this boot never writes again, the step is
  /// poison.
  std::string died_alone_with = {};
  bool suspect = false;        ///< The step must run alone from its first attempt: a poison task was replayed.
  Duration ran{};              ///< Running time, over all runs.
  std::string context = "{}";  ///< The merged outputs of the steps.
  double progress = 0;         ///< Progress of the current step, 0 to 1.
  std::string progress_note = {};
  std::vector<std::string> log = {};  ///< The last log lines of the steps.
  std::string error = {};             ///< The last error.

  std::string owner = {};                   ///< The boot that has claimed the task, or keeps it while it is ready.
  std::uint64_t epoch = 0;                  ///< The epoch of the last claim. Every claim has a higher one.
  std::uint64_t writes = 0;                 ///< Writes applied under that claim.
  std::string claim_id = {};                ///< The id of the request that claimed the task.
  std::optional<WallTime> kept_until = {};  ///< While ready: before this time only the owner may claim the task.
  bool cancel_requested = false;
  std::string message_id = {};  ///< The message that made the task ready.
  Duration held_before{};  ///< Total length of pauses when the task was made. Only later pauses extend its deadline.
  std::uint64_t events_made = 0;  ///< How many events the task has had.
};

/// A durable task: the request, and its current state.
struct ChainTask : ChainRow {
  NewTask request;

  [[nodiscard]] const std::string& id() const { return request.id; }
  /// The current step. Null after the last step.
  [[nodiscard]] const ChainStep* current_step() const {
    return step < request.steps.size() ? &request.steps[step] : nullptr;
  }
  void set_row(ChainRow row) { static_cast<ChainRow&>(*this) = std::move(row); }
};

/// The name of a step for people, counted from 1: "step 2 ('thumbnail')".
[[nodiscard]] std::string step_name(const ChainStep& step, std::size_t index);
/// The name of the current step of a task.
[[nodiscard]] std::string step_name(const ChainTask& task);

inline constexpr std::size_t kMaxLogLines = 100;
inline constexpr std::size_t kMaxLogLineBytes = 1000;

/// One ended attempt of a step. A task keeps its last kMaxAttempts attempts, over all steps, claims and nodes.
struct AttemptRecord {
  std::uint32_t number = 0;  ///< Counts all attempts of the task from 1.
  std::uint32_t step = 0;
  std::uint32_t attempt = 0;  ///< Counts the attempts of that step from 1.
  std::string plugin = {};
  std::string node = {};  ///< The boot ("node/boot id") that ran the attempt.
  WallTime began_at{};
  WallTime ended_at{};
  /// "succeeded", "skipped", "retried", "failed", "interrupted", "overran", "crashed", "cancelled" or "expired".
  std::string outcome = {};
  std::string error = {};
  std::vector<std::string> log = {};  ///< The last kMaxAttemptLogLines lines of the attempt.

  friend bool operator==(const AttemptRecord&, const AttemptRecord&) = default;
};
inline constexpr std::uint32_t kMaxAttempts = 100;
inline constexpr std::size_t kMaxAttemptLogLines = 10;

/// The record of a task that failed, expired or is poison, for a person to look at and to replay.
struct DeadLetter {
  std::string task_id = {};
  std::string group = {};
  std::string message_id = {};  ///< The message that brought the task, if one did.
  ChainState state = ChainState::kFailed;
  std::string reason = {};
  std::string plugin = {};  ///< The plugin of the step that failed.
  std::uint32_t step = 0;
  std::uint32_t attempts = 0;
  WallTime failed_at{};
  std::string node = {};              ///< The boot that ran the step.
  double progress = 0;                ///< The last reported progress of that step.
  std::vector<std::string> log = {};  ///< The last log lines of the steps.
  /// For a message that made no task (malformed, too long, expired on arrival): the message. For a task whose row could
  /// not be read: the row as JSON (column -> value; bytes that are not UTF-8 as {"hex": …}).
  std::string original = {};

  friend bool operator==(const DeadLetter&, const DeadLetter&) = default;
};

/// What happened to a task.
enum class EventKind : std::uint8_t {
  kCompleted,      ///< Every step has its checkpoint.
  kFailed,         ///< A step failed for good.
  kCancelled,      ///< A caller asked for it.
  kExpired,        ///< The deadline passed.
  kPoison,         ///< A step kills its nodes, or the row cannot be read.
  kStepCompleted,  ///< A step has its checkpoint, and more steps follow.
  kReplayed,       ///< An ended task is ready again.
  kTakenOver,      ///< The claim was taken from a node that died or left.
  kRefused,        ///< A message became a dead letter.
};
[[nodiscard]] std::string_view to_string(EventKind kind);
[[nodiscard]] std::optional<EventKind> event_kind_of(std::string_view name);
/// The kind of the event for a task that ended in this state.
[[nodiscard]] EventKind end_event_of(ChainState state);
std::ostream& operator<<(std::ostream& out, EventKind kind);

/// Something that happened to a task. Readers get every event at least once, and those of one task in order.
struct ChainEvent {
  std::uint64_t sequence = 0;  ///< The number of the event in the store.
  std::uint64_t ordinal = 0;   ///< Counts the events of its task from 1. 0: the event has no task.
  WallTime at{};
  EventKind kind = EventKind::kCompleted;
  std::string task_id = {};
  std::string group = {};
  std::uint32_t step = 0;
  std::string detail = {};

  friend bool operator==(const ChainEvent&, const ChainEvent&) = default;
};

}  // namespace cohort

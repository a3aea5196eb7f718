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

/// Where a durable task is.
///
///     pending -> ready -> processing -> completed | failed | cancelled | expired | poison
///        |         ^          |
///        |         '----------'  retried later, given back, or taken over from a node that died
///        '-> waits for the message that readies it
enum class ChainState : std::uint8_t {
  kPending,     ///< There, but waits for its message.
  kReady,       ///< Waits to be claimed; perhaps not before a time.
  kProcessing,  ///< Claimed by a node, which runs its steps.
  kCompleted,   ///< Every step has its checkpoint.
  kFailed,      ///< A step failed for good. Has a dead letter.
  kCancelled,   ///< Somebody asked for it.
  kExpired,     ///< Its deadline passed before it could go on. Has a dead letter.
  kPoison,      ///< One of its steps takes nodes down, or its row cannot be read. Has a dead letter.
};
inline constexpr std::size_t kChainStates = 8;

[[nodiscard]] std::string_view to_string(ChainState state);
[[nodiscard]] std::optional<ChainState> chain_state_of(std::string_view name);
/// It stays as it is unless somebody replays it.
[[nodiscard]] constexpr bool is_final(ChainState state) { return state >= ChainState::kCompleted; }
[[nodiscard]] constexpr bool has_dead_letter(ChainState state) {
  return state == ChainState::kFailed || state == ChainState::kExpired || state == ChainState::kPoison;
}
std::ostream& operator<<(std::ostream& out, ChainState state);

/// An entry of a chain: a plugin and what it is to do.
struct ChainStep {
  std::string plugin;
  std::string parameters = "{}";          ///< A JSON object.
  std::optional<Duration> timeout = {};   ///< Of one attempt; nothing: the runner's default.
  std::optional<RetryPolicy> retry = {};  ///< Nothing: the runner's default.

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

/// What a submitter asks for.
struct NewTask {
  static constexpr std::size_t kMaxIdLength = 128;  ///< Characters of UTF-8, as the other lengths of texts.
  static constexpr std::size_t kMaxGroupLength = 1024;
  static constexpr std::size_t kMaxPayloadBytes = 1 << 20;
  static constexpr std::size_t kMaxContextBytes = 256 << 10;
  static constexpr std::size_t kMaxSteps = 100;
  static constexpr std::size_t kMaxTags = 32;

  std::string id = {};     ///< Empty: one is made.
  std::string group = {};  ///< The tenant.
  std::string session = {};
  std::string file = {};       ///< What every step works on: "file:…", "https:…"; empty: none.
  std::string payload = "{}";  ///< JSON for the steps.
  std::vector<ChainStep> steps = {};
  std::string chain = {};         ///< The named chain that `steps` are made of; empty: they were given.
  std::string parameters = "{}";  ///< JSON object: the values that the named chain was given.
  static constexpr Duration kDefaultDeadline = std::chrono::hours(1);
  /// Longest time from the start time (or the submit) after which no step starts any more. Measured on CLOCK_BOOTTIME,
  /// so a jump of the wall clock does not change it. Nothing: `default_deadline`.
  std::optional<Duration> deadline = {};
  std::optional<WallTime> deadline_at = {};  ///< A deadline as a time of day (wall clock); replaces `deadline`.
  Priority priority = Priority::kNormal;
  std::vector<std::string> tags = {};
  std::optional<WallTime> start_at = {};  ///< Not before.
  /// Another submit of this tenant with the same key and the same request gives this task back.
  std::string idempotency_key = {};
  bool pending = false;  ///< Wait for a message that names it.

  /// The deadline of a task that gives none; Duration::max(): none at all. The engine sets it (ChainOptions::deadline).
  /// It is no part of the request: neither its JSON nor its hash has it.
  Duration default_deadline = kDefaultDeadline;

  friend bool operator==(const NewTask&, const NewTask&) = default;
};

/// True for "@" and a number: the id of a task whose own id is damaged. The number is its sequence number.
[[nodiscard]] bool is_sequence_reference(std::string_view id);
/// kInvalid with the field, when something is missing or too big. What needs JSON or the plugins is not looked at.
[[nodiscard]] Result<void> check(const NewTask& task);
/// The same for the same request, whatever its id and key.
[[nodiscard]] std::string request_hash(const NewTask& task);

/// What changes of a durable task while it lives. Only the store changes it; each write answers with it.
struct ChainRow {
  ChainState state = ChainState::kReady;
  std::uint64_t sequence = 0;  ///< The order of arrival; within a priority the lower goes first.
  WallTime created_at{};
  WallTime deadline_at{};  ///< Without the extensions by pauses. Steady clock if `deadline_after` is set, else wall.
  std::optional<Duration> deadline_after = {};  ///< The length behind `deadline_at`.
  /// Earliest time of the next claim. A start time is on the wall clock; a delay is on the steady clock, and then
  /// `due_after` is its length.
  std::optional<WallTime> due_at = {};
  std::optional<Duration> due_after = {};
  std::optional<WallTime> started_at = {};  ///< The first claim.
  std::optional<WallTime> ended_at = {};

  std::uint32_t step = 0;                         ///< The first without a checkpoint, counted from 0.
  std::uint32_t attempt = 0;                      ///< Attempts of that step that have begun.
  std::uint32_t failures = 0;                     ///< Those of them that failed in a way that may pass.
  bool attempt_open = false;                      ///< One has begun and, as far as is known, not ended.
  std::optional<WallTime> attempt_began_at = {};  ///< Start of the open attempt.
  std::uint32_t attempt_lines = 0;                ///< Log lines of the open attempt.
  std::uint32_t attempts_made = 0;                ///< Attempts of all steps that were recorded (AttemptRecord::number).
  bool alone = false;                             ///< While nothing else ran on its node.
  /// The boots that died, or may have died, while they ran this step; "overrun" for a body that did not end in time.
  std::vector<std::string> crashes = {};
  /// The boot that seems to have died while it ran this step alone. Unless that is heard of again, the step is poison.
  std::string died_alone_with = {};
  bool suspect = false;        ///< Must run alone from the first attempt: a poison task that was replayed.
  Duration ran{};              ///< Over all runs of it.
  std::string context = "{}";  ///< What the steps have put out, merged.
  double progress = 0;         ///< Of the current step, 0..1, as it says.
  std::string progress_note = {};
  std::vector<std::string> log = {};  ///< The last lines that steps have logged.
  std::string error = {};             ///< The last one.

  std::string owner = {};                   ///< The boot that has claimed it; or keeps it, while ready.
  std::uint64_t epoch = 0;                  ///< Of its last claim. Every claim has a higher one.
  std::uint64_t writes = 0;                 ///< Of that claim, applied so far.
  std::string claim_id = {};                ///< The request that claimed it.
  std::optional<WallTime> kept_until = {};  ///< While ready: until then only its owner may claim it.
  bool cancel_requested = false;
  std::string message_id = {};  ///< The message that made it ready.
  Duration held_before{};       ///< What pauses had added up to when it was made: only what came later extends it.
};

/// A durable task: what was asked for, and what has become of it.
struct ChainTask : ChainRow {
  NewTask request;

  [[nodiscard]] const std::string& id() const { return request.id; }
  /// Its current step, or null after the last.
  [[nodiscard]] const ChainStep* current_step() const {
    return step < request.steps.size() ? &request.steps[step] : nullptr;
  }
  void set_row(ChainRow row) { static_cast<ChainRow&>(*this) = std::move(row); }
};

/// "step 2 ('thumbnail')", for people: counted from 1.
[[nodiscard]] std::string step_name(const ChainStep& step, std::size_t index);
/// Of the current step.
[[nodiscard]] std::string step_name(const ChainTask& task);

inline constexpr std::size_t kMaxLogLines = 100;
inline constexpr std::size_t kMaxLogLineBytes = 1000;

/// One ended attempt of a step. A task keeps its last kMaxAttempts of them, over all steps, claims and nodes.
struct AttemptRecord {
  std::uint32_t number = 0;  ///< Counts all attempts of the task from 1.
  std::uint32_t step = 0;
  std::uint32_t attempt = 0;  ///< Of that step, from 1.
  std::string plugin = {};
  std::string node = {};  ///< The boot ("node/boot id") that ran it.
  WallTime began_at{};
  WallTime ended_at{};
  /// "succeeded", "skipped", "retried", "failed", "interrupted", "overran", "crashed", "cancelled" or "expired".
  std::string outcome = {};
  std::string error = {};
  std::vector<std::string> log = {};  ///< Its last kMaxAttemptLogLines lines.

  friend bool operator==(const AttemptRecord&, const AttemptRecord&) = default;
};
inline constexpr std::uint32_t kMaxAttempts = 100;
inline constexpr std::size_t kMaxAttemptLogLines = 10;

/// What is kept of a task that ended badly, for a person to look at and to replay.
struct DeadLetter {
  std::string task_id = {};
  std::string group = {};
  std::string message_id = {};  ///< Of the message that brought it, if one did.
  ChainState state = ChainState::kFailed;
  std::string reason = {};
  std::string plugin = {};  ///< Of the step that failed.
  std::uint32_t step = 0;
  std::uint32_t attempts = 0;
  WallTime failed_at{};
  std::string node = {};              ///< Who ran it.
  double progress = 0;                ///< Of the step that failed, as it said last.
  std::vector<std::string> log = {};  ///< What its steps have logged, the last lines.
  /// The message, where there is no task: malformed, over-long or expired on arrival. For a task whose row could not be
  /// read: the row, as JSON (column -> value; bytes that are not UTF-8 as {"hex": …}).
  std::string original = {};

  friend bool operator==(const DeadLetter&, const DeadLetter&) = default;
};

/// What happened to a task.
enum class EventKind : std::uint8_t {
  kCompleted,      ///< Every step has its checkpoint.
  kFailed,         ///< A step failed for good.
  kCancelled,      ///< A caller asked for it.
  kExpired,        ///< The deadline passed.
  kPoison,         ///< A step takes nodes down, or the row cannot be read.
  kStepCompleted,  ///< A step has its checkpoint, and more steps follow.
  kReplayed,       ///< An ended task is ready again.
  kTakenOver,      ///< The claim of a node that died, or left, is free.
  kRefused,        ///< A message made no task.
};
[[nodiscard]] std::string_view to_string(EventKind kind);
[[nodiscard]] std::optional<EventKind> event_kind_of(std::string_view name);
/// The event that tells of the end of a task in that state.
[[nodiscard]] EventKind end_event_of(ChainState state);
std::ostream& operator<<(std::ostream& out, EventKind kind);

/// An event of a task, told to the outside in order and at least once.
struct ChainEvent {
  std::uint64_t sequence = 0;
  WallTime at{};
  EventKind kind = EventKind::kCompleted;
  std::string task_id = {};
  std::string group = {};
  std::uint32_t step = 0;
  std::string detail = {};

  friend bool operator==(const ChainEvent&, const ChainEvent&) = default;
};

}  // namespace cohort

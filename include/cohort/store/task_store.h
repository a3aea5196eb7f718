#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cohort/base/completion.h"
#include "cohort/base/result.h"
#include "cohort/base/wall_clock.h"
#include "cohort/store/chain_task.h"

namespace cohort {

struct Submitted {
  std::string task_id;
  ChainState state = ChainState::kReady;
  bool existed = false;  ///< Its idempotency key was there already, with the same request.
  /// The engine fills these two in.
  std::optional<Duration> deadline =
      {};                    ///< Of a task that was made now and has one as a length; Duration::max(): none.
  std::string warning = {};  ///< What its submitter should know; empty: nothing.
};

/// A message that carries a whole task, or the id of a row that is there.
struct TakenIn {
  std::string message_id;
  std::string task_id = {};  ///< Of the row; empty when `task` is given.
  std::optional<NewTask> task = {};
  std::optional<WallTime> deadline = {};   ///< After it the message has no effect but a dead letter.
  std::optional<DeadLetter> refused = {};  ///< It cannot be understood: this is what is kept of it.
};

enum class IntakeOutcome : std::uint8_t {
  kCreated,     ///< A new row.
  kReadied,     ///< The pending row is ready.
  kDuplicate,   ///< Applied before.
  kNotCurrent,  ///< The row has another message, or is past waiting for one.
  kExpired,     ///< A dead letter.
  kUnknown,     ///< No such row: a dead letter.
  kRefused,     ///< A dead letter.
};

struct IntakeAnswer {
  IntakeOutcome outcome = IntakeOutcome::kDuplicate;
  std::string group = {};  ///< Of its task, if that is ready, now or since the answer before this was lost; else empty.
};

/// Asks for the next task of a group. The answer to a repeated request (same id) is the same, so an answer that was
/// lost can be asked for again.
struct ClaimRequest {
  std::string id;
  std::string boot;
  std::string group;
  std::vector<std::string> without_plugins = {};  ///< Not those whose current step is one of these.
  bool begin = true;  ///< Record the first attempt with the claim, unless the task is a suspect.
  /// Plugins whose steps run in a process of their own. Such a step is never a suspect; it is poison after
  /// `poison_after` deaths of its node.
  std::vector<std::string> own_process_plugins = {};
  std::uint32_t poison_after = 10;
};

struct ClaimAnswer {
  std::optional<ChainTask> task = {};
  bool suspect = false;                  ///< It must run alone.
  bool more = false;                     ///< The group has another that could be claimed now.
  std::optional<Duration> next_in = {};  ///< If not: when the earliest of those that wait for a time is due.
};

/// The right to write to a task: whoever claims it next has a higher epoch, and the holder of this one gets kStale.
struct Claim {
  std::string task_id;
  std::string boot;
  std::uint64_t epoch = 0;
};

// What a runner writes. Each is one transaction, and compares the claim.

/// An attempt of the current step begins.
struct AttemptBegun {
  bool alone = false;
};
/// It did not succeed, and the task is not at its end.
struct AttemptEnded {
  std::string error = {};
  Duration ran{};
  bool failed = true;      ///< False: it was interrupted; uses up no retry.
  bool overran = false;    ///< Its body did not end in time: counts like a crash.
  bool give_back = false;  ///< The claim ends with it; else the runner goes on with it.
  Duration delay{};        ///< Given back: not before.
  Duration keep{};         ///< Given back: for so long only this boot may claim it.
};
/// The current step is done. The last one completes the task.
struct Checkpoint {
  std::uint32_t step = 0;
  std::string context = "{}";
  Duration ran{};
  std::string skipped = {};  ///< Why, if it was.
  bool begin_next = false;   ///< The first attempt of the next step begins with it.
};
/// The task ends as failed.
struct ChainFailed {
  std::string reason;
  Duration ran{};
  bool overran = false;
};
/// What the step says of itself. May be repeated and may be lost.
struct StepReport {
  double progress = 0;
  std::string note = {};
  std::vector<std::string> log = {};
};
using RunnerWrite = std::variant<AttemptBegun, AttemptEnded, Checkpoint, ChainFailed, StepReport>;

struct NodeLease {
  std::string node;
  std::string boot;
  std::string address = {};
  /// The boot under which the same process had a lease before: it was cut off, but it did not crash. What it had
  /// claimed is free.
  std::string formerly = {};
};

struct TaskFilter {
  std::string group = {};  ///< Empty: any.
  std::optional<ChainState> state = {};
  std::string tag = {};
  /// Only tasks whose id begins so, by id. Nothing else filters then, and there is one page.
  std::string id_prefix = {};
  std::uint64_t before = 0;  ///< Of a task's sequence: those that came earlier. 0: from the newest.
  std::uint32_t limit = 100;
};

/// Part of a list. A store looks at a bounded number of rows for it, so it may hold fewer tasks than asked for, even
/// none, and still not be the last.
struct TaskPage {
  std::vector<ChainTask> tasks = {};
  std::uint64_t next = 0;  ///< TaskFilter::before of the next page; 0: this was the last.
};

struct ReplayRequest {
  std::string task_id;
  std::optional<std::uint32_t> from_step = {};  ///< At most the one it stopped at, which is the default.
  std::optional<Duration> deadline = {};        ///< From now. Nothing: NewTask::kDefaultDeadline.
  std::string message_id = {};                  ///< With one, a repeated request is answered as the first time.
};

enum class CommandKind : std::uint8_t { kPauseGroup, kResumeGroup, kResizeGroup, kCancel };
[[nodiscard]] std::string_view to_string(CommandKind kind);
[[nodiscard]] std::optional<CommandKind> command_kind_of(std::string_view name);

/// What an operator asks of every node.
struct Command {
  std::uint64_t sequence = 0;
  WallTime at{};
  CommandKind kind = CommandKind::kCancel;
  std::string target;
  std::string arguments = {};
  std::string actor = {};
};

/// A group that has something to do.
struct GroupWork {
  std::string group;
  std::optional<Duration> next_in = {};  ///< Nothing: now.
};

/// A group in which tasks became ready.
struct ReadyGroup {
  std::string group;
  std::uint64_t count = 1;
  Duration next_in{};  ///< Above zero: they may be claimed only then, by the store's clock.
};

/// What a store tells its watchers: where to look. A hint may come more than once, and after another look has found
/// everything.
struct StoreNews {
  std::vector<ReadyGroup> ready = {};
  bool control = false;          ///< There are new commands.
  std::uint64_t last_event = 0;  ///< Above 0: there are new events, up to this one.
  bool everything = false;       ///< News may have been lost: look at everything.
};
using StoreWatch = std::function<void(const StoreNews&)>;

/// What a group has open.
struct GroupCounts {
  std::string group;
  std::uint64_t pending = 0;
  std::uint64_t ready = 0;
  std::uint64_t processing = 0;
  bool paused = false;
};

struct StoreStats {
  std::uint64_t tasks[kChainStates] = {};
  std::uint64_t dead_letters = 0;
  std::uint64_t events = 0;
  std::uint64_t last_event = 0;  ///< Its sequence; 0: there was none.
  std::uint64_t damaged = 0;     ///< Rows that could not be read, since the store was opened.
};

/// Where durable tasks live. This is a port: SqliteStore, MemoryStore (testing/) and others implement it, and
/// tests/contract says what all of them promise.
///
/// A call takes effect as a whole or not at all, and before its completion says so it is durable. kUnavailable: it is
/// not known whether it took effect; everything but report-like writes can be repeated safely (submit: with an id or an
/// idempotency key). Times are the store's own clock: nodes give durations.
///
/// Thread-safety: thread-safe.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  // --- tasks come in
  /// Each for itself: one that is refused (kInvalid; kConflict: its key belongs to another request; kExists: its id to
  /// another task) leaves the others alone.
  virtual void submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) = 0;
  virtual void take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) = 0;

  // --- nodes and their claims
  /// Begins a lease under a boot that was never used before.
  virtual void join(NodeLease node, Duration lease, Completion<void> done) = 0;
  /// kStale: it ran out.
  virtual void renew(std::string boot, Duration lease, Completion<void> done) = 0;
  /// Gives the lease up. What the boot has claimed is free.
  virtual void leave(std::string boot, Completion<void> done) = 0;
  /// Frees what boots have claimed whose lease has run out; or, `all_others`, every boot but this one, by whoever has
  /// other proof that they are dead. Gives the groups in which something became ready.
  virtual void take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) = 0;
  virtual void claim(ClaimRequest request, Completion<ClaimAnswer> done) = 0;
  /// Answers with the row as the write left it. `number` counts the writes of a claim from 1; a repeated write changes
  /// nothing. A StepReport has 0.
  virtual void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) = 0;
  /// The groups with ready tasks.
  virtual void groups_with_work(Completion<std::vector<GroupWork>> done) = 0;

  // --- control
  /// A pending task becomes ready without a message. kConflict: it is not pending.
  virtual void ready(std::string task_id, Completion<ChainTask> done) = 0;
  /// Waiting: cancelled at once. Processing: cancelled by its runner, as the answer's state says. Ended: kConflict.
  virtual void cancel(std::string task_id, std::string reason, Completion<ChainRow> done) = 0;
  /// An ended task is ready again, under its id, with a new deadline and no counters; completed ones only from a step
  /// that is named. Its dead letter is gone.
  virtual void replay(ReplayRequest request, Completion<ChainTask> done) = 0;
  /// While a group is paused nothing of it is claimed, and its deadlines wait with it.
  virtual void pause_group(std::string group, bool paused, Completion<void> done) = 0;
  virtual void command(Command command, Completion<std::uint64_t> done) = 0;
  virtual void commands(std::uint64_t after, std::uint32_t limit, Completion<std::vector<Command>> done) = 0;

  /// Tells of what has become ready, of commands and of events, until the returned object is dropped; a call that is
  /// under way then may still end. Each change is told after its commit, whether it was made through this object or by
  /// another node. A store that may have missed something says `everything`. `watch` must not block; it runs without a
  /// lock on a thread of the store, or inside the call that made the change.
  [[nodiscard]] virtual std::shared_ptr<void> watch(StoreWatch watch) = 0;

  // --- to look at
  virtual void get(std::string task_id, Completion<ChainTask> done) = 0;
  /// The ended attempts of a task, the oldest first.
  virtual void attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) = 0;
  /// The newest first; without payloads, contexts, logs and parameters.
  virtual void list(TaskFilter filter, Completion<TaskPage> done) = 0;
  virtual void dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) = 0;
  virtual void dead_letter(std::string task_id, Completion<DeadLetter> done) = 0;
  virtual void discard_dead_letter(std::string task_id, Completion<void> done) = 0;
  virtual void events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) = 0;
  virtual void paused_groups(Completion<std::vector<std::string>> done) = 0;
  /// At most `limit` groups after the one named `after` that have something open or are paused, by name.
  virtual void group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) = 0;
  /// The same for one group; all zero if nothing is open.
  virtual void group_count(std::string group, Completion<GroupCounts> done) = 0;
  virtual void stats(Completion<StoreStats> done) = 0;
  /// Why the store cannot be used any more until an operator acts: its file is damaged, was replaced or removed.
  /// Nothing is claimed then. Does not block.
  [[nodiscard]] virtual std::optional<Error> fault() const { return std::nullopt; }
  /// Why the last write failed, while that may still pass: the disk is full, the file is locked. Nothing once a write
  /// has succeeded again. Does not block.
  [[nodiscard]] virtual std::optional<Error> trouble() const { return std::nullopt; }

  // --- to keep
  /// A number under a name, such as how far a reader of events has come.
  virtual void set_cursor(std::string name, std::uint64_t value, Completion<void> done) = 0;
  virtual void cursor(std::string name, Completion<std::uint64_t> done) = 0;
  /// Forgets at most `limit` tasks that ended longer ago than that, with their dead letters; as many events (none that
  /// the cursor "relay" has not passed), commands (not the last kResizeGroup of a target, which holds) and dead
  /// letters without a task of that age; and expires as many pending tasks whose deadline has passed. Gives how many
  /// tasks or events, whichever is more.
  virtual void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) = 0;
};

}  // namespace cohort

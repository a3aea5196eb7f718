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

/// The answer to the submit of one task.
struct Submitted {
  std::string task_id;
  ChainState state = ChainState::kReady;
  bool existed = false;  ///< An earlier submit made the task: same id or idempotency key, and same request.
  /// The deadline of a new task that has one as a length. Duration::max(): no deadline. The engine sets it.
  std::optional<Duration> deadline = {};
  std::string warning = {};  ///< Something that the submitter should know. Empty: nothing. The engine sets it.
};

/// A message that carries a whole task, or the id of a row.
struct TakenIn {
  std::string message_id;
  std::string task_id = {};  ///< The id of the row. Empty if `task` is given.
  std::optional<NewTask> task = {};
  std::optional<WallTime> deadline = {};   ///< After this time the message becomes a dead letter.
  std::optional<DeadLetter> refused = {};  ///< Set if the message cannot be understood: the dead letter to keep.
};

/// What became of a message.
enum class IntakeOutcome : std::uint8_t {
  kCreated,     ///< It made a new row.
  kReadied,     ///< It made a pending row ready.
  kDuplicate,   ///< It was applied before.
  kNotCurrent,  ///< The row took another message, or is not pending any more.
  kExpired,     ///< It became a dead letter: its deadline or the row's had passed.
  kUnknown,     ///< It became a dead letter: there is no such row.
  kRefused,     ///< It became a dead letter: it cannot be understood.
};

struct IntakeAnswer {
  IntakeOutcome outcome = IntakeOutcome::kDuplicate;
  std::string group = {};  ///< The group of the task if the task is ready; else empty.
};

/// Asks for the next task of a group. A request that is repeated with the same id gets the same answer, so a lost
/// answer can be asked for again.
struct ClaimRequest {
  std::string id;
  std::string boot;
  std::string group;
  std::vector<std::string> without_plugins = {};  ///< Skip tasks whose current step has one of these plugins.
  bool begin = true;                              ///< Record the first attempt with the claim, unless it is a suspect.
  /// Plugins whose steps run in a process of their own. Such a step is never a suspect; it is poison after
  /// `poison_after` deaths of its node.
  std::vector<std::string> own_process_plugins = {};
  std::uint32_t poison_after = 10;
};

struct ClaimAnswer {
  std::optional<ChainTask> task = {};
  bool suspect = false;                  ///< The step must run alone.
  bool more = false;                     ///< The group has another task that can be claimed now.
  std::optional<Duration> next_in = {};  ///< If `more` is false: in what time a task of the group may be due.
};

/// The right to write to a task. Every later claim has a higher epoch; the holder of a lower epoch gets kStale.
struct Claim {
  std::string task_id;
  std::string boot;
  std::uint64_t epoch = 0;
};

/// A claim as the store has it.
struct HeldClaim {
  std::string task_id;
  std::uint64_t epoch = 0;
  std::string claim_id = {};  ///< ClaimRequest::id.
  std::uint64_t writes = 0;   ///< Writes applied under this claim. The next write has the number after this.
  bool cancel_requested = false;
};

// What a runner writes. Each write is one transaction, and compares the claim.

/// An attempt of the current step begins.
struct AttemptBegun {
  bool alone = false;
};
/// An attempt ended without success, and the task goes on.
struct AttemptEnded {
  std::string error = {};
  Duration ran{};
  bool failed = true;      ///< False: the attempt was interrupted and uses up no retry.
  bool overran = false;    ///< The body did not end in time. This counts like a crash.
  bool give_back = false;  ///< True: the claim ends. False: the runner keeps the claim.
  Duration delay{};        ///< With give_back: the task may not be claimed sooner.
  Duration keep{};         ///< With give_back: for so long only this boot may claim the task.
};
/// The current step is done. The checkpoint of the last step completes the task.
struct Checkpoint {
  std::uint32_t step = 0;
  std::string context = "{}";
  Duration ran{};
  std::string skipped = {};  ///< Why the step was skipped. Empty: it was not.
  bool begin_next = false;   ///< The first attempt of the next step begins with this write.
};
/// The task ends as failed.
struct ChainFailed {
  std::string reason;
  Duration ran{};
  bool overran = false;
};
/// Progress and log lines of the running step. It may be repeated and may be lost.
struct StepReport {
  double progress = 0;
  std::string note = {};
  std::vector<std::string> log = {};
};
using RunnerWrite = std::variant<AttemptBegun, AttemptEnded, Checkpoint, ChainFailed, StepReport>;

/// A node that joins the store.
struct NodeLease {
  std::string node;
  std::string boot;
  std::string address = {};
  /// The boot under which the same process had its last lease. It was cut off but did not crash; its claims are freed.
  std::string formerly = {};
};

struct TaskFilter {
  std::string group = {};  ///< Empty: all groups.
  std::optional<ChainState> state = {};
  std::string tag = {};
  /// Only tasks whose id begins with this, ordered by id. There is one page then, and the filters look at the first
  /// 5,000 of these tasks.
  std::string id_prefix = {};
  std::uint64_t before = 0;  ///< Only tasks with a lower sequence number. 0: begin with the newest.
  std::uint32_t limit = 100;
};

/// A part of a list. The store looks at a bounded number of rows for a page, so a page may have fewer tasks than the
/// limit, or none, and still not be the last.
struct TaskPage {
  std::vector<ChainTask> tasks = {};
  std::uint64_t next = 0;  ///< TaskFilter::before for the next page. 0: this was the last page.
};

struct ReplayRequest {
  std::string task_id;
  std::optional<std::uint32_t> from_step = {};  ///< At most the step at which the task stopped, which is the default.
  std::optional<Duration> deadline = {};  ///< From now on. Nothing: NewTask::kDefaultDeadline; the engine sets its own.
  std::string message_id = {};            ///< With a message id, a repeated request is answered like the first.
};

/// What operators want of a group. It stands in the store until they want something else. Every node compares what it
/// does with it.
struct GroupControl {
  std::string group;
  bool paused = false;
  std::string limits = {};    ///< A JSON object of limits set while nodes ran. Empty: the configuration's limits.
  std::uint64_t version = 0;  ///< Counts the changes of this group.

  friend bool operator==(const GroupControl&, const GroupControl&) = default;
};

/// A group that has something to do.
struct GroupWork {
  std::string group;
  std::optional<Duration> next_in = {};  ///< In what time its next task is due. Nothing: now.
};

/// A group in which tasks became ready.
struct ReadyGroup {
  std::string group;
  std::uint64_t count = 1;
  Duration next_in{};  ///< Above zero: the tasks may be claimed only after this time.
};

/// What a store tells its watchers: where to look. News may come more than once, and may come late.
struct StoreNews {
  std::vector<ReadyGroup> ready = {};
  bool control = false;          ///< Controls of groups have changed, or cancels of running tasks were requested.
  std::uint64_t last_event = 0;  ///< Above 0: there are new events up to this number.
  bool everything = false;       ///< News may have been lost: look at everything.
};
using StoreWatch = std::function<void(const StoreNews&)>;

/// The open tasks of a group.
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
  std::uint64_t last_event = 0;  ///< The number of the newest event. 0: there was none.
  std::uint64_t damaged = 0;     ///< Rows that could not be read since the store was opened.
};

/// Where durable tasks live. This is a port: SqliteStore, PostgresStore and MemoryStore (testing/) implement it. The
/// tests in tests/contract define what every implementation must do.
///
/// A call takes effect as a whole or not at all. When its completion reports success, the effect is durable.
/// kUnavailable means that the effect is not known. Every call but a StepReport can then be repeated safely; a submit
/// needs an id or an idempotency key for that. Times are those of the store's clock: nodes give durations.
///
/// Texts are UTF-8 without NUL. Submit refuses other ids, groups, tags and requests with kInvalid. Texts that plugins
/// and messages bring are cleaned before they are stored (chain_rules.h).
///
/// Thread-safety: thread-safe.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  /// False: the store itself proves that every other boot is dead, for example by the lock on its folder. Then no lease
  /// can be lost. True: other nodes may use the store at the same time.
  [[nodiscard]] virtual bool is_shared() const = 0;

  // --- tasks come in
  /// Submits tasks independently of each other. kInvalid: the request is malformed. kConflict: the idempotency key
  /// belongs to another request. kExists: the id belongs to another task.
  virtual void submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) = 0;
  virtual void take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) = 0;

  // --- nodes and their claims
  /// Begins a lease for a boot. kExists: the boot was used before.
  virtual void join(NodeLease node, Duration lease, Completion<void> done) = 0;
  /// Extends a lease. kStale: the lease ran out.
  virtual void renew(std::string boot, Duration lease, Completion<void> done) = 0;
  /// Ends the lease. The claims of the boot are freed.
  virtual void leave(std::string boot, Completion<void> done) = 0;
  /// Frees the claims of dead boots. Gives the groups in which tasks became ready.
  ///
  /// A boot is dead if it left, or if its lease ran out. On a shared store the caller must also have seen the boot not
  /// renew for a whole lease while `boot` itself could renew (LeaseWatch), so a jump of the store's clock kills nobody.
  ///
  /// `all_others`: every boot but `boot` is dead. kInvalid on a shared store, which has no proof of that.
  virtual void take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) = 0;
  virtual void claim(ClaimRequest request, Completion<ClaimAnswer> done) = 0;
  /// Applies a write and gives the row as the write left it. `number` counts the writes of a claim from 1, and a
  /// repeated write changes nothing. A StepReport has the number 0.
  virtual void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) = 0;
  /// The claims of processing tasks that a boot has in the store.
  virtual void claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) = 0;
  /// The groups with ready tasks that are not paused.
  virtual void groups_with_work(Completion<std::vector<GroupWork>> done) = 0;

  // --- control
  /// Makes a pending task ready without a message. kConflict: the task is not pending.
  virtual void ready(std::string task_id, Completion<ChainTask> done) = 0;
  /// Cancels a waiting task at once. For a processing task it requests the cancel from the task's node; the answer's
  /// state is then kProcessing. kConflict: the task has ended.
  virtual void cancel(std::string task_id, std::string reason, Completion<ChainRow> done) = 0;
  /// Makes an ended task ready again: same id, new deadline, counters reset, dead letter removed. A completed task
  /// needs a named step.
  virtual void replay(ReplayRequest request, Completion<ChainTask> done) = 0;
  /// While a group is paused, none of its tasks is claimed, and its deadlines are extended.
  virtual void pause_group(std::string group, bool paused, Completion<void> done) = 0;
  /// Sets the limits of a group while nodes run. `limits` is a JSON object, or empty for the configuration's limits.
  virtual void set_limits(std::string group, std::string limits, Completion<void> done) = 0;
  /// At most `limit` groups, by name, after the group `after`, that are paused or have limits of their own.
  virtual void controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) = 0;

  /// Tells of ready tasks, controls and events, until the returned object is dropped; a call in progress may then still
  /// end. Each change is told after its commit, whichever node made it. If news may have been lost, the store tells
  /// `everything`. `watch` must not block. It is called without a lock, on a thread of the store or inside the call
  /// that made the change.
  [[nodiscard]] virtual std::shared_ptr<void> watch(StoreWatch watch) = 0;

  // --- to look at
  virtual void get(std::string task_id, Completion<ChainTask> done) = 0;
  /// The ended attempts of a task, oldest first.
  virtual void attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) = 0;
  /// Tasks, newest first, without payloads, contexts, logs and parameters.
  virtual void list(TaskFilter filter, Completion<TaskPage> done) = 0;
  virtual void dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) = 0;
  virtual void dead_letter(std::string task_id, Completion<DeadLetter> done) = 0;
  virtual void discard_dead_letter(std::string task_id, Completion<void> done) = 0;
  /// Events with a number above `after`, by number. The events of one task have their numbers in the order in which
  /// they happened, and no event gets a number below one that was readable before.
  virtual void events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) = 0;
  /// At most `limit` groups, by name, after the group `after`, that have open tasks or are paused.
  virtual void group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) = 0;
  /// The counts of one group; all zero if it has no open tasks.
  virtual void group_count(std::string group, Completion<GroupCounts> done) = 0;
  virtual void stats(Completion<StoreStats> done) = 0;
  /// Why the store cannot be used until an operator acts: its file is damaged, replaced or removed. Nothing is claimed
  /// then. Does not block.
  [[nodiscard]] virtual std::optional<Error> fault() const { return std::nullopt; }
  /// Why the store does not work at the moment: the disk is full, the server is away. Nothing once it works again. Does
  /// not block.
  [[nodiscard]] virtual std::optional<Error> trouble() const { return std::nullopt; }

  // --- to keep
  /// Stores a number under a name, such as how far a reader of events has come.
  virtual void set_cursor(std::string name, std::uint64_t value, Completion<void> done) = 0;
  virtual void cursor(std::string name, Completion<std::uint64_t> done) = 0;
  /// Removes what is older than that, in a bounded step: at most `limit` ended tasks with their dead letters, `limit`
  /// events (none that the cursor "relay" has not passed) and `limit` dead letters without a task. Also expires `limit`
  /// pending tasks whose deadline has passed. Gives the number of removed tasks or events, whichever is greater.
  virtual void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) = 0;
};

}  // namespace cohort

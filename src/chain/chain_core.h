#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chain/alarms.h"
#include "chain/alone_gate.h"
#include "chain/event_relay.h"
#include "chain/feeder.h"
#include "chain/intake.h"
#include "chain/json_depth.h"
#include "chain/run.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "cohort/base/wall_clock.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/task/promise.h"
#include "cohort/task/sleep.h"

namespace cohort {

/// Bugs for tests to find; production has none.
struct NoChainFaults {
  static constexpr bool kForgetReadyRow = false;
  static constexpr bool kCheckpointBeforeStep = false;
  static constexpr bool kAcknowledgeEarly = false;
};

/// The engine behind ChainEngine.
///
/// Who does what: a ticket is a coroutine in the executor. It claims a task, runs its steps and writes what became of
/// them (chain_runner.h). Everything else happens in completions of the store and in a tick once a second: renewing the
/// lease, looking for what nobody told of, failing what overran. The lock guards which runs there are and which boot
/// this is; nothing is called under it.
///
/// Everything that may come back later (tickets, completions, alarms) holds a reference, so the object lives as long as
/// anything of it is under way; `close` waits for the tickets, which are what uses plugins.
template <class Faults>
class ChainCore : public std::enable_shared_from_this<ChainCore<Faults>> {
 public:
  ChainCore(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options,
            Broker* broker = nullptr)
      : store_(store),
        broker_(broker),
        executor_(executor),
        plugins_(plugins),
        options_(std::move(options)),
        lease_clock_(options_.lease_clock != nullptr ? *options_.lease_clock : boottime_clock()),
        gate_(executor),
        feeder_([this](const std::string& group) { return put_ticket(group); }),
        random_(options_.seed != 0 ? options_.seed : seed_from_the_system()) {
    for (const std::string& name : plugins_.names()) {
      if (plugins_.find(name)->runs_in_own_process()) own_process_plugins_.push_back(name);
    }
  }

  TaskHandle<void> start();
  TaskHandle<void> drain(Duration grace);
  void close();

  TaskHandle<std::vector<Result<Submitted>>> submit_all(std::vector<NewTask> tasks);
  TaskHandle<Submitted> submit(NewTask task);
  TaskHandle<Written> cancel(std::string task_id, std::string reason);
  TaskHandle<ChainTask> replay(ReplayRequest request);
  TaskHandle<ChainTask> ready(std::string task_id);
  TaskHandle<void> set_paused(std::string group, bool paused);
  TaskHandle<void> resize(std::string group, GroupLimits limits);
  [[nodiscard]] ChainStats stats() const;
  [[nodiscard]] GateStatus gate_status() const;
  [[nodiscard]] BasicIntake<Faults>* intake() const { return intake_.get(); }

 private:
  using Self = std::shared_ptr<ChainCore>;
  using RunRef = std::shared_ptr<Run>;
  static constexpr Duration kTick = std::chrono::seconds(1);
  static constexpr Duration kFirstWait = std::chrono::milliseconds(20);
  static constexpr Duration kLongestWait = std::chrono::seconds(1);
  static constexpr Duration kLastWrites = std::chrono::seconds(10);  // For what runs, to be written when draining.

  enum class Life { kNew, kJoining, kRunning, kDraining, kClosed };

  // --- chain_node.h: the node's life
  void join(Completion<void> done);
  void begin(const std::string& boot, Completion<void> done);
  [[nodiscard]] bool is_first_boot() const {
    MutexLock lock(mutex_);
    return life_ == Life::kJoining;
  }
  void tick();
  void renew();
  [[nodiscard]] Duration lease() const { return options_.folder_is_ours ? Duration::max() : options_.lease; }
  [[nodiscard]] bool clock_has_jumped();
  void lose_lease(const char* why);
  void look_for_work();
  void look_again_soon() {
    MutexLock lock(mutex_);
    looked_ = Time();
  }
  void take_over();
  void follow_commands();
  void skip_commands(Completion<void> done);
  void apply(const Command& command);
  void stop_run(const std::string& task_id) {
    RunRef run;
    {
      MutexLock lock(mutex_);
      const auto found = runs_.find(task_id);
      if (found != runs_.end()) run = found->second;
    }
    if (run) run->request_stop();
  }
  void forget_old_tasks();
  void end_cleaning() {
    MutexLock lock(mutex_);
    is_cleaning_ = false;
  }
  void drop_kept(Time now);
  void finish_draining();

  // --- chain_runner.h: tickets
  TaskHandle<void> put_ticket(const std::string& group);
  Task<> ticket(Self self, std::string group, std::stop_token stop);
  Task<> run(RunRef run);
  Task<bool> begin_attempt(RunRef run);
  Task<PluginResult> attempt(RunRef run);
  Task<bool> after_success(RunRef run, PluginResult result);
  Task<bool> after_interruption(RunRef run, PluginResult result);
  Task<bool> after_retry(RunRef run, PluginResult result);
  Task<bool> fail(RunRef run, std::string reason);
  Task<bool> give_back(RunRef run);
  Task<Result<Written>> write(RunRef run, RunnerWrite what);
  Result<std::string> merged_context(const ChainTask& task, const PluginResult& result) const;
  std::optional<Duration> delay_of_retry(const Run& run, std::optional<Duration> after);
  [[nodiscard]] bool may_keep(Duration delay) const;
  void after_overrun(const RunRef& run);
  void fail_overrunning(const RunRef& run);
  void write_until_known(RunRef run, std::uint64_t number, RunnerWrite what, Duration wait, Completion<Written> done);
  void claim_until_known(ClaimRequest request, Duration wait, Completion<ClaimAnswer> done);
  void send_report(Run& run);
  void leave_gate(Run& run);
  void end_run(const RunRef& run);
  [[nodiscard]] RetryPolicy policy_of(const ChainTask& task) const {
    return task.current_step()->retry.value_or(options_.retry);
  }

  // --- small things
  /// A reference that close() waits for: what has it may use store, broker and executor. For calls that are under way.
  class Hold {
   public:
    explicit Hold(Self core) : core_(std::move(core)) { core_->begin_call(); }
    Hold(const Hold& other) : Hold(other.core_) {}
    Hold(Hold&& other) noexcept = default;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (core_) core_->end_call();
    }
    ChainCore* operator->() const { return core_.get(); }

   private:
    Self core_;
  };
  [[nodiscard]] Hold hold() { return Hold(this->shared_from_this()); }
  void begin_call() {
    MutexLock lock(mutex_);
    ++calls_;
  }
  void end_call() {
    {
      MutexLock lock(mutex_);
      if (--calls_ != 0) return;
    }
    finish_draining();
  }

  /// A body of it, from before a lease was lost, has not returned yet.
  [[nodiscard]] bool is_still_here(const std::string& task_id) const {
    MutexLock lock(mutex_);
    return runs_.contains(task_id);
  }
  [[nodiscard]] bool may_claim() const {
    if (store_.fault()) return false;
    MutexLock lock(mutex_);
    return life_ == Life::kRunning && has_lease_;
  }
  /// True if a failed call must be made again: its effect is not known, and the boot that made it still has its lease.
  /// A runner that gave up before that would leave a row that no other node may touch.
  [[nodiscard]] bool is_worth_repeating(const Error& error, const std::string& boot) const {
    for (const ErrorCode final : {ErrorCode::kStale, ErrorCode::kNotFound, ErrorCode::kInvalid, ErrorCode::kEnded}) {
      if (error.code == final) return false;
    }
    if (store_.fault()) return false;
    MutexLock lock(mutex_);
    if (gives_up_at_ && now() >= *gives_up_at_) return false;
    return has_lease_ && boot == boot_;
  }
  void repeat(Duration wait, Function<void()> call) {
    const Time due = now() + wait;
    executor_.call_at(due, std::move(call));
  }
  void count(std::uint64_t ChainStats::*what) {
    MutexLock lock(mutex_);
    ++(counted_.*what);
  }
  [[nodiscard]] Time now() const { return executor_.clock().now(); }
  [[nodiscard]] Life life() const {
    MutexLock lock(mutex_);
    return life_;
  }
  [[nodiscard]] bool is_running() const { return life() == Life::kRunning; }
  [[nodiscard]] std::string boot() const {
    MutexLock lock(mutex_);
    return boot_;
  }
  [[nodiscard]] std::string make_id() {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string id;
    MutexLock lock(mutex_);
    for (const std::uint64_t half : {random_.next(), random_.next()}) {
      for (int shift = 60; shift >= 0; shift -= 4) id += kDigits[(half >> shift) & 15U];
    }
    return id;
  }
  static std::uint64_t seed_from_the_system();
  void apply_resize(const Command& command);
  /// A call to the store as a handle.
  template <class T, class Call>
  TaskHandle<T> as_handle(const char* name, Call&& call) {
    Promise<T> promise(name, {}, executor_.clock());
    TaskHandle<T> handle = promise.handle();
    call(
        Completion<T>([promise = std::move(promise)](Result<T> result) mutable { promise.settle(std::move(result)); }));
    return handle;
  }
  [[nodiscard]] Result<void> check_plugins(const NewTask& task) const;

  TaskStore& store_;
  Broker* const broker_;
  Executor& executor_;
  const PluginRegistry& plugins_;
  const ChainOptions options_;
  Clock& lease_clock_;
  std::vector<std::string> own_process_plugins_;
  WorkFolder work_folder_;
  AloneGate gate_;
  BasicFeeder<Faults> feeder_;
  std::shared_ptr<Alarms> alarms_;
  std::shared_ptr<BasicIntake<Faults>> intake_;  // Null: there is no broker.
  std::shared_ptr<EventRelay> relay_;

  mutable Mutex mutex_;
  Random random_ COHORT_GUARDED_BY(mutex_);
  Life life_ COHORT_GUARDED_BY(mutex_) = Life::kNew;
  std::string boot_ COHORT_GUARDED_BY(mutex_);
  bool has_lease_ COHORT_GUARDED_BY(mutex_) = false;
  Time renewed_ COHORT_GUARDED_BY(mutex_){};  // By the lease's clock: when the last good renewal was sent.
  bool renewing_ COHORT_GUARDED_BY(mutex_) = false;
  std::optional<Time> gives_up_at_ COHORT_GUARDED_BY(mutex_);  // Draining: calls are not repeated after that.
  std::optional<Duration> clock_offset_ COHORT_GUARDED_BY(mutex_);
  Time looked_ COHORT_GUARDED_BY(mutex_){};
  Time took_over_ COHORT_GUARDED_BY(mutex_){};
  Time cleaned_ COHORT_GUARDED_BY(mutex_){};
  bool is_cleaning_ COHORT_GUARDED_BY(mutex_) = false;
  std::uint64_t commands_seen_ COHORT_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, RunRef> runs_ COHORT_GUARDED_BY(mutex_);
  struct Kept {
    LocalFile file;
    Time until{};
  };
  using KeptFiles = std::unordered_map<std::string, Kept>;
  KeptFiles kept_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, std::multiset<std::string>> paused_plugins_ COHORT_GUARDED_BY(mutex_);  // By group.
  std::uint32_t tickets_ COHORT_GUARDED_BY(mutex_) = 0;  // That have started and not ended.
  std::uint32_t calls_ COHORT_GUARDED_BY(mutex_) = 0;    // That have not been answered.
  std::vector<Promise<void>> drained_ COHORT_GUARDED_BY(mutex_);
  ChainStats counted_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort

#include "chain/chain_node.h"    // IWYU pragma: export
#include "chain/chain_runner.h"  // IWYU pragma: export

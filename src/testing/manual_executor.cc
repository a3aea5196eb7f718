#include "cohort/testing/manual_executor.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/listener_scope.h"
#include "group/scheduler.h"
#include "testing/baton.h"

namespace cohort {

using internal::Actions;
using internal::Awaiting;
using internal::AwaitState;
using internal::BatonThread;
using internal::Chore;
using internal::EndAll;
using internal::EndJob;
using internal::Phase;
using internal::Scheduler;
using internal::TaskRecord;
using internal::TaskRef;
using internal::Turn;

// Every method runs on the one thread that has the baton, so nothing here is locked.
class ManualExecutor::Driver {
 public:
  Driver(const internal::ExecutorHome& home, VirtualClock& clock, GroupExecutorOptions options)
      : home_(home),
        listener_(std::move(options.listener)),
        clock_(clock),
        workers_(options.threads),
        scheduler_(std::move(options), clock.now()) {}

  void end() {
    static_cast<void>(shutdown(Duration(0)));
    scheduler_.fire_alarms(now());
    apply();
    while (scheduler_.present() != 0 || scheduler_.chores_open() != 0) {
      const bool progress = run_one() || pass_time(Time::max());
      COHORT_ASSERT(progress, "every body ends: something still blocks one while its executor is destroyed");
    }
  }

  Scheduler<>& scheduler() { return scheduler_; }
  VirtualClock& clock() { return clock_; }
  [[nodiscard]] Time now() const { return clock_.now(); }

  // Whoever drives one of several that are linked drives all of them.
  void link(Driver& other) {
    if (linked_ == other.linked_) return;
    for (Driver* each : *other.linked_) {
      linked_->push_back(each);
      if (each != &other) each->linked_ = linked_;
    }
    other.linked_ = linked_;
  }
  void unlink() { std::erase(*linked_, this); }

  bool run_one() {
    return std::ranges::any_of(*linked_, [](Driver* each) { return each->run_own(); });
  }

  bool run_own() {
    if (next_event() <= now()) catch_up();  // The clock may have been moved by somebody else.
    if (!freed_.empty()) {
      BatonThread* thread = freed_.front();
      freed_.pop_front();
      pass_to(*thread, nullptr);
      return true;
    }
    for (Worker& worker : workers_) {
      if (worker.state != Worker::kLooking) continue;
      if (!scheduler_.take(worker.turn, now())) {
        worker.state = Worker::kIdle;
        apply();
        continue;
      }
      apply();
      dispatch(worker);
      return true;
    }
    return false;
  }

  void run() {
    while (run_one()) {
    }
  }

  void run_to(Time end) {
    run();
    while (pass_time(end)) run();
    if (clock_.now() < end) clock_.set(end);
  }

  // Moves the clock to the next thing that happens by itself, at most to `end`. False when there is none.
  bool pass_time(Time end) {
    Time next = Time::max();
    for (const Driver* each : *linked_) next = std::min(next, each->next_event());
    if (next == Time::max() || next > end) return false;
    if (next > now()) clock_.set(next);
    for (Driver* each : *linked_) {
      if (each->next_event() <= now()) each->catch_up();
    }
    return true;
  }

  // Does what is due.
  void catch_up() {
    while (Timer* due = sleeps_.pop_due(now())) freed_.push_back(static_cast<Sleep*>(due)->thread);
    if (scheduler_.next_timer().value_or(Time::max()) <= now()) scheduler_.tick(now());
    apply();
    if (extra_worker_at() <= now()) help_with_chores();
  }

  [[nodiscard]] Time next_event() const {
    return std::min(
        {scheduler_.next_timer().value_or(Time::max()), sleeps_.next().value_or(Time::max()), extra_worker_at()});
  }

  // Drives until `reached()`, or `until` has come, or nothing can happen any more.
  template <class Reached>
  bool drive(Reached&& reached, Time until) {
    while (!reached()) {
      if (run_one()) continue;
      if (pass_time(until)) continue;
      if (until != Time::max() && now() < until) clock_.set(until);
      return reached();
    }
    return true;
  }

  void spend(Duration duration) {
    BatonThread* thread = current_thread_;
    COHORT_ASSERT(thread != nullptr, "spend() is for a body that this executor runs");
    if (Worker* worker = worker_of_[thread]) scheduler_.give_back(worker->turn, now());
    apply();
    Sleep sleep;
    sleep.thread = thread;
    sleeps_.arm(sleep, saturating_add(now(), duration));
    yield(*thread);
  }

  void submit(TaskRecord& record, Submission submission) {
    using FullQueue = Scheduler<>::FullQueue;
    const bool may_wait = internal::current_task() == nullptr && current_thread_ == nullptr;
    const auto full = !may_wait                          ? FullQueue::kNeverWait
                      : submission == Submission::kPaced ? FullQueue::kBlock
                                                         : FullQueue::kCallerWaits;
    tell(TaskEvent::Kind::kSubmitted, record);
    be_resolved(record.label().key());
    scheduler_.submit(record, origin_of(record), full, now());
    apply();
    if (record.phase == Phase::kAtDoor && submission != Submission::kPaced) {
      const bool inside = drive([&] { return record.phase != Phase::kAtDoor; }, Time::max());
      COHORT_ASSERT(inside, "a submitter waits for a place in a full queue and nothing is left that could free one");
      if (record.blocks_thread) drive([&] { return record.has_begun() || record.is_done(); }, Time::max());
    }
    if (submission == Submission::kRunHere) run_here(record);
  }

  bool run_record_here(TaskRecord& record) {
    record.submitted_at = now();
    Worker& worker = spare_worker();
    if (!scheduler_.take_here(record, worker.turn, now())) return false;
    const TaskRef alive(record);
    tell(TaskEvent::Kind::kSubmitted, record);
    apply();
    dispatch(worker);
    return record.has_begun();
  }

  void call_at(Time at, Function<void()> call) {
    scheduler_.set_alarm(std::make_unique<internal::Alarm>(std::move(call)), at, now());
    apply();
  }

  void follow(TaskRecord& record, TaskRecord& predecessor) {
    tell(TaskEvent::Kind::kSubmitted, record);
    scheduler_.follow(record, predecessor, origin_of(record), now());
    apply();
    if (record.phase != Phase::kDependent) return;
    auto state = AwaitState::make(predecessor);
    state->arm([this, follower = TaskRef(record)] {
      scheduler_.release(*follower, now());
      apply();
    });
  }

  void cancel(TaskRecord& record) {
    scheduler_.cancel(record, now());
    apply();
  }

  std::unique_ptr<Error> await(AwaitState& state, std::optional<Time> until) {
    TaskRecord* task = internal::current_task();
    if (task == nullptr) {
      const bool reached = drive([&] { return state.satisfied(); }, until.value_or(Time::max()));
      if (!reached && !until) report_deadlock(state);
      return nullptr;
    }
    Awaiting awaiting(state, until.has_value());
    if (auto error = refusal(*task, awaiting)) return error;
    BatonThread& thread = *current_thread_;
    Worker& worker = *worker_of_[&thread];
    task->blocks_thread = true;
    blocked_[task] = &thread;
    scheduler_.park(worker.turn, awaiting, until, now());
    leave(worker);
    begin_await(*task, awaiting);
    yield(thread);
    blocked_.erase(task);
    task->blocks_thread = false;
    state.disarm();
    return internal::collect_await_error(*task);
  }

  // Inside a task it awaits what the group has open, and so is parked, and a circle is found.
  Result<void> drain(std::string_view key, Duration timeout) {
    scheduler_.begin_drain(key, now());
    const Time until = saturating_add(now(), timeout);
    std::unique_ptr<Error> conflict;
    bool drained = false;
    if (own_task() == nullptr) {
      drive([&] { return scheduler_.is_quiet(key); }, until);
      drained = scheduler_.is_drained(key);
    }
    while (own_task() != nullptr && !drained && !conflict && now() < until) {
      std::vector<TaskRef> open = scheduler_.open_tasks(key);
      const std::size_t need = open.size();
      drained = need == 0;
      auto state = AwaitState::make(std::move(open), need);
      Awaiting awaiting(*state, false);
      conflict = refusal(*own_task(), awaiting);
      if (!drained && !conflict) conflict = await(*state, until);
    }
    scheduler_.end_drain(key, now());
    apply();
    if (conflict) return std::move(*conflict);
    if (drained) return {};
    return Error{
        ErrorCode::kTimedOut, "group '" + std::string(key) + "' still had work when the time to drain ran out", {}};
  }

  Result<void> shutdown(Duration timeout) {
    if (const TaskRecord* task = own_task()) {
      return Error{
          ErrorCode::kConflict, "task '" + task->task_id() + "' cannot shut down the executor that runs it", {}};
    }
    scheduler_.close(now());
    drive([&] { return scheduler_.is_quiet(); }, saturating_add(now(), timeout));
    if (scheduler_.is_drained()) return {};
    for (EndAll all; scheduler_.cancel_all(all, now());) apply();
    apply();
    run();
    return Error{
        ErrorCode::kTimedOut, "tasks were left when the time to shut down ran out; they have been cancelled", {}};
  }

  void apply() {
    std::vector<Chore> own;
    do {
      for (const Chore& chore : std::exchange(own, {})) internal::perform(chore, *this);
      apply_but_own(own);
    } while (!own.empty());
  }

  // Leaves what the caller is to do himself, whose own call it was.
  void apply_but_own(std::vector<Chore>& own) {
    while (scheduler_.has_actions()) {
      Actions actions = scheduler_.take_actions();
      for (TaskRecord* record : actions.let_go) freed_.push_back(blocked_.at(record));
      own.insert(own.end(), actions.own.begin(), actions.own.end());
      actions.own.clear();
      for (int i = 0; i < actions.wake; ++i) wake_worker();
    }
  }

  // For chores, see perform().
  void tell_settled(const TaskRecord& record, Time) { tell(TaskEvent::Kind::kSettled, record, record.status()); }
  void resolve(const internal::Group& group) { give_answer(group.key); }
  void give_answer(std::string_view key) {
    const GroupLimits answer = scheduler_.policy().ask(key);
    while (scheduler_.resolved(key, answer, now())) apply();
    apply();
  }

  ResolvedLimits resolve(std::string_view key) {
    return scheduler_.resolve(key, scheduler_.knows(key) ? GroupLimits() : scheduler_.policy().ask(key));
  }
  void clear_limits(std::string_view key) {
    scheduler_.clear_limits(key, scheduler_.policy().ask(key), now());
    apply();
  }
  Result<void> evict(std::string_view key) {
    Result<void> evicted = scheduler_.evict(key, scheduler_.policy().ask(key), now());
    apply();
    return evicted;
  }
  void shutdown_group(std::string_view key) {
    end_work([&](EndJob& job) { return scheduler_.shutdown_group(key, job, now()); });
  }
  void close_lease(const internal::GroupLease& lease) {
    end_work([&](EndJob& job) { return scheduler_.close_lease(lease, job, now()); });
  }

  [[nodiscard]] std::string leaks() const {
    std::string text;
    const auto add = [&](std::uint64_t count, const char* what) {
      if (count != 0) text += std::to_string(count) + " " + what + " left; ";
    };
    const ExecutorStats stats = scheduler_.stats();
    add(scheduler_.present(), "tasks");
    add(stats.waiting, "waiting");
    add(scheduler_.global_running(), "permits of layer 1");
    add(stats.running, "permits of layer 3");
    add(stats.parked, "parked");
    add(stats.overrunning, "overrunning");
    add(threads_.busy(), "threads in bodies");
    add(stats.counters.submitted - stats.counters.settled_total(), "unsettled");
    add(scheduler_.chores_open(), "chores");
    return text;
  }

  // For a body that has run out of time: it holds no permits that it could give back, so its thread just waits, and
  // another worker takes its place.
  void block(AwaitState& state) {
    BatonThread* thread = current_thread_;
    if (internal::current_task() == nullptr || thread == nullptr) {
      static_cast<void>(await(state, std::nullopt));
      return;
    }
    workers_.emplace_back();
    state.arm([this, thread] { freed_.push_back(thread); });
    yield(*thread);
  }

 private:
  void tell(TaskEvent::Kind kind, const TaskRecord& record, TaskStatus status = TaskStatus::kSuccess) {
    if (!listener_) return;
    const internal::ListenerScope scope;
    try {
      listener_(internal::event_of(kind, record, now(), status));
    } catch (...) {
      // The documented meaning of a listener that throws.
    }
  }

  [[nodiscard]] Scheduler<>::Origin origin_of(const TaskRecord& record) const {
    const TaskRecord* submitter = own_task();
    if (submitter == nullptr) return Scheduler<>::Origin::kOutside;
    return submitter->label().key() == record.label().key() ? Scheduler<>::Origin::kSameGroup
                                                            : Scheduler<>::Origin::kOtherGroup;
  }

  template <class Begin>
  void end_work(Begin&& begin) {
    EndJob job;
    std::vector<Chore> own;
    bool more = begin(job);
    apply_but_own(own);
    while (more) {
      more = scheduler_.end_some(job, now());
      apply_but_own(own);
    }
    for (const Chore& chore : own) internal::perform(chore, *this);
    apply();
  }

  void be_resolved(std::string_view key) {
    if (!scheduler_.policy().has_resolver() || key.empty() || key.size() > kMaxKeyBytes || scheduler_.knows(key))
      return;
    give_answer(key);
  }

  // Chores that no worker has come for in a millisecond get one of their own.
  [[nodiscard]] Time extra_worker_at() const {
    return saturating_add(scheduler_.chores_wait_since(), std::chrono::milliseconds(1));
  }
  void help_with_chores() {
    Worker& worker = spare_worker();
    while (worker.state == Worker::kSpare && scheduler_.take_chores(worker.turn, now())) {
      apply();
      dispatch(worker);
    }
  }

  // The task whose body is running, if it is one of this executor's.
  [[nodiscard]] TaskRecord* own_task() const {
    TaskRecord* task = internal::current_task();
    return task != nullptr && task->home == &home_ ? task : nullptr;
  }

  struct Worker {
    enum State { kLooking, kIdle, kBusy, kSpare } state = kLooking;
    Turn turn;
  };
  struct Sleep : Timer {
    BatonThread* thread = nullptr;
  };
  struct Workers : std::deque<Worker> {
    explicit Workers(Limit& count) : std::deque<Worker>(count == 0 ? 2 : std::size_t{count}) { count = size(); }
  };

  void wake_worker() {
    const auto idle = std::ranges::find(workers_, Worker::kIdle, &Worker::state);
    COHORT_ASSERT(idle != workers_.end(), "the scheduler wakes only workers that are idle");
    idle->state = Worker::kLooking;
  }

  // Gives the turn to the thread that its task is parked on, or to a fresh one.
  void dispatch(Worker& worker) {
    worker.state = Worker::kBusy;
    TaskRecord* first = worker.turn.of_chores ? nullptr : worker.turn.tasks[0];
    const auto parked = blocked_.find(first);
    if (worker.turn.goes_on && parked != blocked_.end()) {
      worker.turn.begin(now());
      pass_to(*parked->second, &worker);
      return;
    }
    if (first != nullptr && !worker.turn.goes_on) first->blocks_thread = false;  // See OverflowPolicy::kCallerRuns.
    BatonThread& thread = threads_.take();
    worker_of_[&thread] = &worker;
    BatonThread* outer = std::exchange(current_thread_, &thread);
    thread.run([this, &thread] { run_turn(thread); });
    current_thread_ = outer;
  }

  void pass_to(BatonThread& thread, Worker* worker) {
    if (worker != nullptr) worker_of_[&thread] = worker;
    BatonThread* outer = std::exchange(current_thread_, &thread);
    thread.go_on();
    current_thread_ = outer;
  }

  void yield(BatonThread& thread) {
    thread.yield();
    COHORT_ASSERT(current_thread_ == &thread, "whoever has the baton is the current thread");
  }

  // On a baton thread. It may change workers on the way: a body that parks comes back with another's turn.
  void run_turn(BatonThread& thread) {
    if (worker_of_[&thread]->turn.of_chores) {
      while (const Chore* chore = worker_of_[&thread]->turn.begin_chore(now())) internal::perform(*chore, *this);
      worker_of_[&thread]->turn.left_body = now();
      return end_turn(thread);
    }
    while (TaskRecord* record = worker_of_[&thread] != nullptr ? worker_of_[&thread]->turn.begin(now()) : nullptr) {
      const TaskRef alive(*record);
      if (!worker_of_[&thread]->turn.goes_on) tell(TaskEvent::Kind::kStarted, *record);
      if (!run_body(*record, thread)) return;
    }
    end_turn(thread);
  }

  void end_turn(BatonThread& thread) {
    Worker& worker = *worker_of_[&thread];
    scheduler_.finish(worker.turn, now());
    leave(worker);
    apply();
  }

  // False when the turn is no longer this thread's: the task suspended, or was let go.
  bool run_body(TaskRecord& record, BatonThread& thread) {
    while (!run_once(record)) {
      if (suspend(record, worker_of_[&thread])) {
        worker_of_[&thread] = nullptr;
        return false;
      }
    }
    if (record.claimed_by_body) {
      tell(TaskEvent::Kind::kSettled, record, record.claimed_status());
      record.publish(now());
    }
    if (!record.let_go) return true;
    scheduler_.finish_let_go(record, now());
    apply();
    return false;
  }

  static bool run_once(TaskRecord& record) {
    if (internal::TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->await_request) {
      extras->await_request->disarm();  // What it waited for last; of a when_any some may be open.
      extras->await_request.reset();
    }
    internal::CurrentTaskScope current(&record);
    return record.run();
  }

  // Does what a coroutine asked for. False when it can go on at once.
  bool suspend(TaskRecord& record, Worker* worker) {
    internal::TaskExtras& extras = record.extras();
    if (!extras.await_request) {
      if (worker != nullptr) {
        scheduler_.sleep(worker->turn, extras.sleep_until, now());
        leave(*worker);
      } else {
        scheduler_.sleep_let_go(record, extras.sleep_until, now());
      }
      apply();
      return true;
    }
    AwaitState& state = *extras.await_request;  // Kept by the record until it asks for the next thing.
    if (state.satisfied()) return false;
    Awaiting awaiting(state, false);
    extras.await_error = refusal(record, awaiting);
    if (extras.await_error) return false;
    scheduler_.park(worker->turn, awaiting, std::nullopt, now());
    leave(*worker);
    begin_await(record, awaiting);
    return true;
  }

  // Why the task must not wait; null when it may.
  std::unique_ptr<Error> refusal(TaskRecord& task, Awaiting& awaiting) {
    auto verdict = Awaiting::Verdict::kMay;
    do {
      verdict = scheduler_.check_await(task, awaiting, now());
    } while (verdict == Awaiting::Verdict::kMay && awaiting.checked < awaiting.state.records().size());
    apply();
    if (verdict == Awaiting::Verdict::kMay) return nullptr;
    return std::make_unique<Error>(verdict == Awaiting::Verdict::kCycle ? internal::cycle_error(task, awaiting.cycle)
                                                                        : internal::out_of_time_error(task));
  }

  void begin_await(TaskRecord& record, Awaiting& awaiting) {
    AwaitState& state = awaiting.state;
    while (!awaiting.is_through() && scheduler_.check_more(record, awaiting, now())) {
    }
    if (awaiting.is_far && awaiting.cycle.empty()) {
      internal::ExecutorAccess::mark_awaited_elsewhere(record, state);
      awaiting.cycle = internal::FarWaits::all().break_cycle(record);
    }
    if (!awaiting.cycle.empty()) {
      auto error = std::make_unique<Error>(internal::cycle_error(record, awaiting.cycle));
      scheduler_.fail_await(record, state, std::move(error), now());
      return apply();
    }
    state.arm([this, awaiter = TaskRef(record), &state] {
      scheduler_.resume(*awaiter, state, now());
      apply();
    });
    apply();
  }

  // The worker's turn is over.
  void leave(Worker& worker) {
    if (worker.state == Worker::kBusy) worker.state = spare_.count(&worker) != 0 ? Worker::kSpare : Worker::kLooking;
    for (auto& [thread, of] : worker_of_) {
      if (of == &worker) of = nullptr;
    }
  }

  // On a worker that exists only for this, so that no virtual worker is used up.
  void run_here(TaskRecord& record) {
    Worker& worker = spare_worker();
    if (!scheduler_.take_only(record, worker.turn, now())) return;
    apply();
    dispatch(worker);
  }

  Worker& spare_worker() {
    const auto free =
        std::ranges::find_if(spare_, [](const auto& each) { return each.second->state == Worker::kSpare; });
    Worker* worker = nullptr;
    if (free != spare_.end()) {
      worker = free->second.get();
    } else {
      auto made = std::make_unique<Worker>();
      worker = made.get();
      spare_.emplace(worker, std::move(made));
    }
    worker->state = Worker::kSpare;
    return *worker;
  }

  void report_deadlock(const AwaitState& state) {
    std::string text = "deadlock in virtual time: nothing is left that could happen, but";
    for (const TaskRef& record : state.records()) {
      if (record->is_done()) continue;
      text += " task '" + record->task_id() + "' of group '" + record->group_key() + "' has not ended (" +
              scheduler_.explain(*record, now()).text + ");";
    }
    internal::assertion_failed("an awaited task ends", text.c_str(), __FILE__, __LINE__);
  }

  const internal::ExecutorHome& home_;
  Function<void(const TaskEvent&)> listener_;
  VirtualClock& clock_;
  Workers workers_;
  std::unordered_map<const Worker*, std::unique_ptr<Worker>> spare_;
  Scheduler<> scheduler_;
  TimerQueue sleeps_;
  std::deque<BatonThread*> freed_;                         // May go on now.
  std::unordered_map<TaskRecord*, BatonThread*> blocked_;  // The threads of parked bodies.
  std::unordered_map<BatonThread*, Worker*> worker_of_;    // Whose turn a thread runs.
  BatonThread* current_thread_ = nullptr;
  std::shared_ptr<std::vector<Driver*>> linked_ = std::make_shared<std::vector<Driver*>>(1, this);
  internal::BatonThreads threads_;
};

ManualExecutor::ManualExecutor(VirtualClock& clock, GroupExecutorOptions options)
    : driver_(std::make_unique<Driver>(home(), clock, std::move(options))) {}
ManualExecutor::~ManualExecutor() {
  driver_->end();
  driver_->unlink();
  close_home();
}

void ManualExecutor::link(ManualExecutor& other) {
  COHORT_ASSERT(&driver_->clock() == &other.driver_->clock(), "executors that are linked have one clock");
  driver_->link(*other.driver_);
}
void ManualExecutor::mark_awaited(TaskRecord& record) {
  internal::TaskRef next(record);
  while (next) next = driver_->scheduler().mark_awaited_from_afar(*next, driver_->now());
  driver_->apply();
}
bool ManualExecutor::run_one() { return driver_->run_one(); }
void ManualExecutor::run() { driver_->run(); }
void ManualExecutor::advance(Duration duration) { driver_->run_to(saturating_add(driver_->now(), duration)); }
bool ManualExecutor::run_until_idle(Duration limit) {
  driver_->run();
  const auto is_idle = [this] {
    return driver_->scheduler().present() == 0 && driver_->scheduler().chores_open() == 0;
  };
  return driver_->drive(is_idle, saturating_add(driver_->now(), limit));
}
void ManualExecutor::spend(Duration duration) { driver_->spend(duration); }
std::string ManualExecutor::leaks() const { return driver_->leaks(); }
Clock& ManualExecutor::clock() { return driver_->clock(); }

ResolvedLimits ManualExecutor::resolve(std::string_view group) { return driver_->resolve(group); }

Result<void> ManualExecutor::set_limits(std::string_view group, const GroupLimits& limits) {
  if (auto key = check_key(group); !key) return key;
  driver_->scheduler().set_limits(group, limits, driver_->now());
  driver_->apply();
  return {};
}

Result<void> ManualExecutor::clear_limits(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->clear_limits(group);
  return {};
}

Result<void> ManualExecutor::evict_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  return driver_->evict(group);
}

Result<void> ManualExecutor::pause_group(std::string_view group) { return set_paused(group, true); }
Result<void> ManualExecutor::resume_group(std::string_view group) { return set_paused(group, false); }

Result<void> ManualExecutor::set_paused(std::string_view group, bool paused) {
  if (auto key = check_key(group); !key) return key;
  driver_->scheduler().set_paused(group, paused, driver_->now());
  driver_->apply();
  return {};
}

Result<void> ManualExecutor::shutdown_group(std::string_view group) {
  if (auto key = check_key(group); !key) return key;
  driver_->shutdown_group(group);
  return {};
}

Result<void> ManualExecutor::drain_group(std::string_view group, Duration timeout) {
  if (auto key = check_key(group); !key) return key;
  return driver_->drain(group, timeout);
}
Result<void> ManualExecutor::shutdown(Duration timeout) { return driver_->shutdown(timeout); }

ExecutorStats ManualExecutor::stats() { return driver_->scheduler().stats(); }
Result<GroupStats> ManualExecutor::group_stats(std::string_view group) {
  return driver_->scheduler().group_stats(group, driver_->now());
}
std::vector<std::string> ManualExecutor::active_groups() { return driver_->scheduler().active_groups(); }
Duration ManualExecutor::estimated_wait(std::string_view group) { return driver_->scheduler().estimated_wait(group); }

void ManualExecutor::submit_record(TaskRecord& record, Submission submission) { driver_->submit(record, submission); }
bool ManualExecutor::run_here(internal::TaskRef& record, Time, internal::HereTurns& turns) {
  if (!driver_->run_record_here(*record)) return false;
  turns.last = std::move(record);
  turns.note_end(clock().now());
  return true;
}
void ManualExecutor::end_here(internal::HereTurns&) {}
bool ManualExecutor::limit_current_task(std::optional<Time> end) {
  TaskRecord* const task = internal::current_task();
  COHORT_ASSERT(task != nullptr && task->home == &home(), "limit_current_task is for a task of this executor");
  return driver_->scheduler().limit_run(*task, end, driver_->now());
}
std::optional<Time> ManualExecutor::next_event() const {
  const Time next = driver_->next_event();
  return next == Time::max() ? std::nullopt : std::optional(next);
}
void ManualExecutor::call_at(Time at, Function<void()> call) { driver_->call_at(at, std::move(call)); }
void ManualExecutor::follow_record(TaskRecord& record, TaskRecord& predecessor) {
  driver_->follow(record, predecessor);
}
std::uint32_t ManualExecutor::shortest_queue() { return driver_->scheduler().shortest_queue(); }
void ManualExecutor::close_lease(internal::GroupLease& lease) { driver_->close_lease(lease); }
void ManualExecutor::cancel_record(TaskRecord& record) { driver_->cancel(record); }
std::unique_ptr<Error> ManualExecutor::await(AwaitState& state, std::optional<Time> until) {
  return driver_->await(state, until);
}
void ManualExecutor::block(AwaitState& state) { driver_->block(state); }
Explanation ManualExecutor::explain_record(TaskRecord& record) {
  return driver_->scheduler().explain(record, driver_->now());
}

}  // namespace cohort

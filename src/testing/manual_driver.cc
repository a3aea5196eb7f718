#include "testing/manual_driver.h"

#include <algorithm>
#include <utility>

#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/listener_scope.h"

namespace cohort {

using internal::Actions;
using internal::Chore;
using internal::current_task;
using internal::EndAll;
using internal::ExecutorAccess;
using internal::FullQueue;
using internal::ListenerScope;
using internal::Origin;
using internal::Phase;
using internal::TaskRef;

void ManualExecutor::Driver::end() {
  static_cast<void>(shutdown(Duration(0)));
  scheduler_.fire_alarms(now());
  apply();
  while (scheduler_.present() != 0 || scheduler_.chores_open() != 0) {
    const bool progress = run_one() || pass_time(Time::max());
    COHORT_ASSERT(progress, "every body ends: something still blocks one while its executor is destroyed");
  }
}

// Whoever drives one of several that are linked drives all of them.
void ManualExecutor::Driver::link(Driver& other) {
  if (linked_ == other.linked_) return;
  for (Driver* each : *other.linked_) {
    linked_->push_back(each);
    if (each != &other) each->linked_ = linked_;
  }
  other.linked_ = linked_;
}

bool ManualExecutor::Driver::run_own() {
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

bool ManualExecutor::Driver::pass_time(Time end) {
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
void ManualExecutor::Driver::catch_up() {
  while (Timer* due = sleeps_.pop_due(now())) freed_.push_back(static_cast<Sleep*>(due)->thread);
  if (scheduler_.next_timer().value_or(Time::max()) <= now()) scheduler_.tick(now());
  apply();
  if (extra_worker_at() <= now()) help_with_chores();
}

void ManualExecutor::Driver::spend(Duration duration) {
  BatonThread* thread = current_thread_;
  COHORT_ASSERT(thread != nullptr, "spend() is for a body that this executor runs");
  if (Worker* worker = worker_of_[thread]) scheduler_.give_back(worker->turn, now());
  apply();
  Sleep sleep;
  sleep.thread = thread;
  sleeps_.arm(sleep, saturating_add(now(), duration));
  yield(*thread);
}

void ManualExecutor::Driver::submit(TaskRecord& record, Submission submission) {
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

bool ManualExecutor::Driver::run_record_here(TaskRecord& record) {
  record.submitted_at = now();
  Worker& worker = spare_worker();
  if (!scheduler_.take_here(record, worker.turn, now())) return false;
  const TaskRef alive(record);
  tell(TaskEvent::Kind::kSubmitted, record);
  apply();
  dispatch(worker);
  return record.has_begun();
}

void ManualExecutor::Driver::follow(TaskRecord& record, TaskRecord& predecessor) {
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

std::unique_ptr<Error> ManualExecutor::Driver::await(AwaitState& state, std::optional<Time> until) {
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
Result<void> ManualExecutor::Driver::drain(std::string_view key, Duration timeout) {
  COHORT_ASSERT(!ListenerScope::is_inside(),
                "a listener must not drain a group: it runs on the threads that run tasks");
  // A task of an executor that is driven together with this one waits as a task does; all others drive this one.
  TaskRecord* task = current_task();
  const auto runs_task = [&](const Driver* each) { return task->home == &each->home_; };
  if (task != nullptr && std::ranges::none_of(*linked_, runs_task)) task = nullptr;
  scheduler_.begin_drain(key, now());
  const Time until = saturating_add(now(), timeout);
  std::unique_ptr<Error> conflict;
  bool drained = false;
  if (task == nullptr) {
    drive([&] { return scheduler_.is_quiet(key); }, until);
    drained = scheduler_.is_drained(key);
  }
  while (task != nullptr && !drained && !conflict && now() < until) {
    std::vector<TaskRef> open = scheduler_.open_tasks(key);
    const std::size_t need = open.size();
    drained = need == 0;
    auto state = AwaitState::make(std::move(open), need);
    if (task == own_task()) {
      Awaiting awaiting(*state, false);
      conflict = refusal(*task, awaiting);
    }
    if (!drained && !conflict) conflict = ExecutorAccess::await(*state, until);
  }
  scheduler_.end_drain(key, now());
  apply();
  if (conflict) return std::move(*conflict);
  if (drained) return {};
  return Error{
      ErrorCode::kTimedOut, "group '" + std::string(key) + "' still had work when the time to drain ran out", {}};
}

Result<void> ManualExecutor::Driver::shutdown(Duration timeout) {
  COHORT_ASSERT(!ListenerScope::is_inside(),
                "a listener must not shut an executor down: it runs on the threads that run tasks");
  if (const TaskRecord* task = own_task()) {
    return Error{ErrorCode::kConflict, "task '" + task->task_id() + "' cannot shut down the executor that runs it", {}};
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

void ManualExecutor::Driver::apply() {
  std::vector<Chore> own;
  do {
    for (const Chore& chore : std::exchange(own, {})) internal::perform(chore, *this);
    apply_but_own(own);
  } while (!own.empty());
}

// Leaves what the caller is to do himself, whose own call it was.
void ManualExecutor::Driver::apply_but_own(std::vector<Chore>& own) {
  while (scheduler_.has_actions()) {
    Actions actions = scheduler_.take_actions();
    for (TaskRecord* record : actions.let_go) freed_.push_back(blocked_.at(record));
    own.insert(own.end(), actions.own.begin(), actions.own.end());
    actions.own.clear();
    for (int i = 0; i < actions.wake; ++i) wake_worker();
  }
}

std::string ManualExecutor::Driver::leaks() const {
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
void ManualExecutor::Driver::block(AwaitState& state) {
  BatonThread* thread = current_thread_;
  if (internal::current_task() == nullptr || thread == nullptr) {
    static_cast<void>(await(state, std::nullopt));
    return;
  }
  workers_.emplace_back();
  state.arm([this, thread] { freed_.push_back(thread); });
  yield(*thread);
}

void ManualExecutor::Driver::tell(TaskEvent::Kind kind, const TaskRecord& record, TaskStatus status) {
  if (!listener_) return;
  const internal::ListenerScope scope;
  try {
    listener_(internal::event_of(kind, record, now(), status));
  } catch (...) {
    // The documented meaning of a listener that throws.
  }
}

Origin ManualExecutor::Driver::origin_of(const TaskRecord& record) const {
  const TaskRecord* submitter = own_task();
  if (submitter == nullptr) return Origin::kOutside;
  return submitter->label().key() == record.label().key() ? Origin::kSameGroup : Origin::kOtherGroup;
}

void ManualExecutor::Driver::help_with_chores() {
  Worker& worker = spare_worker();
  while (worker.state == Worker::kSpare && scheduler_.take_chores(worker.turn, now())) {
    apply();
    dispatch(worker);
  }
}

// Gives the turn to the thread that its task is parked on, or to a fresh one.
void ManualExecutor::Driver::dispatch(Worker& worker) {
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

void ManualExecutor::Driver::pass_to(BatonThread& thread, Worker* worker) {
  if (worker != nullptr) worker_of_[&thread] = worker;
  BatonThread* outer = std::exchange(current_thread_, &thread);
  thread.go_on();
  current_thread_ = outer;
}

// On a baton thread. It may change workers on the way: a body that parks comes back with another's turn.
void ManualExecutor::Driver::run_turn(BatonThread& thread) {
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

void ManualExecutor::Driver::end_turn(BatonThread& thread) {
  Worker& worker = *worker_of_[&thread];
  scheduler_.finish(worker.turn, now());
  leave(worker);
  apply();
}

// False when the turn is no longer this thread's: the task suspended, or was let go.
bool ManualExecutor::Driver::run_body(TaskRecord& record, BatonThread& thread) {
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

bool ManualExecutor::Driver::run_once(TaskRecord& record) {
  if (internal::TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->await_request) {
    extras->await_request->disarm();  // What it waited for last; of a when_any some may be open.
    extras->await_request.reset();
  }
  internal::CurrentTaskScope current(&record);
  return record.run();
}

// Does what a coroutine asked for. False when it can go on at once.
bool ManualExecutor::Driver::suspend(TaskRecord& record, Worker* worker) {
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

std::unique_ptr<Error> ManualExecutor::Driver::refusal(TaskRecord& task, Awaiting& awaiting) {
  auto verdict = Awaiting::Verdict::kMay;
  do {
    verdict = scheduler_.check_await(task, awaiting, now());
  } while (verdict == Awaiting::Verdict::kMay && awaiting.checked < awaiting.state.records().size());
  apply();
  if (verdict == Awaiting::Verdict::kMay) return nullptr;
  return std::make_unique<Error>(verdict == Awaiting::Verdict::kCycle ? internal::cycle_error(task, awaiting.cycle)
                                                                      : internal::out_of_time_error(task));
}

void ManualExecutor::Driver::begin_await(TaskRecord& record, Awaiting& awaiting) {
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
void ManualExecutor::Driver::leave(Worker& worker) {
  if (worker.state == Worker::kBusy) worker.state = spare_.count(&worker) != 0 ? Worker::kSpare : Worker::kLooking;
  for (auto& [thread, of] : worker_of_) {
    if (of == &worker) of = nullptr;
  }
}

// On a worker that exists only for this, so that no virtual worker is used up.
void ManualExecutor::Driver::run_here(TaskRecord& record) {
  Worker& worker = spare_worker();
  if (!scheduler_.take_only(record, worker.turn, now())) return;
  apply();
  dispatch(worker);
}

ManualExecutor::Driver::Worker& ManualExecutor::Driver::spare_worker() {
  const auto free = std::ranges::find_if(spare_, [](const auto& each) { return each.second->state == Worker::kSpare; });
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

void ManualExecutor::Driver::report_deadlock(const AwaitState& state) {
  std::string text = "deadlock in virtual time: nothing is left that could happen, but";
  for (const TaskRef& record : state.records()) {
    if (record->is_done()) continue;
    text += " task '" + record->task_id() + "' of group '" + record->group_key() + "' has not ended (" +
            scheduler_.explain(*record, now()).text + ");";
  }
  internal::assertion_failed("an awaited task ends", text.c_str(), __FILE__, __LINE__);
}

}  // namespace cohort

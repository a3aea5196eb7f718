#pragma once

// A storm of random events against a Scheduler, checked step by step against a simple model. Test code only.
//
// The storm plays workers, bodies and users on one thread and in virtual time. Its model knows tasks and counts, not
// how the scheduler works. run() returns the first broken rule in words, or nothing. The same seed gives the same
// storm.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/random.h"
#include "group/scheduler_parts.h"
#include "group/scheduler_storm_players.h"

namespace cohort::internal {

template <class Faults>
class Storm {
 public:
  explicit Storm(std::uint64_t seed)
      : random_(seed), options_(make_options()), scheduler_(make_copy(), now_), workers_(workers_count_ + kGuests) {
    for (Worker& worker : workers_) worker.turn.measured = random_.chance(0.5);
    for (std::size_t i = workers_count_; i < workers_.size(); ++i) workers_[i].guest = true;
  }

  /// Plays `events` random events, then lets everything end.
  std::string run(int events = 400) {
    for (int i = 0; i < events && broken_.empty(); ++i) {
      random_event();
      check();
    }
    if (broken_.empty()) finish();
    return broken_;
  }

  /// How many tasks ran on the thread that brought them.
  [[nodiscard]] std::uint64_t run_here_count() const { return run_here_count_; }

 private:
  using Where = StormTask::Where;
  using Step = StormTask::Step;
  static constexpr int kGroups = 5;
  static constexpr std::size_t kGuests = 2;
  using Worker = StormWorker;
  using Model = StormModel;

  // ---- setting up

  std::uint32_t some(std::uint32_t most) { return static_cast<std::uint32_t>(1 + random_.below(most)); }

  GroupExecutorOptions make_options() {
    GroupExecutorOptions options;
    workers_count_ = some(4);
    plain_ = random_.chance(0.5) ? 0.0 : random_.unit();
    longest_us_ = random_.chance(0.5) ? 3000 : 3;
    calm_ = random_.chance(0.3);
    guests_come_ = random_.chance(0.3);
    if (calm_ || guests_come_) plain_ = 1;
    if (guests_come_) longest_us_ = 3;
    options.threads = workers_count_;
    options.global_max_in_flight = random_.chance(0.3) ? kUnlimited : some(5);
    options.max_parked = random_.chance(0.5) ? 1000 : 4 + some(12);
    options.evict_after = std::chrono::milliseconds(some(50));
    for (int g = 0; g < kGroups; ++g) {
      GroupLimits limits;
      Model& model = models_[static_cast<std::size_t>(g)];
      limits.max_concurrency = model.concurrency = random_.chance(0.2) ? kUnlimited : some(3);
      model.serial = model.concurrency == 1;
      if (random_.chance(0.4)) limits.max_in_flight = model.in_flight = some(4);
      if (random_.chance(0.3)) limits.max_waiting = some(6) - 1;
      if (random_.chance(0.3)) limits.overflow = static_cast<OverflowPolicy>(random_.below(4));
      if (random_.chance(0.3)) limits.weight = random_.unit() * 4 + 0.1;
      model.rated = !calm_ && !guests_come_ && random_.chance(0.2);
      if (model.rated) limits.rate = Rate{some(5), std::chrono::milliseconds(some(5)), some(4)};
      if (random_.chance(0.5)) limits.max_overrunning = some(3);
      options.groups.emplace(key(g), limits);
    }
    global_limit_ = options.global_max_in_flight;
    max_parked_ = options.max_parked;
    return options;
  }

  GroupExecutorOptions make_copy() { return std::move(options_); }
  static std::string key(int group) { return storm_key(group); }

  // ---- events

  void random_event() {
    std::uint64_t event = random_.below(20);
    if (calm_ && event >= 1 && event <= 9 && event != 5) event = 13;
    if (guests_come_ && (event <= 9 || event == 11) && random_.chance(0.9)) event = 13;
    switch (event) {
      case 0:
      case 1:
      case 2:
      case 3: submit(some_group(), nullptr); break;
      case 4: submit_following(); break;
      case 5:
        if (StormTask* task = some_task()) scheduler_.cancel(*task, now_);
        break;
      case 6: change_limits(); break;
      case 7: pause(some_group(), random_.chance(0.5)); break;
      case 8:
        if (random_.chance(0.2)) shut_down(some_group());
        break;
      case 9:
        if (random_.chance(0.2)) drain(some_group(), random_.chance(0.5));
        break;
      case 10:
        if (StormTask* task = some_task()) static_cast<void>(scheduler_.explain(*task, now_));
        break;
      case 11:
        pass_time(random_.chance(0.1) ? std::chrono::milliseconds(100) : std::chrono::milliseconds(some(5)));
        break;
      case 12: pass_time(std::chrono::microseconds(some(guests_come_ ? 2 : 200))); break;
      default: step_worker(workers_[random_.below(workers_.size())]); break;
    }
    if (random_.chance(0.3)) step_let_go();
    if (random_.chance(0.3)) step_jobs();
    apply();
  }

  // In one step, or in several with other events in between.
  void shut_down(int group) {
    auto job = std::make_unique<EndJob>();
    if (!scheduler_.shutdown_group(key(group), *job, now_)) return;
    jobs_.push_back(std::move(job));
  }
  void step_jobs() {
    std::erase_if(jobs_, [this](const auto& job) { return !scheduler_.end_some(*job, now_); });
  }

  int some_group() { return static_cast<int>(random_.below(kGroups)); }
  StormTask* some_task() { return tasks_.empty() ? nullptr : tasks_[random_.below(tasks_.size())].get(); }

  Ref<StormTask> make_task(int group, bool for_guest = false) {
    const int number = static_cast<int>(tasks_.size());
    auto task = Ref<StormTask>::adopt(new StormTask(number, group));
    if (!random_.chance(plain_)) task->priority = static_cast<Priority>(random_.below(kPriorityCount));
    task->blocks = random_.chance(0.5);
    task->drops_users_code = random_.chance(0.3);
    task->order = ++order_;
    if (random_.chance(plain_)) {
      if (random_.chance(0.3)) task->steps.push_back(Step::kSpend);
    } else {
      for (std::uint64_t i = random_.below(4); i > 0; --i) task->steps.push_back(static_cast<Step>(random_.below(8)));
    }
    if (for_guest) {
      task->blocks = true;
      if (random_.chance(0.4)) task->steps.push_back(static_cast<Step>(random_.below(8)));
    }
    if (!for_guest && !random_.chance(plain_)) {
      SubmitOptions& limits = task->extras().options;
      if (random_.chance(0.15)) limits.queue_timeout = std::chrono::milliseconds(some(10));
      if (random_.chance(0.15)) limits.run_timeout = std::chrono::milliseconds(some(10));
      if (random_.chance(0.05)) limits.deadline = now_ + std::chrono::milliseconds(some(20));
      task->timed = limits.run_timeout || limits.deadline;
      task->special = true;
    }
    if (!for_guest) task->add_executors_reference();
    task->home = reinterpret_cast<ExecutorHome*>(this);  // Only compared, never called.
    tasks_.push_back(task);
    return task;
  }

  StormTask& submit(int group, StormTask* submitter) {
    Ref<StormTask> task = make_task(group);
    task->where = Where::kWaiting;
    const auto origin = submitter == nullptr           ? Origin::kOutside
                        : submitter->in_group == group ? Origin::kSameGroup
                                                       : Origin::kOtherGroup;
    const std::uint64_t open = count([&](const StormTask& each) {
      const bool is_in = each.phase != Phase::kNew && each.phase != Phase::kAtDoor && each.phase != Phase::kParked;
      return each.in_group == group && is_in && each.settled == 0 && !each.is_claimed();
    });
    const std::uint64_t at_door =
        count([&](const StormTask& each) { return each.in_group == group && each.phase == Phase::kAtDoor; });
    scheduler_.submit(*task, origin, random_.chance(0.5) ? FullQueue::kAsGroupSays : FullQueue::kCallerWaits, now_);
    apply();
    if (at_door != 0) task->order = ++order_;  // They may have come in, before it.
    check_admission(*task, open, at_door);
    return *task;
  }

  // So many tasks of its group were in without a result when it came, and so many waited to come in.
  void check_admission(const StormTask& task, std::uint64_t open, std::uint64_t at_door) {
    const Model& model = models_[static_cast<std::size_t>(task.in_group)];
    const Group* const group = scheduler_.group_of(key(task.in_group));
    if (model.rated || (group != nullptr && group->jobs != nullptr)) return;
    const ResolvedLimits limits = scheduler_.resolve(key(task.in_group));
    const std::uint64_t most =
        limits.max_waiting + (model.paused || model.stopped ? 0 : std::uint64_t{limits.max_concurrency});
    const Error* const error = task.is_done() ? task.error() : nullptr;
    const bool was_full = task.phase == Phase::kAtDoor ||
                          (error != nullptr && error->message.find("raise max_waiting") != std::string::npos);
    if (was_full && open + at_door < most) fail(task, "was refused though there was room");
    if (!task.is_done() && !was_full && open >= most && limits.overflow != OverflowPolicy::kDiscardOldest) {
      fail(task, "was taken in though there was no room");
    }
  }

  // What a worker brings with it when it takes a turn.
  std::vector<Arrival> some_arrivals() {
    std::vector<Arrival> arrivals;
    for (std::uint64_t i = finishing_ || random_.chance(calm_ ? 0.3 : 0.8) ? 0 : random_.below(4); i > 0; --i) {
      const int group = some_group();
      if (const Group* known = scheduler_.group_of(key(group)); known != nullptr && known->at_door != 0) continue;
      const Ref<StormTask> task = make_task(group);
      task->where = Where::kWaiting;
      task->submitted_at = now_;
      arrivals.push_back({task.get(), Origin::kOutside, FullQueue::kAsGroupSays});
    }
    return arrivals;
  }

  void submit_following() {
    StormTask* before = some_task();
    if (before == nullptr) return;
    Ref<StormTask> task = make_task(before->in_group);
    task->extras().options = {};
    task->timed = false;
    task->where = Where::kWaiting;
    scheduler_.follow(*task, *before, Origin::kOutside, now_);
    apply();
    if (task->phase != Phase::kDependent) return;
    AwaitState::make(*before)->arm([this, task] {
      task->order = ++order_;
      scheduler_.release(*task, now_);
    });
  }

  void change_limits() {
    const int group = some_group();
    Model& model = models_[static_cast<std::size_t>(group)];
    if (random_.chance(0.15)) {
      scheduler_.set_limits(key(group), {.max_concurrency = 0}, now_);
      model.stopped = true;
      return;
    }
    set_limits(group, some(4), random_.chance(0.5) ? kUnlimited : some(4));
  }

  void set_limits(int group, std::uint32_t concurrency, std::uint32_t in_flight) {
    Model& model = models_[static_cast<std::size_t>(group)];
    model.still_out = permits_out(group);
    model.concurrency = concurrency;
    model.serial = model.serial && concurrency == 1;
    model.in_flight = in_flight;
    model.stopped = false;
    scheduler_.set_limits(key(group), {.max_concurrency = concurrency, .max_in_flight = in_flight}, now_);
  }

  void pause(int group, bool paused) {
    Model& model = models_[static_cast<std::size_t>(group)];
    model.paused = paused;
    if (!paused) model.stopped = false;
    scheduler_.set_paused(key(group), paused, now_);
  }

  void drain(int group, bool begin) {
    int& open = drains_[static_cast<std::size_t>(group)];
    if (begin) {
      scheduler_.begin_drain(key(group), now_);
      ++open;
    } else if (open > 0) {
      scheduler_.end_drain(key(group), now_);
      --open;
    }
  }

  void pass_time(Duration duration) {
    const Time end = now_ + duration;
    while (scheduler_.next_timer().value_or(Time::max()) <= end) {
      now_ = std::max(now_, *scheduler_.next_timer());
      scheduler_.tick(now_);
      apply();
    }
    now_ = end;
  }

  // ---- workers and bodies

  // Right here if it could start at once; else it is submitted like any.
  void run_here(Worker& guest) {
    if (finishing_ || random_.chance(guests_come_ ? 0.2 : 0.7)) return;
    if (guests_come_ && scheduler_.stats().waiting != 0 && random_.chance(0.9)) return;
    const Ref<StormTask> task = make_task(some_group(), true);
    task->submitted_at = now_;
    task->where = Where::kWaiting;
    if (scheduler_.take_here(*task, guest.turn, now_)) {
      guest.state = Worker::kInTurn;
      guest.brought = task.get();
      ++run_here_count_;
    } else {
      submit_brought(*task);
    }
    apply();
  }
  void submit_brought(StormTask& task) {
    task.order = ++order_;
    task.count_executors_reference();
    const Group* const known = scheduler_.group_of(key(task.in_group));
    const bool others_at_door = known != nullptr && known->at_door != 0;
    scheduler_.submit(task, Origin::kOutside, FullQueue::kAsGroupSays, now_);
    apply();
    if (others_at_door) task.order = ++order_;
  }

  void step_worker(Worker& worker) {
    if (worker.guest && worker.state == Worker::kLooking) return run_here(worker);
    if (worker.state == Worker::kLooking) {
      if (scheduler_.take(worker.turn, some_arrivals(), now_)) {
        worker.state = Worker::kInTurn;
      } else {
        worker.state = Worker::kIdle;
      }
      apply();
      return;
    }
    if (worker.state != Worker::kInTurn || worker.busy_until > now_) return;
    if (worker.turn.of_chores) {
      if (const Chore* const chore = worker.turn.begin_chore(now_)) {
        do_chore(*chore);
        if (random_.chance(0.1)) worker.busy_until = now_ + std::chrono::microseconds(some(longest_us_));
        if (random_.chance(0.1)) scheduler_.give_back(worker.turn, now_);
        return;
      }
      worker.turn.left_body = now_;
      scheduler_.finish(worker.turn, now_);
      worker.state = Worker::kLooking;
      return;
    }
    if (worker.body == nullptr) {
      TaskRecord* record = worker.turn.begin(now_);
      if (record == nullptr) {
        scheduler_.finish(worker.turn, now_);
        worker.state = Worker::kLooking;
        if (worker.brought && !worker.brought->started) submit_brought(*worker.brought);
        worker.brought = nullptr;
        return;
      }
      worker.body = static_cast<StormTask*>(record);
      begins(*worker.body);
      return;
    }
    step_body(worker);
  }

  void step_body(Worker& worker) {
    StormTask& task = *worker.body;
    if (task.stop_asked && random_.chance(0.5)) task.next_step = task.steps.size();
    if (task.next_step == task.steps.size()) {
      end_body(task, &worker.turn);
      worker.body = nullptr;
      return;
    }
    const Step step = task.steps[task.next_step++];
    if (step == Step::kSpend || (step == Step::kSleep && task.blocks)) {
      worker.busy_until = now_ + std::chrono::microseconds(some(longest_us_));
      if (random_.chance(0.5)) scheduler_.give_back(worker.turn, now_);
    } else if (step == Step::kSleep) {
      task.where = Where::kAsleep;
      leave(worker);
      scheduler_.sleep(worker.turn, now_ + std::chrono::microseconds(some(4000)), now_);
    } else if (step == Step::kSubmit) {
      submit(some_group(), &task);
    } else {
      await(worker, task, step);
    }
  }

  void await(Worker& worker, StormTask& task, Step step) {
    std::vector<TaskRef> targets;
    const std::size_t count = step == Step::kAwaitAll || step == Step::kAwaitAny ? 1 + random_.below(3) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      StormTask* known_task = step == Step::kSubmitAndAwait || tasks_.size() < 4 ? nullptr : some_task();
      StormTask& target = known_task == nullptr ? submit(some_group(), &task) : *known_task;
      const bool known = std::ranges::any_of(targets, [&](const TaskRef& each) { return each.get() == &target; });
      if (!known) targets.emplace_back(target);
    }
    const std::size_t need = step == Step::kAwaitAny ? 1 : targets.size();
    auto state = AwaitState::make(targets, need);
    if (state->satisfied()) return;
    Awaiting awaiting(*state, step == Step::kAwaitFor);
    const auto verdict = scheduler_.check_await(task, awaiting, now_);
    if (verdict != Awaiting::Verdict::kMay) {
      if (verdict == Awaiting::Verdict::kOutOfTime && !task.overrunning) {
        fail(task, "an await failed without a time-out");
      }
      return;
    }
    std::optional<Time> until;
    if (step == Step::kAwaitFor) until = now_ + std::chrono::milliseconds(some(5));
    task.blocks_thread = task.blocks;
    task.where = Where::kParked;
    task.waits_for = state;
    leave(worker);
    scheduler_.park(worker.turn, awaiting, until, now_);
    while (!awaiting.is_through() && scheduler_.check_more(task, awaiting, now_)) {
    }
    for (const TaskRef& target : targets) mark_awaited(static_cast<StormTask&>(*target));
    if (!awaiting.cycle.empty()) {
      scheduler_.fail_await(task, *state, std::make_unique<Error>(cycle_error(task, awaiting.cycle)), now_);
      apply();
      return;
    }
    apply();
    state->arm([this, held = TaskRef(task), waited = state.get()] { scheduler_.resume(*held, *waited, now_); });
    apply();
  }

  void mark_awaited(StormTask& task) {
    for (StormTask* each = &task; each != nullptr && !each->is_done();) {
      each->was_awaited = true;
      TaskExtras* extras = each->extras_if_any();
      each = extras != nullptr ? static_cast<StormTask*>(extras->predecessor.get()) : nullptr;
    }
  }

  void leave(Worker& worker) {
    worker.body = nullptr;
    worker.state = Worker::kLooking;
  }

  // A worker has got a task: the moment at which permits count.
  void begins(StormTask& task) {
    Model& model = models_[static_cast<std::size_t>(task.in_group)];
    const bool first = !task.started;
    const bool had_permits = task.where == Where::kAsleep || task.overrunning;
    task.where = Where::kOnWorker;
    task.run_by_caller = first && task.blocks_thread;
    task.blocks_thread = false;
    if (task.waits_for) {
      task.waits_for->disarm();
      task.waits_for.reset();
    }
    if (first) {
      task.started = true;
      task.own = !task.was_awaited;
      if (task.settled != 0) fail(task, "began after it was settled");
      const auto means_it = [&](const auto& job) { return job->group == task.group && job->means(task); };
      if (std::ranges::any_of(jobs_, means_it)) fail(task, "began while the work of its group was being ended");
      if (model.paused || model.stopped) fail(task, "began while its group was paused");
      if (task.own && !task.run_by_caller) {
        std::uint64_t& last = model.last_started[static_cast<std::size_t>(task.priority)];
        if (model.serial && task.order < last) fail(task, "began before an older task of its group and priority");
        last = task.order;
      }
    }
    if (had_permits) return;
    if (count_running() > global_limit_) fail(task, "more run than layer 1 allows");
    if (count_running(task.in_group) > std::max(model.concurrency, model.still_out)) {
      fail(task, "more run than layer 3 allows");
    }
    if (first && task.own && count_in_flight(task.in_group) > model.in_flight)
      fail(task, "more fly than layer 2 allows");
  }

  void end_body(StormTask& task, Turn* turn) {
    const TaskStatus status = random_.chance(0.8) ? TaskStatus::kSuccess : TaskStatus::kFailed;
    task.where = Where::kGone;
    if (!task.claim_by_body(status)) return;
    if (turn != nullptr && turn->measured) turn->measure(task, status, now_);
    settled(task);
    task.publish(now_);
  }

  void step_let_go() {
    if (let_go_.empty()) return;
    const std::size_t place = random_.below(let_go_.size());
    const Ref<StormTask> task = let_go_[place];
    if (random_.chance(0.5)) return;
    let_go_.erase(let_go_.begin() + static_cast<std::ptrdiff_t>(place));
    task->extras().await_error.reset();
    end_body(*task, nullptr);
    scheduler_.finish_let_go(*task, now_);
  }

  // ---- actions

  void apply() {
    while (scheduler_.has_actions()) {
      Actions actions = scheduler_.take_actions();
      // They came in before anything that follows from an end.
      for (TaskRecord* each : actions.admit) static_cast<StormTask&>(*each).order = ++order_;
      for (const Chore& each : actions.own) do_chore(each);
      for (TaskRecord* each : actions.let_go) {
        auto& task = static_cast<StormTask&>(*each);
        if (task.waits_for) task.waits_for->disarm();
        task.waits_for.reset();
        task.where = Where::kLetGo;
        let_go_.emplace_back(task);
      }
      for (int i = 0; i < actions.wake; ++i) {
        const auto idle = std::ranges::find(workers_, Worker::kIdle, &Worker::state);
        if (idle == workers_.end()) {
          broken_ = "a worker was to be woken and none was idle";
          return;
        }
        idle->state = Worker::kLooking;
      }
    }
  }

  void do_chore(const Chore& chore) {
    auto& task = static_cast<StormTask&>(*chore.record);
    const TaskRef alive(task);
    switch (chore.kind) {
      case Chore::Kind::kSettle:
        settled(task);
        if (!task.is_done()) {  // Else it is settled twice, and the model has noticed.
          if (!task.started) task.where = Where::kGone;
          task.set_error(error_of(task, chore.reason));
          task.publish(now_);
        }
        chore.forgets ? task.drop_executors_reference(now_) : task.unref();
        break;
      case Chore::Kind::kStop:
        task.stop_asked = true;
        task.unref();
        break;
      case Chore::Kind::kDrop: task.drop_executors_reference(now_); break;
      default: task.unref();
    }
  }

  void settled(StormTask& task) {
    if (++task.settled > 1) fail(task, "settled twice");
  }

  // ---- the model's counts, from where the bodies are

  template <class Which>
  std::uint32_t count(Which&& which) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(tasks_, [&](const auto& task) { return which(*task); }));
  }
  static bool holds_permits(const StormTask& task) {
    return !task.overrunning && (task.where == Where::kOnWorker || task.where == Where::kAsleep);
  }
  std::uint32_t count_running() const { return count(holds_permits); }
  std::uint32_t count_running(int group) const {
    return count([&](const StormTask& task) { return task.in_group == group && holds_permits(task); });
  }
  std::uint32_t count_in_flight(int group) const {
    return count([&](const StormTask& task) {
      return task.in_group == group && task.own && !task.overrunning &&
             (holds_permits(task) || task.where == Where::kParked);
    });
  }

  // Brought by a guest, who has not submitted it yet.
  std::uint64_t taken_back() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        workers_, [](const Worker& each) { return each.brought != nullptr && each.brought->phase == Phase::kNew; }));
  }

  // ---- what must hold after every event: scheduler_storm_rules.h

  void check();
  void check_nobody_is_forgotten();
  bool could_run(const StormTask& task) const;
  std::uint32_t permits_out() const;
  std::uint32_t permits_out(int group) const;
  void fail(const StormTask& task, const std::string& rule) {
    if (broken_.empty()) broken_ = "task " + task.task_id() + " of " + key(task.in_group) + ": " + rule;
  }

  // ---- the end

  void finish() {
    finishing_ = true;
    for (int g = 0; g < kGroups; ++g) {
      pause(g, false);
      while (drains_[static_cast<std::size_t>(g)] > 0) drain(g, false);
    }
    const auto is_open = [this] {
      return scheduler_.present() != 0 || scheduler_.chores_open() != 0 || taken_back() != 0;
    };
    for (int i = 0; i < 100'000 && broken_.empty() && is_open(); ++i) {
      step_jobs();
      for (Worker& worker : workers_) step_worker(worker);
      step_let_go();
      pass_time(std::chrono::microseconds(500));
      apply();
      check();
    }
    if (!broken_.empty()) return;
    if (scheduler_.present() != 0) {
      broken_ = "not all tasks ended:";
      for (const auto& task : tasks_) {
        if (task->phase == Phase::kForgotten || task->phase == Phase::kNew) continue;
        if (broken_.size() > 2000) break;
        broken_ +=
            "\n  " + task->task_id() + " of " + key(task->in_group) + ": " + scheduler_.explain(*task, now_).text;
      }
      return;
    }
    for (const auto& task : tasks_) {
      if (task->settled != 1) return fail(*task, "settled " + std::to_string(task->settled) + " times");
    }
    const ExecutorStats stats = scheduler_.stats();
    if (stats.counters.settled_total() != tasks_.size()) broken_ = "the counters do not add up";
    if (scheduler_.global_running() != 0 || stats.running != 0 || stats.parked != 0 || stats.waiting != 0 ||
        stats.overrunning != 0) {
      broken_ = "permits were left when all tasks had ended";
    }
    pass_time(std::chrono::seconds(10));
    if (broken_.empty() && scheduler_.stats().groups != 0) broken_ = "idle groups were not evicted";
  }

  Random random_;
  Time start_ = Time(std::chrono::hours(1));
  Time now_ = start_;
  std::uint64_t run_here_count_ = 0;
  std::uint32_t workers_count_ = 1;
  double plain_ = 0;                 ///< How many tasks use nothing special.
  bool calm_ = false;                ///< Nobody but submitters and those who cancel.
  bool guests_come_ = false;         ///< Most tasks are brought by guests.
  std::uint32_t longest_us_ = 3000;  ///< How long a body keeps its thread at most.
  std::uint32_t global_limit_ = kUnlimited;
  std::uint32_t max_parked_ = 1000;
  std::array<Model, kGroups> models_;
  std::array<int, kGroups> drains_{};
  GroupExecutorOptions options_;
  Scheduler<Faults> scheduler_;
  std::vector<Worker> workers_;
  std::vector<Ref<StormTask>> tasks_;
  std::vector<Ref<StormTask>> let_go_;
  std::vector<std::unique_ptr<EndJob>> jobs_;  ///< Under way.
  std::uint64_t order_ = 0;
  bool finishing_ = false;
  std::string broken_;
};

/// Runs one storm; the first broken rule, or nothing. A scheduler that broke one cannot be taken apart in order, so it
/// is kept for ever.
template <class Faults>
std::string run_storm(std::uint64_t seed, std::uint64_t* run_here = nullptr) {
  static auto* broken_ones = new std::vector<std::unique_ptr<Storm<Faults>>>;
  auto storm = std::make_unique<Storm<Faults>>(seed);
  std::string broken = storm->run();
  if (run_here != nullptr) *run_here += storm->run_here_count();
  if (!broken.empty()) broken_ones->push_back(std::move(storm));
  return broken;
}

}  // namespace cohort::internal

#include "group/scheduler_storm_rules.h"  // IWYU pragma: keep

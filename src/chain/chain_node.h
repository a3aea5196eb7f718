#pragma once

// Part of ChainCore: the node's life. Joining and its lease, the tick, draining; submits and control.

#include "chain/chain_core.h"

namespace cohort {

template <class Faults>
TaskHandle<void> ChainCore<Faults>::start() {
  {
    MutexLock lock(mutex_);
    COHORT_ASSERT(life_ == Life::kNew, "an engine is started once");
    life_ = Life::kJoining;
  }
  if (!options_.work_folder.empty()) {
    Result<WorkFolder> folder = WorkFolder::make(options_.work_folder);
    if (!folder) {
      Promise<void> refused("start", {}, executor_.clock());
      TaskHandle<void> handle = refused.handle();
      refused.settle(folder.error());
      return handle;
    }
    work_folder_ = *std::move(folder);
  }
  alarms_ = std::make_shared<Alarms>(executor_, [self = this->weak_from_this()](const std::string& group) {
    if (const Self alive = self.lock()) alive->feeder_.wake(group);
  });
  if (broker_ != nullptr) {
    const auto holds = [self = this->weak_from_this()]() -> std::shared_ptr<void> {
      const Self alive = self.lock();
      return alive ? std::make_shared<Hold>(alive) : nullptr;
    };
    intake_ = std::make_shared<BasicIntake<Faults>>(
        *broker_, store_, executor_,
        [self = this->weak_from_this()](const NewTask& task) {
          const Self alive = self.lock();
          return alive ? alive->check_plugins(task) : Result<void>();
        },
        [self = this->weak_from_this()](const std::string& group) {
          if (const Self alive = self.lock()) alive->feeder_.wake(group);
        },
        holds);
    relay_ = std::make_shared<EventRelay>(*broker_, store_, holds);
  }
  return as_handle<void>("start", [&](Completion<void> done) {
    join([self = hold(), done = std::move(done)](Result<void> joined) mutable {
      if (joined) {
        MutexLock lock(self->mutex_);
        if (self->life_ == Life::kJoining) self->life_ = Life::kRunning;
      }
      if (joined) {
        self->look_for_work();
        self->tick();
        if (self->intake_) self->intake_->start();
      }
      if (joined) COHORT_LOG(kInfo, "chain", "the engine has started", {"node", self->boot()});
      done(std::move(joined));
    });
  });
}

// Under a new boot. First the lease, then what the boots before have left, then whether groups are paused.
template <class Faults>
void ChainCore<Faults>::join(Completion<void> done) {
  const std::string boot = options_.node + "/" + make_id().substr(0, 16);
  const Time sent = lease_clock_.now();
  store_.join({.node = options_.node, .boot = boot, .formerly = this->boot()}, lease(),
              [self = hold(), boot, sent, done = std::move(done)](Result<void> joined) mutable {
                if (!joined) return done(std::move(joined));
                {
                  MutexLock lock(self->mutex_);
                  self->boot_ = boot;
                  self->has_lease_ = true;  // Also while draining: then it is given up at the end of that.
                  self->renewed_ = sent;
                }
                self->begin(boot, std::move(done));
              });
}

template <class Faults>
void ChainCore<Faults>::begin(const std::string& boot, Completion<void> done) {
  store_.take_over(boot, options_.folder_is_ours && is_first_boot(),
                   [self = hold(), done = std::move(done)](auto taken) mutable {
                     if (!taken) return done(taken.error());
                     self->skip_commands([self, done = std::move(done)](Result<void> skipped) mutable {
                       if (!skipped) return done(std::move(skipped));
                       self->store_.paused_groups([self, done = std::move(done)](auto paused) mutable {
                         if (!paused) return done(paused.error());
                         for (const std::string& group : *paused) static_cast<void>(self->executor_.pause_group(group));
                         done({});
                       });
                     });
                   });
}

// What was asked for before this node began is done: pauses are in the store, and what was cancelled has been. Only
// sizes still hold.
template <class Faults>
void ChainCore<Faults>::skip_commands(Completion<void> done) {
  constexpr std::uint32_t kAtOnce = 1000;
  if (!is_first_boot()) return done({});
  std::uint64_t after = 0;
  {
    MutexLock lock(mutex_);
    after = commands_seen_;
  }
  store_.commands(after, kAtOnce,
                  [self = hold(), done = std::move(done)](Result<std::vector<Command>> commands) mutable {
                    if (!commands) return done(commands.error());
                    if (commands->empty()) return done({});
                    for (const Command& each : *commands) {
                      if (each.kind == "resize_group") self->apply_resize(each);
                    }
                    {
                      MutexLock lock(self->mutex_);
                      self->commands_seen_ = commands->back().sequence;
                    }
                    if (commands->size() < kAtOnce) return done({});
                    self->skip_commands(std::move(done));
                  });
}

template <class Faults>
void ChainCore<Faults>::tick() {
  bool renews = false;
  bool loses = false;
  bool looks = false;
  bool cleans = false;
  bool takes_over = false;
  std::vector<RunRef> runs;
  {
    MutexLock lock(mutex_);
    // Once nothing runs any more, it must not begin anything that its end would have to wait for.
    if (life_ == Life::kClosed || (life_ == Life::kDraining && tickets_ == 0)) return;
    const Duration since = lease_clock_.now() - renewed_;
    loses = !options_.folder_is_ours && has_lease_ && since >= options_.lease - options_.lease / 5;
    renews = !renewing_ && (!has_lease_ || since >= options_.renew_every) && !loses;
    takes_over = !options_.folder_is_ours && has_lease_ && now() - took_over_ >= options_.renew_every;
    if (takes_over) took_over_ = now();
    looks = has_lease_ && now() - looked_ >= options_.look_every;
    if (looks) looked_ = now();
    cleans = options_.retention > Duration::zero() && !is_cleaning_ && now() - cleaned_ >= std::chrono::minutes(1);
    if (cleans) cleaned_ = now();
    is_cleaning_ = is_cleaning_ || cleans;
    for (const auto& [id, run] : runs_) runs.push_back(run);
  }
  if (loses) lose_lease("it could not be renewed in time");
  if (store_.fault()) {  // Nothing that they do could be written any more.
    for (const RunRef& run : runs) run->request_stop();
  }
  if (clock_has_jumped()) looks = true;
  if (renews) renew();
  for (const RunRef& run : runs) {
    send_report(*run);
    fail_overrunning(run);
  }
  gate_.look();
  if (relay_) relay_->look();
  if (takes_over) take_over();
  if (looks) look_for_work();
  if (cleans) forget_old_tasks();
  follow_commands();
  drop_kept(now());
  const Time due = now() + kTick;
  executor_.call_at(due, [self = this->weak_from_this(), due] {
    const Self alive = self.lock();
    if (alive && alive->now() >= due) alive->tick();  // Else the executor has ended.
  });
}

template <class Faults>
void ChainCore<Faults>::renew() {
  bool rejoins = false;
  std::string boot;
  {
    MutexLock lock(mutex_);
    renewing_ = true;
    rejoins = !has_lease_;
    boot = boot_;
  }
  if (rejoins) {
    join([self = hold()](const Result<void>&) {
      {
        MutexLock lock(self->mutex_);
        self->renewing_ = false;
      }
      self->look_again_soon();  // It may have its lease even if something after that went wrong.
    });
    return;
  }
  const Time sent = lease_clock_.now();
  store_.renew(boot, lease(), [self = hold(), sent, boot](Result<void> renewed) {
    bool is_lost = false;
    {
      MutexLock lock(self->mutex_);
      self->renewing_ = false;
      if (self->boot_ != boot) return;
      if (renewed) self->renewed_ = sent;
      is_lost = !renewed && renewed.error().code == ErrorCode::kStale;
    }
    if (is_lost) self->lose_lease("the store says so");
  });
}

// Start times follow the wall clock: what has come due by a jump must be looked for.
template <class Faults>
bool ChainCore<Faults>::clock_has_jumped() {
  constexpr Duration kJump = std::chrono::seconds(1);
  const Duration offset = system_wall_clock().now().time_since_epoch() - boottime_clock().now().time_since_epoch();
  Duration jump{};
  {
    MutexLock lock(mutex_);
    jump = offset - clock_offset_.value_or(offset);
    clock_offset_ = offset;
  }
  if (jump < kJump && jump > -kJump) return false;
  COHORT_LOG(kWarning, "chain", "the time of day has jumped; delays and deadlines given as a length do not",
             {"seconds", std::chrono::duration_cast<std::chrono::seconds>(jump).count()});
  return true;
}

// Others may have what this node had claimed: it stops, and comes back under another boot.
template <class Faults>
void ChainCore<Faults>::lose_lease(const char* why) {
  std::vector<RunRef> runs;
  KeptFiles kept;  // Folders are removed without the lock.
  {
    MutexLock lock(mutex_);
    if (!std::exchange(has_lease_, false)) return;
    ++counted_.lost_leases;
    for (const auto& [id, run] : runs_) runs.push_back(run);
    kept = std::exchange(kept_, {});
  }
  COHORT_LOG(kWarning, "chain", "the node has lost its lease; its running steps are stopped", {"node", boot()},
             {"error", why});
  for (const RunRef& run : runs) run->request_stop();
}

template <class Faults>
void ChainCore<Faults>::look_for_work() {
  const auto wake_all = [self = hold()](Result<std::vector<GroupWork>> work) {
    if (!work) return self->look_again_soon();
    for (const GroupWork& each : *work) {
      if (each.next_in && *each.next_in > Duration::zero()) {
        self->alarms_->set(each.group, saturating_add(self->now(), *each.next_in));
      } else {
        self->feeder_.wake(each.group);
      }
    }
  };
  store_.groups_with_work(wake_all);
}

// What nodes have left that let their lease run out.
template <class Faults>
void ChainCore<Faults>::take_over() {
  store_.take_over(boot(), false, [self = hold()](Result<std::vector<std::string>> groups) {
    if (!groups) return self->look_again_soon();  // It may have freed something all the same.
    for (const std::string& group : *groups) self->feeder_.wake(group);
  });
}

template <class Faults>
void ChainCore<Faults>::follow_commands() {
  std::uint64_t after = 0;
  {
    MutexLock lock(mutex_);
    after = commands_seen_;
  }
  store_.commands(after, 100, [self = hold()](Result<std::vector<Command>> commands) {
    if (!commands) return;
    for (const Command& each : *commands) {
      {
        MutexLock lock(self->mutex_);
        if (each.sequence <= self->commands_seen_) continue;
        self->commands_seen_ = each.sequence;
      }
      self->apply(each);
    }
  });
}

template <class Faults>
void ChainCore<Faults>::apply(const Command& command) {
  if (command.kind == "pause_group") {
    static_cast<void>(executor_.pause_group(command.target));
  } else if (command.kind == "resume_group") {
    static_cast<void>(executor_.resume_group(command.target));
    feeder_.wake(command.target);
  } else if (command.kind == "resize_group") {
    apply_resize(command);
    feeder_.wake(command.target);
  } else if (command.kind == "cancel") {
    if (!is_still_here(command.target)) return;
    // The row decides: by now it may have been cancelled, and replayed.
    store_.get(command.target, [self = hold(), id = command.target](const Result<ChainTask>& row) {
      if (row && row->cancel_requested && row->state == ChainState::kProcessing) self->stop_run(id);
    });
  } else {
    COHORT_LOG(kWarning, "chain", "a command of unknown kind: '" + command.kind + "'");
  }
}

template <class Faults>
void ChainCore<Faults>::forget_old_tasks() {
  constexpr std::uint32_t kAtOnce = 50;
  static constexpr Duration kPause = std::chrono::milliseconds(20);
  store_.remove_ended(options_.retention, kAtOnce, [self = hold()](Result<std::uint64_t> removed) {
    if (!removed || *removed != kAtOnce || !self->is_running()) return self->end_cleaning();
    // In small steps with pauses: other calls to the store are not to wait.
    const Time next = self->now() + kPause;
    self->executor_.call_at(next, [core = self->weak_from_this(), next] {
      const Self alive = core.lock();
      if (!alive) return;
      if (alive->now() < next || !alive->is_running()) return alive->end_cleaning();
      alive->forget_old_tasks();
    });
  });
}

template <class Faults>
void ChainCore<Faults>::drop_kept(Time now) {
  std::vector<LocalFile> dropped;
  MutexLock lock(mutex_);
  for (auto each = kept_.begin(); each != kept_.end();) {
    if (each->second.until > now) {
      ++each;
      continue;
    }
    dropped.push_back(std::move(each->second.file));
    each = kept_.erase(each);
  }
  lock.unlock();  // Folders are removed without it.
  dropped.clear();
  lock.lock();
}

// --- ends

template <class Faults>
TaskHandle<void> ChainCore<Faults>::drain(Duration grace) {
  Promise<void> promise(executor_, "drain");
  TaskHandle<void> handle = promise.handle();
  if (is_running()) {
    COHORT_LOG(kInfo, "chain", "draining: nothing new is started", {"node", boot()}, {"running", stats().running},
               {"grace", format_duration(grace)});
  }
  {
    MutexLock lock(mutex_);
    if (life_ != Life::kClosed) life_ = Life::kDraining;
    gives_up_at_ = saturating_add(saturating_add(now(), grace), kLastWrites);
    drained_.push_back(std::move(promise));
  }
  if (intake_) intake_->stop();
  feeder_.stop();
  executor_.call_at(saturating_add(now(), grace), [self = this->weak_from_this()] {
    const Self alive = self.lock();
    if (!alive) return;
    std::vector<RunRef> runs;
    {
      MutexLock lock(alive->mutex_);
      for (const auto& [id, run] : alive->runs_) runs.push_back(run);
    }
    for (const RunRef& run : runs) run->request_stop();
  });
  finish_draining();
  return handle;
}

// When the last ticket has ended and the last call is answered: what this boot still has (kept tasks) is free for
// others at once.
template <class Faults>
void ChainCore<Faults>::finish_draining() {
  std::vector<Promise<void>> drained;
  std::string boot;
  KeptFiles kept;
  {
    MutexLock lock(mutex_);
    if (tickets_ != 0 || calls_ != 0 || drained_.empty()) return;
    drained = std::exchange(drained_, {});
    if (std::exchange(has_lease_, false)) boot = boot_;
    life_ = Life::kClosed;
    kept = std::exchange(kept_, {});
  }
  if (alarms_) alarms_->stop();
  if (relay_) relay_->stop();
  if (boot.empty()) {
    for (Promise<void>& each : drained) each.settle({});
    return;
  }
  store_.leave(boot, [drained = std::move(drained)](Result<void>) mutable {
    COHORT_LOG(kInfo, "chain", "drained: nothing runs any more");
    for (Promise<void>& each : drained) each.settle({});
  });
}

template <class Faults>
void ChainCore<Faults>::close() {
  const TaskHandle<void> drained = drain(Duration::zero());
  gate_.close();
  static_cast<void>(drained.await());
}

// --- from outside

template <class Faults>
Result<void> ChainCore<Faults>::check_plugins(const NewTask& task) const {
  for (const ChainStep& each : task.steps) {
    const Plugin* plugin = plugins_.find(each.plugin);
    if (plugin == nullptr) {
      std::string known;
      for (const std::string& name : plugins_.names()) known += (known.empty() ? "" : ", ") + name;
      return Error{ErrorCode::kInvalid, "there is no plugin '" + each.plugin + "'; there are: " + known};
    }
    const nlohmann::json parameters = nlohmann::json::parse(each.parameters, nullptr, false);
    if (!parameters.is_object() || is_too_deep(parameters)) {
      return Error{ErrorCode::kInvalid,
                   "the parameters of a step of '" + each.plugin + "' must be a JSON object of at most 64 levels"};
    }
    try {
      if (auto good = plugin->check(parameters); !good) return good;
    } catch (const std::exception& thrown) {
      return Error{ErrorCode::kInvalid, "plugin '" + each.plugin + "' cannot use its parameters: " + thrown.what()};
    }
  }
  const nlohmann::json payload = nlohmann::json::parse(task.payload, nullptr, false);
  if (payload.is_discarded() || is_too_deep(payload)) {
    return Error{ErrorCode::kInvalid, "the payload of the task must be JSON of at most 64 levels"};
  }
  if (!task.file.empty() && !options_.fetch) {
    return Error{ErrorCode::kInvalid, "the task names a file, and this node fetches none"};
  }
  return {};
}

template <class Faults>
TaskHandle<std::vector<Result<Submitted>>> ChainCore<Faults>::submit_all(std::vector<NewTask> tasks) {
  using Answers = std::vector<Result<Submitted>>;
  return as_handle<Answers>("submit", [&](Completion<Answers> done) {
    Answers answers;
    std::vector<std::size_t> places;
    std::vector<NewTask> good;
    for (NewTask& task : tasks) {
      const Result<void> checked = check_plugins(task);
      answers.push_back(checked ? Result<Submitted>(Submitted()) : Result<Submitted>(checked.error()));
      if (!checked) continue;
      if (task.id.empty()) task.id = make_id();
      places.push_back(answers.size() - 1);
      good.push_back(std::move(task));
    }
    if (good.empty()) return done(std::move(answers));
    std::vector<std::string> groups;
    for (const NewTask& task : good) groups.push_back(task.group);
    store_.submit(std::move(good),
                  [self = hold(), places = std::move(places), groups = std::move(groups), answers = std::move(answers),
                   done = std::move(done)](Result<Answers> submitted) mutable {
                    if (!submitted) return done(submitted.error());
                    for (std::size_t i = 0; i < places.size(); ++i) {
                      const Result<Submitted>& each = (*submitted)[i];
                      if (each && each->state == ChainState::kReady && self->is_running())
                        self->feeder_.wake(groups[i]);
                      answers[places[i]] = each;
                    }
                    done(std::move(answers));
                  });
  });
}

template <class Faults>
TaskHandle<Submitted> ChainCore<Faults>::submit(NewTask task) {
  return as_handle<Submitted>("submit", [&](Completion<Submitted> done) {
    if (auto good = check_plugins(task); !good) return done(good.error());
    if (task.id.empty()) task.id = make_id();
    std::string group = task.group;
    std::vector<NewTask> one;
    one.push_back(std::move(task));
    store_.submit(std::move(one), [self = hold(), group = std::move(group),
                                   done = std::move(done)](Result<std::vector<Result<Submitted>>> submitted) mutable {
      if (!submitted) return done(submitted.error());
      Result<Submitted>& answer = submitted->front();
      if (answer && answer->state == ChainState::kReady && self->is_running()) self->feeder_.wake(group);
      done(std::move(answer));
    });
  });
}

template <class Faults>
TaskHandle<Written> ChainCore<Faults>::cancel(std::string task_id, std::string reason) {
  return as_handle<Written>("cancel", [&](Completion<Written> done) {
    store_.cancel(task_id, std::move(reason),
                  [self = hold(), task_id, done = std::move(done)](Result<Written> written) mutable {
                    if (!written || written->state != ChainState::kProcessing) return done(std::move(written));
                    self->stop_run(task_id);
                    self->store_.command(
                        {.kind = "cancel", .target = task_id},
                        [done = std::move(done), written](Result<std::uint64_t>) mutable { done(std::move(written)); });
                  });
  });
}

template <class Faults>
TaskHandle<ChainTask> ChainCore<Faults>::replay(ReplayRequest request) {
  return as_handle<ChainTask>("replay", [&](Completion<ChainTask> done) {
    store_.replay(std::move(request), [self = hold(), done = std::move(done)](Result<ChainTask> task) mutable {
      if (task && self->is_running()) self->feeder_.wake(task->request.group);
      done(std::move(task));
    });
  });
}

template <class Faults>
TaskHandle<ChainTask> ChainCore<Faults>::ready(std::string task_id) {
  return as_handle<ChainTask>("ready", [&](Completion<ChainTask> done) {
    store_.ready(std::move(task_id), [self = hold(), done = std::move(done)](Result<ChainTask> task) mutable {
      if (task && self->is_running()) self->feeder_.wake(task->request.group);
      done(std::move(task));
    });
  });
}

template <class Faults>
TaskHandle<void> ChainCore<Faults>::set_paused(std::string group, bool paused) {
  return as_handle<void>("pause", [&](Completion<void> done) {
    store_.pause_group(group, paused, [self = hold(), group, paused, done = std::move(done)](Result<void> set) mutable {
      if (!set) return done(std::move(set));
      COHORT_LOG(kInfo, "chain", paused ? "the group is paused" : "the group goes on", {"group", group});
      const Command command{.kind = paused ? "pause_group" : "resume_group", .target = group};
      self->apply(command);
      self->store_.command(command, [done = std::move(done)](Result<std::uint64_t> put) mutable {
        done(put ? Result<void>() : Result<void>(put.error()));
      });
    });
  });
}

// Written whole, so that the last one of a group is all that a node which starts later needs.
template <class Faults>
TaskHandle<void> ChainCore<Faults>::resize(std::string group, GroupLimits limits) {
  return as_handle<void>("resize", [&](Completion<void> done) {
    const auto stats = executor_.group_stats(group);
    const ResolvedLimits before = stats ? stats->limits : executor_.resolve(group);
    const nlohmann::json whole = {
        {"max_concurrency", std::uint32_t{limits.max_concurrency.value_or(before.max_concurrency)}},
        {"max_in_flight", std::uint32_t{limits.max_in_flight.value_or(before.max_in_flight)}},
        {"weight", limits.weight.value_or(before.weight)}};
    const Command command{.kind = "resize_group", .target = group, .arguments = whole.dump()};
    store_.command(command, [self = hold(), command, done = std::move(done)](Result<std::uint64_t> put) mutable {
      if (!put) return done(put.error());
      COHORT_LOG(kInfo, "chain", "the limits of the group were changed", {"group", command.target},
                 {"limits", command.arguments});
      self->apply(command);
      done({});
    });
  });
}

template <class Faults>
void ChainCore<Faults>::apply_resize(const Command& command) {
  const auto json = nlohmann::json::parse(command.arguments, nullptr, false);
  if (!json.is_object()) return;
  GroupLimits limits;
  if (const auto at = json.find("max_concurrency"); at != json.end() && at->is_number_unsigned()) {
    limits.max_concurrency = at->template get<std::uint32_t>();
  }
  if (const auto at = json.find("max_in_flight"); at != json.end() && at->is_number_unsigned()) {
    limits.max_in_flight = at->template get<std::uint32_t>();
  }
  if (const auto at = json.find("weight"); at != json.end() && at->is_number())
    limits.weight = at->template get<double>();
  static_cast<void>(executor_.set_limits(command.target, limits));
}

template <class Faults>
ChainStats ChainCore<Faults>::stats() const {
  MutexLock lock(mutex_);
  ChainStats stats = counted_;
  stats.boot = boot_;
  stats.has_lease = has_lease_;
  stats.draining = life_ == Life::kDraining;
  stats.running = static_cast<std::uint32_t>(runs_.size());
  stats.kept = static_cast<std::uint32_t>(kept_.size());
  return stats;
}

template <class Faults>
GateStatus ChainCore<Faults>::gate_status() const {
  GateStatus status{.alone = gate_.alone(), .suspects = gate_.suspects(), .is_clear = gate_.is_clear()};
  std::vector<RunRef> runs;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, run] : runs_) runs.push_back(run);
  }
  for (const RunRef& run : runs) {
    if (run->is_in_gate()) status.inside.push_back(run->claim.task_id);
  }
  return status;
}

}  // namespace cohort

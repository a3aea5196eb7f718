#pragma once

// Part of ChainCore: tickets. Claiming a task, running its steps, writing what became of them.
//
// The order that the promise rests on: an attempt is durable before its body begins, a step's body has ended before its
// checkpoint is sent, and nothing of the next step begins before that checkpoint is durable. A write that the store may
// or may not have taken is repeated under its number until that is known.
//
// In the gate is whoever has an attempt in the store that counts as running: from before it is written until its end
// is.

#include "chain/chain_core.h"

namespace cohort {

template <class Faults>
TaskHandle<void> ChainCore<Faults>::put_ticket(const std::string& group) {
  // With a time-out only so that each step can set its own.
  static constexpr SubmitOptions kOptions{.run_timeout = Duration::max()};
  return executor_.submit(
      group, "ticket",
      [self = this->shared_from_this(), group](std::stop_token stop) { return self->ticket(self, group, stop); },
      kOptions);
}

template <class Faults>
Task<> ChainCore<Faults>::ticket([[maybe_unused]] Self self, std::string group, std::stop_token stop) {
  struct TicketScope {
    ChainCore& core;
    const std::string& group;
    TicketScope(ChainCore& of, const std::string& in) : core(of), group(in) {
      MutexLock lock(core.mutex_);
      ++core.tickets_;
    }
    TicketScope(const TicketScope&) = delete;
    TicketScope& operator=(const TicketScope&) = delete;
    ~TicketScope() {
      core.feeder_.ended(group);
      {
        MutexLock lock(core.mutex_);
        --core.tickets_;
      }
      core.finish_draining();
    }
  };
  const TicketScope scope(*this, group);
  const std::uint64_t wakes = feeder_.started(group);
  ClaimRequest request;
  request.id = make_id();
  request.group = group;
  request.own_process_plugins = own_process_plugins_;
  request.poison_after = options_.poison_after;
  {
    MutexLock lock(mutex_);
    request.boot = boot_;
    if (const auto paused = paused_plugins_.find(group); paused != paused_plugins_.end()) {
      request.without_plugins.assign(paused->second.begin(), paused->second.end());
    }
  }
  if (!may_claim()) {
    feeder_.claimed(group, ClaimAnswer(), wakes);
    co_return;
  }
  TaskHandle<void> place = gate_.enter(false);
  if (place.valid()) co_await place;
  if (!may_claim()) {
    gate_.leave(false);
    feeder_.claimed(group, ClaimAnswer(), wakes);
    co_return;
  }
  TaskHandle<ClaimAnswer> asked = as_handle<ClaimAnswer>("claim", [&](Completion<ClaimAnswer> done) {
    claim_until_known(std::move(request), kFirstWait, std::move(done));
  });
  TaskResult<ClaimAnswer> claimed = co_await asked;
  ClaimAnswer answer;
  if (claimed.ok()) answer = *std::move(claimed.value);
  feeder_.claimed(group, answer, wakes);
  if (answer.next_in) alarms_->set(group, saturating_add(now(), *answer.next_in));
  if (!answer.task) {
    gate_.leave(false);
    co_return;
  }
  static_cast<void>(COHORT_FAILPOINT("chain.claimed"));
  RunRef run = std::make_shared<Run>(*std::move(answer.task));
  run->enter_gate(false);
  run->is_suspect = answer.suspect;
  if (answer.suspect) leave_gate(*run);
  if (is_still_here(run->task.id())) {
    run->delay = std::chrono::seconds(1);
    static_cast<void>(co_await give_back(run));
    alarms_->set(group, now() + run->delay);
    leave_gate(*run);
    co_return;
  }
  bool is_too_late = false;
  {
    MutexLock lock(mutex_);
    runs_[run->task.id()] = run;
    // Whoever stops all runs from here on finds it.
    is_too_late = life_ != Life::kRunning || !has_lease_ || boot_ != run->claim.boot;
    if (const auto kept = kept_.find(run->task.id()); kept != kept_.end()) {
      run->file = std::move(kept->second.file);
      kept_.erase(kept);
    }
  }
  if (is_too_late) run->request_stop();
  {
    const std::stop_callback on_stop(stop, [run] { run->request_stop(); });
    co_await this->run(run);
  }
  end_run(run);
}

template <class Faults>
Task<> ChainCore<Faults>::run(RunRef run) {
  for (;;) {
    if (!run->task.attempt_open) {
      const bool begun = co_await begin_attempt(run);
      if (!begun) break;
    }
    PluginResult result = co_await attempt(run);
    if (run->overran) {
      after_overrun(run);
      co_return;
    }
    bool goes_on = false;
    const bool is_done = result.kind() == PluginResult::Kind::kSuccess || result.kind() == PluginResult::Kind::kSkip;
    if (is_done) {
      goes_on = co_await after_success(run, std::move(result));
    } else if (run->stop_requested() || !is_running()) {
      goes_on = co_await give_back(run);  // It was asked to stop, so it is not to blame for how it did.
    } else if (result.kind() == PluginResult::Kind::kInterrupted) {
      goes_on = co_await after_interruption(run, std::move(result));
    } else if (result.kind() == PluginResult::Kind::kRetry) {
      goes_on = co_await after_retry(run, std::move(result));
    } else {
      goes_on = co_await fail(run, step_name(run->task) + " failed: " + result.reason());
    }
    if (!goes_on) break;
  }
  leave_gate(*run);
}

// False: the run is over.
template <class Faults>
Task<bool> ChainCore<Faults>::begin_attempt(RunRef run) {
  if (run->stop_requested() || !is_running()) {
    const bool goes_on = co_await give_back(run);
    co_return goes_on;
  }
  if (!run->is_in_gate()) {
    if (run->is_suspect) {
      COHORT_LOG(kWarning, "chain", "the step ran when two nodes died; it now runs alone", {"task", run->task.id()},
                 {"group", run->task.request.group}, {"step", run->task.step + 1});
    }
    TaskHandle<void> place = gate_.enter(run->is_suspect, run->task.id());
    if (place.valid()) co_await place;
    run->enter_gate(run->is_suspect);
    if (run->stop_requested() || !is_running()) {
      const bool goes_on = co_await give_back(run);
      co_return goes_on;
    }
  }
  RunnerWrite what = AttemptBegun{.alone = run->is_there_alone()};
  const Result<Written> written = co_await write(run, std::move(what));
  if (!written || is_final(written->state)) co_return false;
  ++run->task.attempt;
  run->task.attempt_open = true;
  co_return true;
}

template <class Faults>
Task<PluginResult> ChainCore<Faults>::attempt(RunRef run) {
  const ChainTask& task = run->task;
  const ChainStep& step = *task.current_step();
  Plugin* const plugin = plugins_.find(step.plugin);
  run->last_ran = Duration::zero();
  if (run->stop_requested()) co_return PluginResult::retry("it was asked to stop before it began");
  if (plugin == nullptr) co_return PluginResult::failure("this node has no plugin '" + step.plugin + "'");
  const Duration left = options_.chain_limit - task.ran;
  if (left <= Duration::zero()) co_return PluginResult::failure("the chain has run for as long as it may");
  if constexpr (Faults::kCheckpointBeforeStep) {
    RunnerWrite early = Checkpoint{.step = task.step, .context = task.context};
    static_cast<void>(co_await write(run, std::move(early)));
  }

  COHORT_LOG(kDebug, "chain", "the step starts", {"task", task.id()}, {"group", task.request.group},
             {"step", task.step + 1}, {"attempt", task.attempt}, {"node", task.owner}, {"plugin", step.plugin});
  const Time began = now();
  const Time until = saturating_add(began, std::min(left, step.timeout.value_or(options_.step_timeout)));
  std::optional<PluginResult> result;
  std::exception_ptr thrown;
  std::stop_token stop = run->stop_token();
  executor_.limit_current_task(until);
  run->begin_body(until);
  try {
    if (!task.request.file.empty()) {
      const Result<void> fetched =
          run->file.fetch(options_.fetch, work_folder_.path(), task.id(), task.request.file, stop);
      if (!fetched) {
        const std::string reason = "its file could not be fetched: " + fetched.error().message;
        const bool lacks_means = fetched.error().code == ErrorCode::kRejected;
        result = lacks_means                   ? PluginResult::interrupted(reason)
                 : fetched.error().retryable() ? PluginResult::retry(reason)
                                               : PluginResult::failure(reason);
      }
    }
    if (!result) {
      const auto context = std::make_shared<StepContext>(task, run->file.path(), stop, work_folder_.path());
      run->set_step(context);
      PluginResult given = co_await plugin->run_async(*context);
      result.emplace(std::move(given));
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool in_time = executor_.limit_current_task(std::nullopt);
  send_report(*run);
  run->overran = !in_time;
  run->ignored_its_stop = now() > until + plugin->time_to_stop();
  run->last_ran = now() - began;
  run->was_abandoned = run->end_body();
  static_cast<void>(COHORT_FAILPOINT("chain.step_done"));
  if (thrown) co_return result_of_exception(thrown);
  co_return *std::move(result);
}

template <class Faults>
Task<bool> ChainCore<Faults>::after_success(RunRef run, PluginResult result) {
  ChainTask& task = run->task;
  Result<std::string> context = merged_context(task, result);
  if (!context) {
    const bool goes_on = co_await fail(run, context.error().message);
    co_return goes_on;
  }
  if (result.kind() == PluginResult::Kind::kSkip) {
    COHORT_LOG(kDebug, "chain", "the step is skipped", {"task", task.id()}, {"group", task.request.group},
               {"step", task.step + 1}, {"attempt", task.attempt}, {"node", task.owner},
               {"reason", without_secrets(result.reason())});
  }
  const bool is_last = task.step + 1 == task.request.steps.size();
  const bool stops = run->stop_requested() || !is_running();
  const bool begins_next = !is_last && !stops && !run->is_there_alone() && gate_.is_clear();
  if constexpr (!Faults::kCheckpointBeforeStep) {
    RunnerWrite what = Checkpoint{.step = task.step,
                                  .context = *context,
                                  .ran = run->last_ran,
                                  .skipped = result.kind() == PluginResult::Kind::kSkip ? result.reason() : "",
                                  .begin_next = begins_next};
    const Result<Written> written = co_await write(run, std::move(what));
    if (written && written->state == ChainState::kCompleted) count(&ChainStats::completed);
    if (!written || is_final(written->state)) co_return false;
  } else if (is_last) {
    co_return false;
  }
  static_cast<void>(COHORT_FAILPOINT("chain.checkpointed"));
  task.context = *std::move(context);
  task.ran += std::exchange(run->last_ran, {});
  ++task.step;
  task.attempt = begins_next ? 1 : 0;
  task.failures = 0;
  task.crashes.clear();
  task.attempt_open = begins_next;
  run->is_suspect = false;
  if (!begins_next) leave_gate(*run);
  if (!stops) co_return true;
  const bool goes_on = co_await give_back(run);
  co_return goes_on;
}

// The step is not to blame: its task waits a moment, and no retry is used up.
template <class Faults>
Task<bool> ChainCore<Faults>::after_interruption(RunRef run, PluginResult result) {
  const Duration delay = std::max(result.after().value_or(std::chrono::seconds(1)), kFirstWait);
  COHORT_LOG(kWarning, "chain", "the step was interrupted and waits", {"task", run->task.id()},
             {"group", run->task.request.group}, {"step", run->task.step + 1}, {"attempt", run->task.attempt},
             {"node", run->claim.boot}, {"error", without_secrets(result.reason())});
  RunnerWrite what = AttemptEnded{.error = result.reason(),
                                  .ran = std::exchange(run->last_ran, {}),
                                  .failed = false,
                                  .give_back = true,
                                  .delay = delay};
  const Result<Written> written = co_await write(run, std::move(what));
  if (written) alarms_->set(run->task.request.group, saturating_add(now(), delay));
  co_return false;
}

template <class Faults>
Task<bool> ChainCore<Faults>::after_retry(RunRef run, PluginResult result) {
  ChainTask& task = run->task;
  const std::optional<Duration> delay = delay_of_retry(*run, result.after());
  if (!delay) {
    const bool goes_on = co_await fail(
        run, step_name(task) + " failed " + std::to_string(task.failures + 1) + " times, the last: " + result.reason());
    co_return goes_on;
  }
  const bool stays = *delay <= options_.longest_wait_in_place;
  const bool keeps = !stays && may_keep(*delay);
  RunnerWrite what = AttemptEnded{.error = result.reason(),
                                  .ran = run->last_ran,
                                  .give_back = !stays,
                                  .delay = *delay,
                                  .keep = keeps ? options_.keep : Duration::zero()};
  const Result<Written> written = co_await write(run, std::move(what));
  leave_gate(*run);
  if (!written || is_final(written->state)) co_return false;
  count(&ChainStats::retried);
  COHORT_LOG(kDebug, "chain", "the step is tried again", {"task", task.id()}, {"group", task.request.group},
             {"step", task.step + 1}, {"attempt", task.attempt}, {"node", task.owner}, {"in", format_duration(*delay)},
             {"error", without_secrets(result.reason())});
  task.ran += std::exchange(run->last_ran, {});
  ++task.failures;
  task.attempt_open = false;
  if (stays) {
    co_await sleep_for(*delay);
    co_return true;
  }
  if (keeps) {
    MutexLock lock(mutex_);
    kept_[task.id()] = {std::move(run->file), saturating_add(now(), options_.keep)};
  }
  alarms_->set(task.request.group, saturating_add(now(), *delay));
  co_return false;
}

/// When the next attempt may begin; nothing: that was the last.
template <class Faults>
std::optional<Duration> ChainCore<Faults>::delay_of_retry(const Run& run, std::optional<Duration> after) {
  MutexLock lock(mutex_);
  const std::optional<Duration> wait = policy_of(run.task).wait_after(run.task.failures + 1, random_);
  return wait && after ? std::max(*after, Duration::zero()) : wait;
}

template <class Faults>
bool ChainCore<Faults>::may_keep(Duration delay) const {
  MutexLock lock(mutex_);
  return delay < options_.keep && kept_.size() < std::size_t{4} * options_.concurrency;
}

template <class Faults>
Task<bool> ChainCore<Faults>::fail(RunRef run, std::string reason) {
  RunnerWrite what = ChainFailed{.reason = std::move(reason), .ran = run->last_ran};
  const Result<Written> written = co_await write(run, std::move(what));
  if (written && written->state == ChainState::kFailed) count(&ChainStats::failed);
  co_return false;
}

// Somebody else goes on with it, or this node later. Nothing counts as failed.
template <class Faults>
Task<bool> ChainCore<Faults>::give_back(RunRef run) {
  RunnerWrite what =
      AttemptEnded{.ran = std::exchange(run->last_ran, {}), .failed = false, .give_back = true, .delay = run->delay};
  const Result<Written> written = co_await write(run, std::move(what));
  if (written && written->state == ChainState::kReady && is_running()) feeder_.wake(run->task.request.group);
  co_return false;
}

template <class Faults>
Task<Result<Written>> ChainCore<Faults>::write(RunRef run, RunnerWrite what) {
  const std::uint64_t number = ++run->writes;
  TaskHandle<Written> asked = as_handle<Written>("write", [&](Completion<Written> done) {
    write_until_known(run, number, std::move(what), kFirstWait, std::move(done));
  });
  TaskResult<Written> answer = co_await asked;
  if (answer.ok()) co_return *answer.value;
  co_return *answer.error;
}

template <class Faults>
Result<std::string> ChainCore<Faults>::merged_context(const ChainTask& task, const PluginResult& result) const {
  if (!result.outputs().is_object() && !result.outputs().is_null()) {
    return Error{ErrorCode::kInvalid, step_name(task) + " put out something that is not an object"};
  }
  if (result.outputs().contains("artifacts")) {
    return Error{ErrorCode::kInvalid,
                 step_name(task) + " put out 'artifacts', a name that is for files that outlive a step"};
  }
  if (result.outputs().empty() && result.artifacts().empty()) return task.context;
  if (is_too_deep(result.outputs())) {
    return Error{ErrorCode::kInvalid, step_name(task) + " put out JSON of more than 64 levels"};
  }
  nlohmann::json context = nlohmann::json::parse(task.context, nullptr, false);
  if (!context.is_object()) context = nlohmann::json::object();
  nlohmann::json artifacts = context.value("artifacts", nlohmann::json::array());
  if (!result.outputs().is_null()) context.update(result.outputs());
  if (!result.artifacts().empty()) {
    if (!artifacts.is_array()) artifacts = nlohmann::json::array();
    for (const Artifact& each : result.artifacts()) {
      artifacts.push_back(
          {{"step", task.step + 1}, {"name", each.name}, {"path", each.path.string()}, {"bytes", each.bytes}});
    }
    context["artifacts"] = std::move(artifacts);
  }
  std::string text = context.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() <= NewTask::kMaxContextBytes) return text;
  return Error{ErrorCode::kInvalid, "with what " + step_name(task) + " put out the context has " +
                                        std::to_string(text.size()) + " bytes; at most " +
                                        std::to_string(NewTask::kMaxContextBytes) + " are allowed"};
}

// --- bodies that did not end in time

// The ticket has no permits any more and cannot await: what is left to do is done by completions.
template <class Faults>
void ChainCore<Faults>::after_overrun(const RunRef& run) {
  if (run->was_abandoned) return leave_gate(*run);
  const std::string reason = step_name(run->task) + " did not end in time";
  const std::optional<Duration> delay = delay_of_retry(*run, std::nullopt);
  RunnerWrite what = ChainFailed{.reason = reason, .ran = run->last_ran, .overran = run->ignored_its_stop};
  if (delay) {
    what = AttemptEnded{
        .error = reason, .ran = run->last_ran, .overran = run->ignored_its_stop, .give_back = true, .delay = *delay};
  }
  write_until_known(run, ++run->writes, std::move(what), kFirstWait,
                    [self = hold(), run, delay](const Result<Written>& written) {
                      self->leave_gate(*run);
                      if (written) self->count(delay ? &ChainStats::retried : &ChainStats::failed);
                      const Duration wait = delay.value_or(Duration::zero());
                      self->alarms_->set(run->task.request.group, saturating_add(self->now(), wait));
                    });
}

// The grace is over: the task fails without its body, and the plugin is not asked for this tenant until it has ended.
template <class Faults>
void ChainCore<Faults>::fail_overrunning(const RunRef& run) {
  std::string plugin;
  const std::string name = step_name(run->task);
  {
    MutexLock lock(mutex_);  // Both in one, so that the end of the run finds what it has to undo.
    if (!run->abandon_after(now() - options_.overrun_grace)) return;
    plugin = run->task.current_step()->plugin;
    paused_plugins_[run->task.request.group].insert(plugin);
  }
  leave_gate(*run);  // Nobody else waits for it.
  count(&ChainStats::failed);
  COHORT_LOG(kError, "chain", "the step has not ended long after its time-out; its plugin is paused for the group",
             {"task", run->task.id()}, {"group", run->task.request.group}, {"step", run->task.step + 1},
             {"attempt", run->task.attempt}, {"node", run->claim.boot}, {"plugin", plugin});
  RunnerWrite what = ChainFailed{.reason = name + " did not end, long after its time-out", .overran = true};
  write_until_known(run, ++run->writes, std::move(what), kFirstWait, [](const Result<Written>&) {});
}

template <class Faults>
void ChainCore<Faults>::end_run(const RunRef& run) {
  bool was_paused = false;
  {
    MutexLock lock(mutex_);
    const auto found = runs_.find(run->task.id());
    if (found != runs_.end() && found->second == run) runs_.erase(found);
    if (run->was_abandoned) {
      const auto paused = paused_plugins_.find(run->task.request.group);
      const auto place = paused->second.find(run->task.current_step()->plugin);
      COHORT_ASSERT(place != paused->second.end(), "whoever abandons a run pauses its plugin");
      paused->second.erase(place);
      if (paused->second.empty()) paused_plugins_.erase(paused);
      was_paused = true;
    }
  }
  if (was_paused) feeder_.wake(run->task.request.group);
}

// --- calls that are repeated until their outcome is known

template <class Faults>
void ChainCore<Faults>::write_until_known(RunRef run, std::uint64_t number, RunnerWrite what, Duration wait,
                                          Completion<Written> done) {
  RunnerWrite copy = what;
  const Claim claim = run->claim;
  store_.write(claim, number, std::move(copy),
               [self = hold(), run = std::move(run), number, what = std::move(what), wait,
                done = std::move(done)](Result<Written> written) mutable {
                 if (written || !self->is_worth_repeating(written.error(), run->claim.boot))
                   return done(std::move(written));
                 self->repeat(wait, [self, run = std::move(run), number, what = std::move(what), wait,
                                     done = std::move(done)]() mutable {
                   self->write_until_known(std::move(run), number, std::move(what), std::min(2 * wait, kLongestWait),
                                           std::move(done));
                 });
               });
}

template <class Faults>
void ChainCore<Faults>::claim_until_known(ClaimRequest request, Duration wait, Completion<ClaimAnswer> done) {
  ClaimRequest copy = request;
  store_.claim(std::move(copy), [self = hold(), request = std::move(request), wait,
                                 done = std::move(done)](Result<ClaimAnswer> answer) mutable {
    if (answer || !self->is_worth_repeating(answer.error(), request.boot)) return done(std::move(answer));
    self->repeat(wait, [self, request = std::move(request), wait, done = std::move(done)]() mutable {
      self->claim_until_known(std::move(request), std::min(2 * wait, kLongestWait), std::move(done));
    });
  });
}

template <class Faults>
void ChainCore<Faults>::send_report(Run& run) {
  std::optional<StepContext::Report> report = run.take_report();
  if (!report) return;
  store_.write(
      run.claim, 0,
      StepReport{.progress = report->progress, .note = std::move(report->note), .log = std::move(report->lines)},
      [](const Result<Written>&) {});
}

template <class Faults>
void ChainCore<Faults>::leave_gate(Run& run) {
  if (const std::optional<bool> was_alone = run.take_out_of_gate()) gate_.leave(*was_alone);
}

}  // namespace cohort

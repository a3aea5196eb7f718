#pragma once

// Part of ChainRunner: the steps of a claimed task, and what is written of them.

#include "chain/chain_runner.h"

namespace cohort {

template <class Faults>
Task<> ChainRunner<Faults>::run(RunRef run) {
  for (;;) {
    if (!run->task.attempt_open) {
      const bool begun = co_await begin_attempt(run);
      if (!begun) break;
    }
    std::optional<ChainRow> early;
    if (Faults::kCheckpointBeforeStep) {
      const std::uint64_t number = ++run->writes;
      TaskHandle<ChainRow> asked = as_handle<ChainRow>(executor_, "early", [&](Completion<ChainRow> done) {
        sure_.write(run->claim, number, Checkpoint{.step = run->task.step, .context = run->task.context},
                    std::move(done));
      });
      TaskResult<ChainRow> answer = co_await asked;
      if (answer.ok()) early = *std::move(answer.value);
    }
    PluginResult result = co_await attempt(run);
    if (run->overran) {
      after_overrun(run);
      co_return;
    }
    if (early) {
      run->task.set_row(*std::move(early));
      if (is_final(run->task.state)) break;
      continue;
    }
    const bool goes_on = co_await after_attempt(run, std::move(result));
    if (!goes_on) break;
  }
  leave_gate(*run);
}

// False: the run is over. So it is with the calls below that answer with a bool.
template <class Faults>
Task<bool> ChainRunner<Faults>::after_attempt(RunRef run, PluginResult result) {
  using Kind = PluginResult::Kind;
  if (result.kind() == Kind::kSuccess || result.kind() == Kind::kSkip) {
    const bool goes_on = co_await after_success(run, std::move(result));
    co_return goes_on;
  }
  if (is_stopping(*run)) {  // It was asked to stop, so it is not to blame for its result.
    const bool goes_on = co_await give_back(run);
    co_return goes_on;
  }
  if (result.kind() == Kind::kInterrupted) {
    const bool goes_on = co_await after_interruption(run, std::move(result));
    co_return goes_on;
  }
  if (result.kind() == Kind::kRetry) {
    const bool goes_on = co_await after_retry(run, std::move(result));
    co_return goes_on;
  }
  const bool goes_on = co_await fail(run, step_name(run->task) + " failed: " + result.reason());
  co_return goes_on;
}

template <class Faults>
Task<bool> ChainRunner<Faults>::begin_attempt(RunRef run) {
  if (is_stopping(*run)) {
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
    if (is_stopping(*run)) {
      const bool goes_on = co_await give_back(run);
      co_return goes_on;
    }
  }
  RunnerWrite what = AttemptBegun{.alone = run->is_there_alone()};
  const bool goes_on = co_await write(run, std::move(what));
  co_return goes_on;
}

template <class Faults>
Task<PluginResult> ChainRunner<Faults>::attempt(RunRef run) {
  const ChainTask& task = run->task;
  const ChainStep& step = *task.current_step();
  Plugin* const plugin = plugins_.find(step.plugin);
  run->last_ran = Duration::zero();
  if (run->stop_requested()) co_return PluginResult::retry("it was asked to stop before it began");
  if (plugin == nullptr) co_return PluginResult::failure("this node has no plugin '" + step.plugin + "'");
  const Duration left = options_.chain_limit - task.ran;
  if (left <= Duration::zero()) co_return PluginResult::failure("the chain has run for as long as it may");
  COHORT_LOG(kDebug, "chain", "the step starts", {"task", task.id()}, {"group", task.request.group},
             {"step", task.step + 1}, {"attempt", task.attempt}, {"node", task.owner}, {"plugin", step.plugin});
  const Time began = now();
  const Time until = saturating_add(began, std::min(left, step.timeout.value_or(options_.step_timeout)));
  std::optional<PluginResult> result;
  std::exception_ptr thrown;
  executor_.limit_current_task(until);
  run->begin_body(until);
  try {
    PluginResult given = co_await run_body(run);
    result.emplace(std::move(given));
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

// User code: may throw.
template <class Faults>
Task<PluginResult> ChainRunner<Faults>::run_body(RunRef run) {
  const ChainTask& task = run->task;
  std::stop_token stop = run->stop_token();
  if (!task.request.file.empty()) {
    const Result<void> fetched =
        run->file.fetch(options_.fetch, work_folder_.path(), task.id(), task.request.file, stop);
    if (!fetched) {
      const std::string reason = "its file could not be fetched: " + fetched.error().message;
      const bool lacks_means = fetched.error().code == ErrorCode::kRejected;
      co_return lacks_means         ? PluginResult::interrupted(reason)
      : fetched.error().retryable() ? PluginResult::retry(reason)
                                    : PluginResult::failure(reason);
    }
  }
  const auto context = std::make_shared<StepContext>(task, run->file.path(), stop, work_folder_.path());
  run->set_step(context);
  PluginResult given = co_await plugins_.find(task.current_step()->plugin)->run_async(*context);
  co_return given;
}

template <class Faults>
Task<bool> ChainRunner<Faults>::after_success(RunRef run, PluginResult result) {
  const ChainTask& task = run->task;
  Result<std::string> context = merged_context(task, result);
  if (!context) {
    const bool goes_on = co_await fail(run, context.error().message);
    co_return goes_on;
  }
  const bool is_skipped = result.kind() == PluginResult::Kind::kSkip;
  if (is_skipped) {
    COHORT_LOG(kDebug, "chain", "the step is skipped", {"task", task.id()}, {"group", task.request.group},
               {"step", task.step + 1}, {"attempt", task.attempt}, {"node", task.owner},
               {"reason", without_secrets(result.reason())});
  }
  const bool is_last = task.step + 1 == task.request.steps.size();
  const bool stops = is_stopping(*run);
  const bool begins_next = !is_last && !stops && !run->is_there_alone() && gate_.is_clear();
  RunnerWrite what = Checkpoint{.step = task.step,
                                .context = *std::move(context),
                                .ran = std::exchange(run->last_ran, {}),
                                .skipped = is_skipped ? result.reason() : "",
                                .begin_next = begins_next};
  const bool is_written = co_await write(run, std::move(what));
  if (task.state == ChainState::kCompleted) count(&ChainStats::completed);
  if (!is_written) co_return false;
  static_cast<void>(COHORT_FAILPOINT("chain.checkpointed"));
  run->is_suspect = false;
  if (!task.attempt_open) leave_gate(*run);
  if (!stops) co_return true;
  const bool goes_on = co_await give_back(run);
  co_return goes_on;
}

// The step is not to blame: its task waits a moment, and no retry is used up.
template <class Faults>
Task<bool> ChainRunner<Faults>::after_interruption(RunRef run, PluginResult result) {
  static constexpr Duration kShortest = std::chrono::milliseconds(20);
  const Duration delay = std::max(result.after().value_or(std::chrono::seconds(1)), kShortest);
  COHORT_LOG(kWarning, "chain", "the step was interrupted and waits", {"task", run->task.id()},
             {"group", run->task.request.group}, {"step", run->task.step + 1}, {"attempt", run->task.attempt},
             {"node", run->claim.boot}, {"error", without_secrets(result.reason())});
  RunnerWrite what = AttemptEnded{.error = result.reason(),
                                  .ran = std::exchange(run->last_ran, {}),
                                  .failed = false,
                                  .give_back = true,
                                  .delay = delay};
  static_cast<void>(co_await write(run, std::move(what)));
  co_return false;
}

template <class Faults>
Task<bool> ChainRunner<Faults>::after_retry(RunRef run, PluginResult result) {
  const ChainTask& task = run->task;
  const std::optional<Duration> delay = delay_of_retry(*run, result.after());
  if (!delay) {
    const bool goes_on = co_await fail(
        run, step_name(task) + " failed " + std::to_string(task.failures + 1) + " times, the last: " + result.reason());
    co_return goes_on;
  }
  const bool stays = *delay <= options_.longest_wait_in_place;
  const bool keeps = !stays && may_keep(*delay);
  if (keeps) runs_.keep(task.id(), std::move(run->file), saturating_add(now(), options_.keep));
  RunnerWrite what = AttemptEnded{.error = result.reason(),
                                  .ran = std::exchange(run->last_ran, {}),
                                  .give_back = !stays,
                                  .delay = *delay,
                                  .keep = keeps ? options_.keep : Duration::zero()};
  const bool is_written = co_await write(run, std::move(what));
  leave_gate(*run);
  if (!is_written && task.state != ChainState::kReady) co_return false;
  count(&ChainStats::retried);
  COHORT_LOG(kDebug, "chain", "the step is tried again", {"task", task.id()}, {"group", task.request.group},
             {"step", task.step + 1}, {"attempt", task.attempt}, {"node", run->claim.boot},
             {"in", format_duration(*delay)}, {"error", without_secrets(result.reason())});
  if (stays) co_await sleep_for(*delay);
  co_return stays;
}

/// When the next attempt may begin; nothing: that was the last.
template <class Faults>
std::optional<Duration> ChainRunner<Faults>::delay_of_retry(const Run& run, std::optional<Duration> after) {
  const RetryPolicy policy = run.task.current_step()->retry.value_or(options_.retry);
  const std::optional<Duration> wait = random_.wait_after(policy, run.task.failures + 1);
  return wait && after ? std::max(*after, Duration::zero()) : wait;
}

template <class Faults>
Task<bool> ChainRunner<Faults>::fail(RunRef run, std::string reason) {
  RunnerWrite what = ChainFailed{.reason = std::move(reason), .ran = run->last_ran};
  static_cast<void>(co_await write(run, std::move(what)));
  if (run->task.state == ChainState::kFailed) count(&ChainStats::failed);
  co_return false;
}

// Another node goes on with it, or this one later. Nothing counts as failed.
template <class Faults>
Task<bool> ChainRunner<Faults>::give_back(RunRef run) {
  RunnerWrite what =
      AttemptEnded{.ran = std::exchange(run->last_ran, {}), .failed = false, .give_back = true, .delay = run->delay};
  static_cast<void>(co_await write(run, std::move(what)));
  co_return false;
}

// The one place where the row of a run changes. True: the task is still this run's to go on with.
template <class Faults>
Task<bool> ChainRunner<Faults>::write(RunRef run, RunnerWrite what) {
  const std::uint64_t number = ++run->writes;
  TaskHandle<ChainRow> asked = as_handle<ChainRow>(executor_, "write", [&](Completion<ChainRow> done) {
    sure_.write(run->claim, number, std::move(what), std::move(done));
  });
  TaskResult<ChainRow> answer = co_await asked;
  if (!answer.ok()) co_return false;
  run->task.set_row(*std::move(answer.value));
  co_return run->task.state == ChainState::kProcessing;
}

template <class Faults>
void ChainRunner<Faults>::send_report(Run& run) {
  std::optional<StepContext::Report> report = run.take_report();
  if (!report) return;
  store_.write(
      run.claim, 0,
      StepReport{.progress = report->progress, .note = std::move(report->note), .log = std::move(report->lines)},
      [](const Result<ChainRow>&) {});
}

// --- bodies that did not end in time

// The ticket has no permits any more and cannot await: what is left to do is done by completions.
template <class Faults>
void ChainRunner<Faults>::after_overrun(const RunRef& run) {
  if (run->was_abandoned) return leave_gate(*run);
  const std::string reason = step_name(run->task) + " did not end in time";
  const std::optional<Duration> delay = delay_of_retry(*run, std::nullopt);
  RunnerWrite what = ChainFailed{.reason = reason, .ran = run->last_ran, .overran = run->ignored_its_stop};
  if (delay) {
    what = AttemptEnded{
        .error = reason, .ran = run->last_ran, .overran = run->ignored_its_stop, .give_back = true, .delay = *delay};
  }
  sure_.write(run->claim, ++run->writes, std::move(what),
              [this, hold = calls_.hold(), run, is_retried = delay.has_value()](const Result<ChainRow>& row) {
                leave_gate(*run);
                if (row) count(is_retried ? &ChainStats::retried : &ChainStats::failed);
              });
}

// The grace is over: the task fails without its body, and the plugin is not asked for this group until that has ended.
template <class Faults>
void ChainRunner<Faults>::fail_overrunning(const RunRef& run) {
  if (!runs_.abandon(run, now() - options_.overrun_grace)) return;
  leave_gate(*run);  // No other step waits for it.
  count(&ChainStats::failed);
  COHORT_LOG(kError, "chain", "the step has not ended long after its time-out; its plugin is paused for the group",
             {"task", run->task.id()}, {"group", run->task.request.group}, {"step", run->task.step + 1},
             {"attempt", run->task.attempt}, {"node", run->claim.boot}, {"plugin", run->task.current_step()->plugin});
  RunnerWrite what =
      ChainFailed{.reason = step_name(run->task) + " did not end, long after its time-out", .overran = true};
  sure_.write(run->claim, ++run->writes, std::move(what), [](const Result<ChainRow>&) {});
}

}  // namespace cohort

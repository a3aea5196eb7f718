#include "store/chain_rules.h"

#include <algorithm>
#include <utility>

#include "cohort/base/utf8.h"

namespace cohort::chain_rules {

namespace {

constexpr const char* kOverrun = "overrun";
constexpr const char* kPoisonous = "its node died twice while this step ran, and then while it ran alone";
// How long a boot that seems dead has to be heard of again before its suspect is convicted.
constexpr Duration kVerdictAfter = std::chrono::minutes(1);

void tell(ChainTask& task, EventKind kind, std::string detail, StoreTime now, Effects& effects) {
  effects.events.push_back({.ordinal = ++task.events_made,
                            .at = now.wall,
                            .kind = kind,
                            .task_id = task.id(),
                            .group = task.request.group,
                            .step = task.step,
                            .detail = std::move(detail)});
}

void reset_step(ChainTask& task) {
  task.attempt = task.failures = 0;
  task.crashes.clear();
  task.died_alone_with.clear();
  task.suspect = false;
  task.progress = 0;
  task.progress_note.clear();
}

// What plugins, messages and people say may be any bytes, of any length. This is where they become text that every
// store can keep.
std::string clipped(const std::string& text) {
  constexpr std::size_t kMost = 4096;
  return plain_utf8(text, kMost) + (text.size() > kMost ? "…" : "");
}

void clean(std::string& text) {
  if (!is_plain_utf8(text)) text = plain_utf8(text);
}

// Closes the open attempt, if there is one, and records it.
void close_attempt(ChainTask& task, std::string_view outcome, const std::string& error, StoreTime now,
                   Effects& effects) {
  if (!task.attempt_open) return;
  task.attempt_open = task.alone = false;
  const std::size_t lines = std::min<std::size_t>({task.attempt_lines, task.log.size(), kMaxAttemptLogLines});
  effects.attempts.push_back({.number = ++task.attempts_made,
                              .step = task.step,
                              .attempt = task.attempt,
                              .plugin = task.current_step() != nullptr ? task.current_step()->plugin : "",
                              .node = task.owner,
                              .began_at = task.attempt_began_at.value_or(now.wall),
                              .ended_at = now.wall,
                              .outcome = std::string(outcome),
                              .error = clipped(error),
                              .log = {task.log.end() - static_cast<std::ptrdiff_t>(lines), task.log.end()}});
  task.attempt_began_at.reset();
}

void end_attempt(ChainTask& task, Duration ran, std::string_view outcome, const std::string& error, StoreTime now,
                 Effects& effects) {
  task.ran += ran;
  if (task.alone) effects.held += ran;
  close_attempt(task, outcome, error, now, effects);
  task.attempt_open = task.alone = false;
}

void set_delay(ChainTask& task, Duration delay, StoreTime now) {
  task.due_at = saturating_add(now.steady, delay);
  task.due_after = delay;
}

void end(ChainTask& task, ChainState state, const std::string& said, StoreTime now, Effects& effects) {
  const std::string detail = clipped(said);
  close_attempt(task, to_string(state), detail, now, effects);
  task.state = state;
  task.ended_at = now.wall;
  task.due_at.reset();
  task.due_after.reset();
  task.kept_until.reset();
  if (state == ChainState::kCompleted) task.error.clear();
  tell(task, end_event_of(state), detail, now, effects);
  if (!has_dead_letter(state)) return;
  task.error = detail;
  effects.dead_letter = DeadLetter{.task_id = task.id(),
                                   .group = task.request.group,
                                   .message_id = task.message_id,
                                   .state = state,
                                   .reason = detail,
                                   .plugin = task.current_step() != nullptr ? task.current_step()->plugin : "",
                                   .step = task.step,
                                   .attempts = task.attempt,
                                   .failed_at = now.wall,
                                   .node = task.owner,
                                   .progress = task.progress,
                                   .log = task.log};
}

void begin_attempt(ChainTask& task, bool alone, StoreTime now) {
  ++task.attempt;
  task.attempt_open = true;
  task.attempt_began_at = now.wall;
  task.attempt_lines = 0;
  task.alone = alone;
}

void make_ready(ChainTask& task) {
  task.state = ChainState::kReady;
  task.owner.clear();
  task.kept_until.reset();
}

// The rest of write(): the claim is good. Each gives nothing; the row says what became of it.
class Apply {
 public:
  Apply(ChainTask& task, StoreTime now, Duration held, Effects& effects)
      : task_(task), now_(now), held_(held), effects_(effects) {}

  void operator()(const AttemptBegun& begun) {
    if (may_not_go_on()) return;
    begin_attempt(task_, begun.alone, now_);
  }

  void operator()(const AttemptEnded& ended) {
    end_attempt(task_, ended.ran,
                ended.overran  ? "overran"
                : ended.failed ? "retried"
                               : "interrupted",
                ended.error, now_, effects_);
    if (ended.failed) ++task_.failures;
    if (ended.overran) task_.crashes.emplace_back(kOverrun);
    if (task_.cancel_requested) return end(task_, ChainState::kCancelled, task_.error, now_, effects_);
    if (!ended.error.empty()) task_.error = clipped(ended.error);
    if (!ended.give_back) return;
    const std::string owner = task_.owner;
    make_ready(task_);
    if (ended.delay > Duration::zero()) set_delay(task_, ended.delay, now_);
    if (ended.keep <= Duration::zero()) return;
    task_.owner = owner;
    task_.kept_until = saturating_add(now_.steady, ended.keep);
  }

  void operator()(const Checkpoint& checkpoint) {
    end_attempt(task_, checkpoint.ran, checkpoint.skipped.empty() ? "succeeded" : "skipped", checkpoint.skipped, now_,
                effects_);
    task_.context = checkpoint.context;
    clean(task_.context);
    reset_step(task_);
    ++task_.step;
    if (task_.current_step() == nullptr) return end(task_, ChainState::kCompleted, checkpoint.skipped, now_, effects_);
    tell(task_, EventKind::kStepCompleted, clipped(checkpoint.skipped), now_, effects_);
    if (may_not_go_on()) return;
    if (checkpoint.begin_next) begin_attempt(task_, false, now_);
  }

  void operator()(const ChainFailed& failed) {
    end_attempt(task_, failed.ran, failed.overran ? "overran" : "failed", failed.reason, now_, effects_);
    if (failed.overran) task_.crashes.emplace_back(kOverrun);
    if (task_.cancel_requested) return end(task_, ChainState::kCancelled, task_.error, now_, effects_);
    end(task_, ChainState::kFailed, failed.reason, now_, effects_);
  }

  void operator()(const StepReport& report) {
    task_.progress = report.progress;
    task_.progress_note = clipped(report.note);
    for (const std::string& line : report.log) task_.log.push_back(plain_utf8(line, kMaxLogLineBytes));
    task_.attempt_lines += static_cast<std::uint32_t>(report.log.size());
    if (task_.log.size() > kMaxLogLines) task_.log.erase(task_.log.begin(), task_.log.end() - kMaxLogLines);
  }

 private:
  // Cancelled, or its deadline has passed: the task has ended with it.
  bool may_not_go_on() {
    if (task_.cancel_requested) {
      end(task_, ChainState::kCancelled, task_.error, now_, effects_);
    } else if (is_expired(task_, now_, held_)) {
      expire(task_, now_, effects_);
    }
    return is_final(task_.state);
  }

  ChainTask& task_;
  StoreTime now_;
  Duration held_;
  Effects& effects_;
};

Error stale(const ChainTask& task, const Claim& claim) {
  return {ErrorCode::kStale, "task '" + task.id() + "' is no longer claimed by boot '" + claim.boot + "' with epoch " +
                                 std::to_string(claim.epoch) + "; its epoch is " + std::to_string(task.epoch)};
}

}  // namespace

ChainTask make(NewTask request, std::uint64_t sequence, StoreTime now, Duration held, Effects& effects) {
  ChainTask task;
  task.request = std::move(request);
  task.sequence = sequence;
  task.created_at = now.wall;
  task.held_before = held;
  const bool is_delayed = task.request.start_at && *task.request.start_at > now.wall;
  if (is_delayed) task.due_at = task.request.start_at;
  if (task.request.deadline_at) {
    task.deadline_at = std::max(*task.request.deadline_at, WallTime());
  } else {  // Of a delayed task: an estimate until its start time is reached.
    const Duration length = task.request.deadline.value_or(task.request.default_deadline);
    task.deadline_at = saturating_add(is_delayed ? *task.request.start_at : now.steady, length);
    task.deadline_after = length;
  }
  task.state = task.request.pending ? ChainState::kPending : ChainState::kReady;
  if (task.request.steps.empty() && !task.request.pending) {
    end(task, ChainState::kCompleted, "it has no steps", now, effects);
  }
  return task;
}

bool is_expired(const ChainTask& task, StoreTime now, Duration held) {
  WallTime deadline = task.deadline_at;
  if (task.deadline_after && task.due_at && !task.due_after) {  // The length counts from the start time.
    if (*task.due_at > now.wall) return false;
    deadline = saturating_add(now.steady - (now.wall - *task.due_at), *task.deadline_after);
  }
  return (task.deadline_after ? now.steady : now.wall) >=
         saturating_add(deadline, std::max(Duration::zero(), held - task.held_before));
}

void expire(ChainTask& task, StoreTime now, Effects& effects) {
  end(task, ChainState::kExpired,
      task.started_at ? "its deadline passed before it could go on" : "its deadline passed before it could start", now,
      effects);
}

void reach_start(ChainTask& task, StoreTime now) {
  if (!task.due_at || task.due_after) return;
  if (task.deadline_after) {
    task.deadline_at = saturating_add(now.steady - (now.wall - *task.due_at), *task.deadline_after);
  }
  task.due_at.reset();
}

Result<void> ready(ChainTask& task, StoreTime now, Duration held, Effects& effects) {
  if (task.state != ChainState::kPending) {
    return Error{ErrorCode::kConflict, "task '" + task.id() + "' is " + std::string(to_string(task.state)) +
                                           "; only a pending task can be made ready"};
  }
  if (is_expired(task, now, held)) {
    expire(task, now, effects);
    return {};
  }
  task.state = ChainState::kReady;
  if (task.request.steps.empty()) end(task, ChainState::kCompleted, "it has no steps", now, effects);
  return {};
}

IntakeOutcome take_in(ChainTask& task, const TakenIn& message, StoreTime now, Duration held, Effects& effects) {
  if (task.message_id == message.message_id) return IntakeOutcome::kDuplicate;
  if (task.state != ChainState::kPending || !task.message_id.empty()) return IntakeOutcome::kNotCurrent;
  task.message_id = message.message_id;
  if (message.deadline && now.wall >= *message.deadline) {
    expire(task, now, effects);
  } else {
    static_cast<void>(ready(task, now, held, effects));
  }
  return task.state == ChainState::kExpired ? IntakeOutcome::kExpired : IntakeOutcome::kReadied;
}

ChainEvent refusal_of(const DeadLetter& letter, WallTime now) {
  return {.at = now,
          .kind = EventKind::kRefused,
          .task_id = letter.task_id,
          .group = letter.group,
          .detail = letter.reason};
}

namespace {

// Stores look rows up by these, and indexes have limits.
void bound_id(std::string& id) {
  constexpr std::size_t kMost = 512;
  clean(id);
  if (id.size() <= kMost) return;
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: two long ids are not taken for one.
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  id = plain_utf8(id, kMost - 24) + "…#" + std::to_string(hash);
}

}  // namespace

void clean(TakenIn& message) {
  for (std::string* each : {&message.message_id, &message.task_id}) bound_id(*each);
  if (message.refused) bound_id(message.refused->task_id);
  if (!message.refused) return;
  DeadLetter& letter = *message.refused;
  for (std::string* each : {&letter.task_id, &letter.group, &letter.message_id, &letter.reason, &letter.plugin,
                            &letter.node, &letter.original}) {
    clean(*each);
  }
  for (std::string& line : letter.log) clean(line);
}

DeadLetter letter_of(const TakenIn& message, const std::string& reason, WallTime now) {
  if (message.refused) {
    DeadLetter letter = *message.refused;
    letter.failed_at = now;
    return letter;
  }
  return {.task_id = message.task ? plain_utf8(message.task->id) : message.task_id,
          .group = message.task ? plain_utf8(message.task->group) : "",
          .message_id = message.message_id,
          .state = ChainState::kExpired,
          .reason = reason,
          .failed_at = now,
          .original = message.task ? plain_utf8(message.task->payload) : ""};
}

bool is_claimable(const ChainTask& task, const std::string& boot, StoreTime now) {
  if (task.state != ChainState::kReady) return false;
  if (task.due_at && *task.due_at > (task.due_after ? now.steady : now.wall)) return false;
  return !task.kept_until || *task.kept_until <= now.steady || task.owner == boot;
}

Duration time_until_due_for_owner(const ChainTask& task, StoreTime now) {
  return task.due_at ? time_until(*task.due_at, task.due_after ? now.steady : now.wall) : Duration::zero();
}

Duration time_until_due(const ChainTask& task, StoreTime now) {
  const Duration due = time_until_due_for_owner(task, now);
  return task.kept_until ? std::max(due, time_until(*task.kept_until, now.steady)) : due;
}

namespace {

bool has_own_process(const ChainTask& task, const ClaimRequest& request) {
  return task.current_step() != nullptr &&
         std::ranges::count(request.own_process_plugins, task.current_step()->plugin) != 0;
}

std::uint32_t deaths(const ChainTask& task, const std::function<bool(const std::string& boot)>& came_back) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      task.crashes, [&](const std::string& boot) { return boot == kOverrun || !came_back(boot); }));
}

}  // namespace

bool is_suspect(const ChainTask& task, const ClaimRequest& request,
                const std::function<bool(const std::string& boot)>& came_back) {
  return !has_own_process(task, request) && (task.suspect || deaths(task, came_back) >= 2);
}

bool convict(ChainTask& task, const ClaimRequest& request,
             const std::function<bool(const std::string& boot)>& came_back, StoreTime now, Effects& effects) {
  if (has_own_process(task, request)) {
    const std::uint32_t died = task.crashes.empty() ? 0 : deaths(task, came_back);
    if (died < request.poison_after || died == 0) return false;
    end(task, ChainState::kPoison, std::to_string(died) + " nodes died while this step ran", now, effects);
    return true;
  }
  const std::string boot = std::exchange(task.died_alone_with, {});
  if (boot.empty() || came_back(boot)) return false;
  end(task, ChainState::kPoison, kPoisonous, now, effects);
  return true;
}

void claim(ChainTask& task, const ClaimRequest& request, std::uint64_t epoch, bool suspect, StoreTime now) {
  reach_start(task, now);
  task.state = ChainState::kProcessing;
  task.owner = request.boot;
  task.claim_id = request.id;
  task.epoch = epoch;
  task.writes = 0;
  task.due_at.reset();
  task.due_after.reset();
  task.kept_until.reset();
  if (!task.started_at) task.started_at = now.wall;
  if (request.begin && !suspect) begin_attempt(task, false, now);
}

Result<ChainRow> write(ChainTask& task, const Claim& claim, std::uint64_t number, const RunnerWrite& write,
                       StoreTime now, Duration held, Effects& effects) {
  if (task.epoch != claim.epoch) return stale(task, claim);
  if (number != 0 && number == task.writes) return ChainRow(task);  // Its answer was lost.
  if (task.state != ChainState::kProcessing || task.owner != claim.boot) return stale(task, claim);
  if (number != 0) {
    if (number != task.writes + 1) return stale(task, claim);
    const auto* checkpoint = std::get_if<Checkpoint>(&write);
    if (checkpoint != nullptr && checkpoint->step != task.step) return stale(task, claim);
    task.writes = number;
  }
  std::visit(Apply(task, now, held, effects), write);
  return ChainRow(task);
}

void take_over(ChainTask& task, Death death, StoreTime now, Effects& effects) {
  const std::string owner = task.owner;
  if (task.state == ChainState::kReady) {  // It was kept.
    make_ready(task);
    return;
  }
  const bool crashed = task.attempt_open && death != Death::kLeft;
  const bool died_alone = crashed && task.alone;
  const char* const cut_off = death == Death::kLeft ? "it was given back" : "its node died";
  close_attempt(task, crashed ? "crashed" : "interrupted", cut_off, now, effects);
  if (died_alone && death == Death::kProven) return end(task, ChainState::kPoison, kPoisonous, now, effects);
  if (crashed) task.crashes.push_back(owner);
  task.alone = false;
  if (task.cancel_requested) return end(task, ChainState::kCancelled, task.error, now, effects);
  make_ready(task);
  if (died_alone) {
    task.died_alone_with = owner;
    set_delay(task, kVerdictAfter, now);
  }
  tell(task, EventKind::kTakenOver, owner, now, effects);
}

Result<ChainRow> cancel(ChainTask& task, const std::string& reason, StoreTime now, Effects& effects) {
  if (is_final(task.state)) {
    if (task.state == ChainState::kCancelled) return ChainRow(task);
    return Error{ErrorCode::kConflict, "task '" + task.id() + "' has ended as " + std::string(to_string(task.state)) +
                                           " and cannot be cancelled any more"};
  }
  task.cancel_requested = true;
  task.error = clipped(reason);
  if (task.state != ChainState::kProcessing) end(task, ChainState::kCancelled, reason, now, effects);
  return ChainRow(task);
}

Duration time_since(WallTime since, WallTime now) { return since < now ? Duration(now - since) : Duration::zero(); }

Duration time_until(WallTime due, WallTime now) {
  constexpr std::chrono::microseconds kMost = std::chrono::hours(24);
  return due <= now ? Duration::zero() : Duration(std::min(due - now, kMost));
}

Result<void> replay(ChainTask& task, const ReplayRequest& request, StoreTime now, Duration held, Effects& effects) {
  if (!is_final(task.state) && !request.message_id.empty() && task.message_id == request.message_id) return {};
  if (!is_final(task.state)) {
    return Error{ErrorCode::kConflict, "task '" + task.id() + "' is " + std::string(to_string(task.state)) +
                                           "; only one that has ended can be replayed"};
  }
  const std::uint32_t from = request.from_step.value_or(task.step);
  if (from > task.step || from >= task.request.steps.size()) {
    return Error{ErrorCode::kInvalid, "task '" + task.id() + "' stopped at step " + std::to_string(task.step + 1) +
                                          " of " + std::to_string(task.request.steps.size()) +
                                          "; it can be replayed from a step it has come to"};
  }
  const bool was_poison = task.state == ChainState::kPoison;
  const std::uint32_t stopped_at = task.step;
  make_ready(task);
  task.step = from;
  reset_step(task);
  task.suspect = was_poison && from == stopped_at;
  task.cancel_requested = false;
  task.ended_at.reset();
  task.due_at.reset();
  task.due_after.reset();
  task.ran = Duration::zero();
  task.deadline_after = request.deadline.value_or(NewTask::kDefaultDeadline);
  task.deadline_at = saturating_add(now.steady, *task.deadline_after);
  task.held_before = held;
  task.error.clear();
  task.message_id = request.message_id;
  effects.drops_dead_letter = true;
  tell(task, EventKind::kReplayed, "from step " + std::to_string(from + 1), now, effects);
  return {};
}

}  // namespace cohort::chain_rules

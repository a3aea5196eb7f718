#include "cohort/testing/memory_store.h"

#include <algorithm>
#include <utility>

#include "store/chain_rules.h"
#include "store/lease_watch.h"
#include "store/watchers.h"

namespace cohort {

namespace {

Error no_such_task(const std::string& id) { return {ErrorCode::kNotFound, "there is no task '" + id + "'"}; }

bool same_request(const NewTask& a, const NewTask& b) { return request_hash(a) == request_hash(b); }

}  // namespace

MemoryStore::MemoryStore(WallClock& clock, Options options)
    : clock_(clock),
      steady_(options.steady),
      lease_clock_(options.lease_clock),
      is_shared_(options.is_shared),
      bugs_(options.bugs),
      watchers_(std::make_unique<Watchers>()),
      news_(std::make_unique<NewsOfChange>()),
      leases_(std::make_unique<LeaseWatch>()) {}
MemoryStore::~MemoryStore() = default;

StoreTime MemoryStore::now() const {
  constexpr WallTime kStart = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
  const WallTime wall = clock_.now();
  if (steady_ == nullptr) return {wall, wall};
  return {wall, kStart + std::chrono::duration_cast<std::chrono::microseconds>(steady_->now().time_since_epoch())};
}

// The clock by which a node sees whether others live. All nodes of a MemoryStore have the same.
Time MemoryStore::observer_time() const {
  return lease_clock_ != nullptr ? lease_clock_->now() : Time(now().steady.time_since_epoch());
}

ChainTask* MemoryStore::find(const std::string& id) {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second;
}

Duration MemoryStore::held(const std::string& group, StoreTime now) {
  const Group& of = groups_[group];
  return held_ + of.paused_total + (of.paused_since ? Duration(now.steady - *of.paused_since) : Duration::zero());
}

// Puts the row where its state belongs.
void MemoryStore::keep(const ChainTask& task) {
  Group& group = groups_[task.request.group];
  const std::pair key{std::pair{task.request.priority, task.sequence}, task.id()};
  if (task.state == ChainState::kReady) {
    group.ready.insert(key);
  } else {
    group.ready.erase(key);
  }
}

template <class Change>
auto MemoryStore::change(ChainTask& task, Change&& change, bool is_new) {
  chain_rules::Effects effects;
  const bool was_claimable = task.state == ChainState::kReady && !is_new;
  const std::string owner_before = task.owner;
  auto answer = change(effects);
  keep(task);
  for (ChainEvent& event : effects.events) {
    event.sequence = ++event_sequence_;
    news_->add_event(event_sequence_);
    events_.push_back(std::move(event));
  }
  if (task.state == ChainState::kReady && (!was_claimable || owner_before != task.owner)) {
    news_->add_ready(task.request.group, chain_rules::time_until_due_for_owner(task, now()));
  }
  std::vector<AttemptRecord>& attempts = attempts_[task.id()];
  for (AttemptRecord& attempt : effects.attempts) attempts.push_back(std::move(attempt));
  if (attempts.size() > kMaxAttempts) attempts.erase(attempts.begin(), attempts.end() - kMaxAttempts);
  if (effects.drops_dead_letter) letters_.erase(task.id());
  if (effects.dead_letter) letters_[task.id()] = *std::move(effects.dead_letter);
  held_ += effects.held;
  return answer;
}

void MemoryStore::tell_news() {
  StoreNews news;
  {
    MutexLock lock(mutex_);
    news = news_->take();
  }
  watchers_->tell(news);
}

std::shared_ptr<void> MemoryStore::watch(StoreWatch watch) { return watchers_->add(std::move(watch)); }

void MemoryStore::submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) {
  std::vector<Result<Submitted>> answers;
  {
    MutexLock lock(mutex_);
    const StoreTime now = this->now();
    for (NewTask& task : tasks) answers.push_back(submit_one(std::move(task), now));
  }
  tell_news();
  done(std::move(answers));
}

Result<Submitted> MemoryStore::submit_one(NewTask request, StoreTime now) {
  if (auto good = check(request); !good) return good.error();
  if (request.id.empty()) return Error{ErrorCode::kInvalid, "the task has no id"};
  if (!request.idempotency_key.empty()) {
    const auto known = keys_.find({request.group, request.idempotency_key});
    if (known != keys_.end()) {
      const ChainTask& there = tasks_.at(known->second);
      if (same_request(there.request, request)) return Submitted{there.id(), there.state, true};
      return Error{ErrorCode::kConflict, "the idempotency key '" + request.idempotency_key + "' belongs to task '" +
                                             there.id() + "', which was another request"};
    }
  }
  if (const ChainTask* there = find(request.id)) {
    if (same_request(there->request, request)) return Submitted{there->id(), there->state, true};
    return Error{ErrorCode::kExists, "there is another task '" + request.id + "'"};
  }
  chain_rules::Effects effects;
  ChainTask task = chain_rules::make(std::move(request), ++sequence_, now, Duration::zero(), effects);
  task.held_before = held(task.request.group, now);
  ChainTask& there = tasks_[task.id()] = task;
  if (!there.request.idempotency_key.empty()) keys_[{there.request.group, there.request.idempotency_key}] = there.id();
  return change(
      there,
      [&](chain_rules::Effects& more) {
        more = std::move(effects);
        return Submitted{there.id(), there.state, false};
      },
      true);
}

void MemoryStore::take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) {
  std::vector<IntakeAnswer> answers;
  {
    MutexLock lock(mutex_);
    const StoreTime now = this->now();
    for (TakenIn& message : messages) answers.push_back(take_in_one(message, now));
  }
  tell_news();
  done(std::move(answers));
}

IntakeAnswer MemoryStore::refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason,
                                 StoreTime now) {
  DeadLetter letter = chain_rules::letter_of(message, reason, now.wall);
  if (letter.task_id.empty() || tasks_.contains(letter.task_id)) letter.task_id = "message:" + message.message_id;
  refused_messages_.insert(message.message_id);
  events_.push_back(chain_rules::refusal_of(letter, now.wall));
  events_.back().sequence = ++event_sequence_;
  news_->add_event(event_sequence_);
  const std::string id = letter.task_id;
  letters_[id] = std::move(letter);
  return {outcome, ""};
}

IntakeAnswer MemoryStore::take_in_one(TakenIn& message, StoreTime now) {
  chain_rules::clean(message);
  if (refused_messages_.contains(message.message_id)) return {IntakeOutcome::kDuplicate, ""};
  if (message.refused) return refuse(message, IntakeOutcome::kRefused, "", now);
  if (ChainTask* there = find(message.task ? message.task->id : message.task_id)) {
    const Duration held_by_now = held(there->request.group, now);
    const IntakeOutcome outcome = change(*there, [&](chain_rules::Effects& effects) {
      return chain_rules::take_in(*there, message, now, held_by_now, effects);
    });
    return {outcome, there->state == ChainState::kReady ? there->request.group : ""};
  }
  if (!message.task) {
    return refuse(message, IntakeOutcome::kUnknown, "it names task '" + message.task_id + "', which is not there", now);
  }
  if (message.deadline && now.wall >= *message.deadline) {
    return refuse(message, IntakeOutcome::kExpired, "it came after its deadline", now);
  }
  message.task->pending = false;
  const Result<Submitted> made = submit_one(*message.task, now);
  if (!made) return refuse(message, IntakeOutcome::kRefused, made.error().message, now);
  if (made->existed) {
    return {IntakeOutcome::kDuplicate, made->state == ChainState::kReady ? message.task->group : ""};
  }
  tasks_.at(made->task_id).message_id = message.message_id;
  return {IntakeOutcome::kCreated, message.task->group};
}

void MemoryStore::join(NodeLease node, Duration lease, Completion<void> done) {
  Result<void> answer;
  {
    MutexLock lock(mutex_);
    const std::string boot = node.boot;
    if (const auto former = boots_.find(node.formerly); former != boots_.end()) {
      std::set<std::string> groups;
      if (!std::exchange(former->second.dead, true)) {
        free_claims_of(node.formerly, chain_rules::Death::kLeft, now(), groups);
      }
      former->second.came_back = true;
    }
    const auto [place, is_new] = boots_.try_emplace(boot, Boot{std::move(node), lease});
    if (!is_new && place->second.dead) answer = Error{ErrorCode::kExists, "boot '" + boot + "' has been used before"};
    if (answer) leases_->note_renewal(boot, observer_time());
  }
  tell_news();
  done(std::move(answer));
}

void MemoryStore::note_sign_of_life(const std::string& boot) {
  const auto found = boots_.find(boot);
  if (found != boots_.end() && found->second.dead) found->second.came_back = true;
}

void MemoryStore::renew(std::string boot, Duration lease, Completion<void> done) {
  Result<void> answer;
  {
    MutexLock lock(mutex_);
    note_sign_of_life(boot);
    const auto found = boots_.find(boot);
    if (found == boots_.end() || found->second.dead) {
      answer = Error{ErrorCode::kStale, "the lease of boot '" + boot + "' has run out"};
    } else {
      found->second.lease = lease;
      ++found->second.renewals;
      leases_->note_renewal(boot, observer_time());
    }
  }
  done(std::move(answer));
}

void MemoryStore::free_claims_of(const std::string& boot, chain_rules::Death death, StoreTime now,
                                 std::set<std::string>& groups) {
  for (auto& [id, task] : tasks_) {
    if (task.owner != boot || is_final(task.state)) continue;
    if (bugs_.takes_over_half && death == chain_rules::Death::kPresumed && !groups.empty()) break;
    change(task, [&, &row = task](chain_rules::Effects& effects) {
      if (bugs_.blames_neighbours && row.attempt_open && row.crashes.size() >= 2) row.alone = true;
      chain_rules::take_over(row, death, now, effects);
      return 0;
    });
    if (task.state == ChainState::kReady) groups.insert(task.request.group);
  }
}

void MemoryStore::leave(std::string boot, Completion<void> done) {
  {
    MutexLock lock(mutex_);
    std::set<std::string> groups;
    const auto found = boots_.find(boot);
    if (found != boots_.end() && !found->second.dead) {
      found->second.dead = true;
      free_claims_of(boot, chain_rules::Death::kLeft, now(), groups);
    }
  }
  tell_news();
  done({});
}

void MemoryStore::take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) {
  if (all_others && is_shared_) {
    return done(Error{ErrorCode::kInvalid, "other nodes may use this store: there is no proof that they are dead"});
  }
  std::set<std::string> groups;
  {
    MutexLock lock(mutex_);
    const StoreTime now = this->now();
    std::vector<LeaseWatch::Lease> alive;
    for (const auto& [name, each] : boots_) {
      if (name != boot && !each.dead) alive.push_back({name, each.renewals, each.lease});
    }
    std::vector<std::string> dead = leases_->dead(boot, alive, observer_time());
    if (all_others) {
      dead.clear();
      for (const LeaseWatch::Lease& each : alive) dead.push_back(each.boot);
    }
    for (const std::string& each : dead) {
      boots_.at(each).dead = true;
      const auto death = all_others ? chain_rules::Death::kProven : chain_rules::Death::kPresumed;
      free_claims_of(each, death, now, groups);
    }
  }
  tell_news();
  done(std::vector<std::string>(groups.begin(), groups.end()));
}

void MemoryStore::claim(ClaimRequest request, Completion<ClaimAnswer> done) {
  Result<ClaimAnswer> answer = ClaimAnswer();
  {
    MutexLock lock(mutex_);
    const StoreTime now = this->now();
    note_sign_of_life(request.boot);
    const auto boot = boots_.find(request.boot);
    if (boot == boots_.end() || (boot->second.dead && !bugs_.claims_for_the_dead)) {
      answer = Error{ErrorCode::kStale, "boot '" + request.boot + "' has no lease"};
    } else {
      answer = claim_one(request, now);
    }
  }
  tell_news();
  done(std::move(answer));
}

ClaimAnswer MemoryStore::claim_one(const ClaimRequest& request, StoreTime now) {
  const auto came_back = [this](const std::string& boot) COHORT_REQUIRES(mutex_) {
    const auto found = boots_.find(boot);
    return found != boots_.end() && found->second.came_back;
  };
  for (const auto& [id, task] : tasks_) {
    if (bugs_.forgets_claim_ids && is_shared_) break;
    if (task.claim_id != request.id || task.owner != request.boot || task.state != ChainState::kProcessing) continue;
    return {.task = task, .suspect = chain_rules::is_suspect(task, request, came_back), .more = true, .next_in = {}};
  }
  Group& group = groups_[request.group];
  ClaimAnswer answer;
  if (group.paused_since) return answer;
  const Duration held_by_now = held(request.group, now);
  std::vector<std::string> ids;
  for (const bool kept : {true, false}) {  // What this boot keeps goes first.
    for (const auto& [order, id] : group.ready) {
      const ChainTask& task = tasks_.at(id);
      if ((task.kept_until && task.owner == request.boot) == kept) ids.push_back(id);
    }
  }
  for (const std::string& id : ids) {
    ChainTask& task = tasks_.at(id);
    if (chain_rules::is_expired(task, now, held_by_now)) {
      change(task, [&](chain_rules::Effects& effects) { return chain_rules::expire(task, now, effects), 0; });
      continue;
    }
    if (!chain_rules::is_claimable(task, request.boot, now)) {
      const Duration in = chain_rules::time_until_due(task, now);
      answer.next_in = std::min(answer.next_in.value_or(in), in);
      continue;
    }
    if (change(task, [&](chain_rules::Effects& effects) {
          return chain_rules::convict(task, request, came_back, now, effects);
        })) {
      continue;
    }
    if (std::ranges::count(request.without_plugins, task.current_step()->plugin) != 0) continue;
    if (answer.task) {
      answer.more = true;
      break;
    }
    answer.suspect = chain_rules::is_suspect(task, request, came_back);
    change(task, [&](chain_rules::Effects&) {
      return chain_rules::claim(task, request, task.epoch + 1, answer.suspect, now), 0;
    });
    answer.task = task;
  }
  return answer;
}

void MemoryStore::write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) {
  Result<ChainRow> answer = no_such_task(claim.task_id);
  {
    MutexLock lock(mutex_);
    note_sign_of_life(claim.boot);
    if (ChainTask* task = find(claim.task_id)) {
      const Duration held_by_now = held(task->request.group, now());
      answer = change(*task, [&](chain_rules::Effects& effects) {
        if (bugs_.accepts_stale_epochs && task->state == ChainState::kProcessing) {
          claim.epoch = task->epoch;
          claim.boot = task->owner;
          if (number != 0) number = task->writes + 1;
          if (auto* checkpoint = std::get_if<Checkpoint>(&write)) checkpoint->step = task->step;
        }
        return chain_rules::write(*task, claim, number, write, now(), held_by_now, effects);
      });
    }
  }
  tell_news();
  done(std::move(answer));
}

void MemoryStore::cancel(std::string task_id, std::string reason, Completion<ChainRow> done) {
  Result<ChainRow> answer = no_such_task(task_id);
  {
    MutexLock lock(mutex_);
    if (ChainTask* task = find(task_id)) {
      answer = change(
          *task, [&](chain_rules::Effects& effects) { return chain_rules::cancel(*task, reason, now(), effects); });
      if (answer && answer->state == ChainState::kProcessing) news_->add_control();
    }
  }
  tell_news();
  done(std::move(answer));
}

void MemoryStore::replay(ReplayRequest request, Completion<ChainTask> done) {
  Result<ChainTask> answer = no_such_task(request.task_id);
  {
    MutexLock lock(mutex_);
    if (ChainTask* task = find(request.task_id)) {
      const StoreTime now = this->now();
      const Duration held_by_now = held(task->request.group, now);
      answer = change(*task, [&](chain_rules::Effects& effects) -> Result<ChainTask> {
        auto good = chain_rules::replay(*task, request, now, held_by_now, effects);
        if (!good) return good.error();
        return *task;
      });
    }
  }
  tell_news();
  done(std::move(answer));
}

void MemoryStore::pause_group(std::string group, bool paused, Completion<void> done) {
  {
    MutexLock lock(mutex_);
    Group& of = groups_[group];
    const StoreTime now = this->now();
    if (paused && !of.paused_since) of.paused_since = now.steady;
    if (!paused && of.paused_since) {
      of.paused_total += now.steady - *of.paused_since;
      of.paused_since.reset();
      if (!of.ready.empty()) news_->add_ready(group, Duration::zero());
    }
    ++of.version;
    news_->add_control();
  }
  tell_news();
  done({});
}

void MemoryStore::ready(std::string task_id, Completion<ChainTask> done) {
  Result<ChainTask> answer = no_such_task(task_id);
  {
    MutexLock lock(mutex_);
    if (ChainTask* task = find(task_id)) {
      const StoreTime now = this->now();
      const Duration held_by_now = held(task->request.group, now);
      answer = change(*task, [&](chain_rules::Effects& effects) -> Result<ChainTask> {
        auto good = chain_rules::ready(*task, now, held_by_now, effects);
        if (!good) return good.error();
        return *task;
      });
    }
  }
  tell_news();
  done(std::move(answer));
}

void MemoryStore::remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) {
  std::uint64_t removed = 0;
  {
    MutexLock lock(mutex_);
    const WallTime before = clock_.now() - std::chrono::duration_cast<std::chrono::microseconds>(older_than);
    for (auto each = tasks_.begin(); each != tasks_.end() && removed < limit;) {
      const ChainTask& task = each->second;
      if (!is_final(task.state) || *task.ended_at > before) {
        ++each;
        continue;
      }
      keys_.erase({task.request.group, task.request.idempotency_key});
      letters_.erase(task.id());
      attempts_.erase(task.id());
      each = tasks_.erase(each);
      ++removed;
    }
    const bool is_relayed = cursors_.contains("relay");
    const std::uint64_t relayed = is_relayed ? cursors_.at("relay") : 0;
    std::uint32_t left = limit;
    std::erase_if(events_, [&](const ChainEvent& event) {
      const bool is_told = !is_relayed || event.sequence <= relayed;
      return event.at <= before && is_told && left > 0 && left-- > 0;
    });
    removed = std::max<std::uint64_t>(removed, limit - left);
    std::erase_if(letters_, [&](const auto& each) COHORT_REQUIRES(mutex_) {
      return each.second.failed_at <= before && !tasks_.contains(each.first);
    });
    const StoreTime now = this->now();
    for (auto& [id, task] : tasks_) {
      if (task.state != ChainState::kPending || !chain_rules::is_expired(task, now, held(task.request.group, now)))
        continue;
      change(task,
             [&, &row = task](chain_rules::Effects& effects) { return chain_rules::expire(row, now, effects), 0; });
    }
  }
  tell_news();
  done(removed);
}

}  // namespace cohort

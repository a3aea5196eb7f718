// Nodes and their claims: join, leave, take over, claim, write.

#include <algorithm>
#include <set>

#include "backend/postgres/changes.h"
#include "backend/task_text.h"
#include "cohort/base/log.h"

namespace cohort::postgres {

namespace {

constexpr std::size_t kAtOnce = 200;  // Tasks that one transaction frees, as in kTasksOfBoots.
constexpr Duration kLookAgain = std::chrono::milliseconds(10);

// Frees tasks that a boot owns. Gives the groups in which tasks became ready.
void free_tasks(Transaction& transaction, const std::vector<std::string>& ids, chain_rules::Death death,
                std::set<std::string>& groups) {
  for (const std::string& id : ids) {
    ChainTask* const task = transaction.task(id);
    if (task == nullptr) continue;
    chain_rules::Effects effects;
    chain_rules::take_over(*task, death, transaction.now(), effects);
    if (task->state == ChainState::kReady) groups.insert(task->request.group);
    transaction.save(*task, false, effects);
  }
}

class JoinChange final : public ChangeOf<void> {
 public:
  JoinChange(NodeLease node, Duration lease, Completion<void> done)
      : ChangeOf(std::move(done)), node_(std::move(node)), lease_(lease) {}
  void ask(Transaction& transaction) override {
    transaction.want_boot(node_.boot);
    if (!node_.formerly.empty()) transaction.want_end_of(node_.formerly);
  }
  void decide(Transaction& transaction) override {
    transaction.note_important();
    if (!node_.formerly.empty()) {
      std::set<std::string> groups;
      free_tasks(transaction, transaction.owned_by(node_.formerly), chain_rules::Death::kLeft, groups);
      transaction.mark_dead(node_.formerly);
      transaction.mark_back(node_.formerly);
    }
    const BootRow* const there = transaction.boot(node_.boot);
    if (there == nullptr) transaction.put_boot(node_, lease_);
    if (there != nullptr && there->is_dead) {
      return answer(Error{ErrorCode::kExists, "boot '" + node_.boot + "' has been used before"});
    }
    answer(Result<void>());
  }

 private:
  const NodeLease node_;
  const Duration lease_;
};

class LeaveChange final : public ChangeOf<void> {
 public:
  LeaveChange(std::string boot, Completion<void> done) : ChangeOf(std::move(done)), boot_(std::move(boot)) {}
  void ask(Transaction& transaction) override { transaction.want_end_of(boot_); }
  void decide(Transaction& transaction) override {
    transaction.note_important();
    const std::vector<std::string> owned = transaction.owned_by(boot_);
    std::set<std::string> groups;
    free_tasks(transaction, owned, chain_rules::Death::kLeft, groups);
    transaction.mark_dead(boot_);
    transaction.mark_back(boot_);  // Should others sweep the rest, it has not crashed.
    goes_on_ = owned.size() >= kAtOnce;
    answer(Result<void>());
  }
  [[nodiscard]] bool goes_on() const override { return goes_on_; }

 private:
  const std::string boot_;
  bool goes_on_ = false;
};

// Marks the boots dead, and frees tasks of all boots that are marked dead or are not known. If a node dies between two
// of its transactions here, the next node to look frees the rest.
class TakeOverChange final : public ChangeOf<std::vector<std::string>> {
 public:
  TakeOverChange(std::vector<DeadBoot> dead, Completion<std::vector<std::string>> done)
      : ChangeOf(std::move(done)), dead_(std::move(dead)) {}
  void ask(Transaction& transaction) override {
    for (const DeadBoot& each : dead_) transaction.want_end_of(each.boot);
    transaction.want_ownerless(kAtOnce);
  }
  void decide(Transaction& transaction) override {
    transaction.note_important();
    std::size_t freed = 0;
    for (const DeadBoot& each : dead_) {
      const BootRow* const row = transaction.boot(each.boot);
      if (row == nullptr || row->renewals != each.renewals) continue;  // It lives.
      transaction.mark_dead(each.boot);
      const std::vector<std::string> owned = transaction.owned_by(each.boot);
      free_tasks(transaction, owned, chain_rules::Death::kPresumed, groups_);
      freed += owned.size();
    }
    const std::vector<std::string> ownerless = transaction.ownerless();
    free_tasks(transaction, ownerless, chain_rules::Death::kPresumed, groups_);
    goes_on_ = freed + ownerless.size() >= kAtOnce;
    if (freed + ownerless.size() != 0) {
      COHORT_LOG(kInfo, "store", "the tasks of a dead node are taken over", {"tasks", freed + ownerless.size()});
    }
    answer(std::vector<std::string>(groups_.begin(), groups_.end()));
  }
  [[nodiscard]] bool goes_on() const override { return goes_on_; }

 private:
  const std::vector<DeadBoot> dead_;
  std::set<std::string> groups_;
  bool goes_on_ = false;
};

class ClaimChange final : public ChangeOf<ClaimAnswer> {
 public:
  ClaimChange(ClaimRequest request, Completion<ClaimAnswer> done)
      : ChangeOf(std::move(done)),
        request_(std::move(request)),
        without_(backend::lines_text(request_.without_plugins)) {}
  void ask(Transaction& transaction) override { transaction.want_claim(request_, looks_again_ ? kMany : 1); }
  void decide(Transaction& transaction) override { answer(claim(transaction)); }
  /// All that it found had expired or was poison: it looks again.
  [[nodiscard]] bool goes_on() const override { return looks_again_; }

 private:
  Result<ClaimAnswer> claim(Transaction& transaction) {
    const BootRow* const boot = transaction.boot(request_.boot);
    if (boot != nullptr && boot->is_dead) transaction.mark_back(request_.boot);
    if (boot == nullptr || boot->is_dead) {
      return Error{ErrorCode::kStale, "boot '" + request_.boot + "' has no lease"};
    }
    const auto came_back = [&](const std::string& each) { return transaction.came_back(each); };
    if (const ChainTask* const again = transaction.claimed_by(request_.id)) {
      return ClaimAnswer{
          .task = *again, .suspect = chain_rules::is_suspect(*again, request_, came_back), .more = true, .next_in = {}};
    }
    ClaimAnswer found;
    looks_again_ = false;
    if (transaction.group(request_.group).paused_since) return found;
    GroupLook& look = transaction.look(request_.group);
    std::vector<std::string>& candidates = transaction.candidates(request_.group, without_);
    bool has_ended_some = false;
    while (boot->is_locked && !found.task && !candidates.empty()) {
      ChainTask& task = *transaction.task(candidates.front());
      candidates.erase(candidates.begin());
      if (task.state != ChainState::kReady) continue;  // Another claim of this transaction has taken it.
      ++look.taken;
      transaction.note_important();
      found.suspect = decide(transaction, task, came_back);
      if (task.state == ChainState::kProcessing) found.task = task;
      has_ended_some = has_ended_some || is_final(task.state);
    }
    looks_again_ = !found.task && has_ended_some;
    found.suspect = found.suspect && found.task;
    found.more = !candidates.empty() || (found.task && look.ready > look.taken);
    if (found.more) return found;
    // Ready tasks that other transactions have locked are looked at again when those have ended.
    if (look.ready > look.taken) {
      found.next_in = kLookAgain;
    } else if (look.next_due) {
      const Duration in = chain_rules::time_until(*look.next_due, transaction.now().steady);
      found.next_in = in == Duration::zero() ? std::chrono::seconds(1) : in;  // Due: another node keeps it.
    }
    return found;
  }

  // True: it is a suspect. The task is claimed then, or it has ended.
  bool decide(Transaction& transaction, ChainTask& task, const std::function<bool(const std::string&)>& came_back) {
    chain_rules::Effects effects;
    const StoreTime now = transaction.now();
    bool suspect = false;
    chain_rules::reach_start(task, now);
    if (chain_rules::is_expired(task, now, transaction.held(request_.group))) {
      chain_rules::expire(task, now, effects);
    } else if (!chain_rules::convict(task, request_, came_back, now, effects)) {
      suspect = chain_rules::is_suspect(task, request_, came_back);
      chain_rules::claim(task, request_, task.epoch + 1, suspect, now);
    }
    transaction.save(task, false, effects);
    return suspect;
  }

  static constexpr std::uint32_t kMany = 100;

  const ClaimRequest request_;
  const std::string without_;
  bool looks_again_ = false;
};

class WriteChange final : public ChangeOf<ChainRow> {
 public:
  WriteChange(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done)
      : ChangeOf(std::move(done)), claim_(std::move(claim)), number_(number), write_(std::move(write)) {}
  void ask(Transaction& transaction) override {
    transaction.want_task(claim_.task_id);
    transaction.want_boot(claim_.boot);
  }
  void decide(Transaction& transaction) override {
    if (!std::holds_alternative<StepReport>(write_)) transaction.note_important();
    ChainTask* const task = transaction.task(claim_.task_id);
    if (task == nullptr) return answer(transaction.no_such_task(claim_.task_id));
    chain_rules::Effects effects;
    const std::uint64_t writes = task->writes;
    const auto* const checkpoint = std::get_if<Checkpoint>(&write_);
    const bool body =
        std::holds_alternative<StepReport>(write_) || (checkpoint != nullptr && checkpoint->context != task->context);
    Result<ChainRow> row = chain_rules::write(*task, claim_, number_, write_, transaction.now(),
                                              transaction.held(task->request.group), effects);
    const BootRow* const boot = transaction.boot(claim_.boot);
    if (!row && boot != nullptr && boot->is_dead && !boot->came_back) transaction.mark_back(claim_.boot);
    const bool is_repeated = row && number_ != 0 && writes == task->writes;
    if (row && !is_repeated) transaction.save(*task, body, effects);
    answer(std::move(row));
  }

 private:
  const Claim claim_;
  const std::uint64_t number_;
  const RunnerWrite write_;
};

}  // namespace

ChangeRef join_change(NodeLease node, Duration lease, Completion<void> done) {
  return std::make_unique<JoinChange>(std::move(node), lease, std::move(done));
}
ChangeRef leave_change(std::string boot, Completion<void> done) {
  return std::make_unique<LeaveChange>(std::move(boot), std::move(done));
}
ChangeRef take_over_change(std::vector<DeadBoot> dead, Completion<std::vector<std::string>> done) {
  return std::make_unique<TakeOverChange>(std::move(dead), std::move(done));
}
ChangeRef claim_change(ClaimRequest request, Completion<ClaimAnswer> done) {
  return std::make_unique<ClaimChange>(std::move(request), std::move(done));
}
ChangeRef write_change(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) {
  return std::make_unique<WriteChange>(std::move(claim), number, std::move(write), std::move(done));
}

}  // namespace cohort::postgres

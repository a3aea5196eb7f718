// Tasks that come in, and what operators ask for. Claims and writes are in changes_claims.cc.

#include "backend/postgres/changes.h"

namespace cohort::postgres {

namespace {

Result<Submitted> known(const Transaction::Existing& there, const NewTask& request, const std::string& hash) {
  if (there.hash == hash) return Submitted{there.id, there.state, true};
  if (there.id == request.id) return Error{ErrorCode::kExists, "there is another task '" + request.id + "'"};
  return Error{ErrorCode::kConflict, "the idempotency key '" + request.idempotency_key + "' belongs to task '" +
                                         there.id + "', which was another request"};
}

Result<Submitted> submit_one(Transaction& transaction, const PreparedRef& prepared, const std::string& message_id) {
  if (!prepared->checked) return prepared->checked.error();
  const NewTask& request = prepared->request;
  if (request.id.empty()) return Error{ErrorCode::kInvalid, "the task has no id"};
  constexpr std::size_t kMostBytes = 1500;  // An entry of an index has at most 2,700.
  if (request.group.size() > kMostBytes) {
    return Error{ErrorCode::kInvalid, "the group of a task has at most 1500 bytes on a PostgreSQL store"};
  }
  if (!request.idempotency_key.empty()) {
    if (const auto* there = transaction.existing_key(request.group, request.idempotency_key)) {
      return known(*there, request, prepared->hash);
    }
  }
  if (const auto* there = transaction.existing_id(request.id)) return known(*there, request, prepared->hash);
  chain_rules::Effects effects;
  ChainTask task = chain_rules::make(request, 0, transaction.now(), transaction.held(request.group), effects);
  task.message_id = message_id;
  Submitted answer{task.id(), task.state, false};
  transaction.insert(std::move(task), prepared, effects);
  return answer;
}

class SubmitChange final : public ChangeOf<std::vector<Result<Submitted>>> {
 public:
  SubmitChange(std::vector<PreparedRef> tasks, Completion<std::vector<Result<Submitted>>> done)
      : ChangeOf(std::move(done)), tasks_(std::move(tasks)) {}
  void ask(Transaction& transaction) override {
    for (const PreparedRef& each : tasks_) {
      if (each->checked) transaction.want_existing(each->request);
    }
  }
  [[nodiscard]] std::size_t rows() const override { return tasks_.size(); }
  void decide(Transaction& transaction) override {
    std::vector<Result<Submitted>> answers;
    answers.reserve(tasks_.size());
    for (const PreparedRef& each : tasks_) answers.push_back(submit_one(transaction, each, ""));
    answer(std::move(answers));
  }

 private:
  std::vector<PreparedRef> tasks_;
};

class TakeInChange final : public ChangeOf<std::vector<IntakeAnswer>> {
 public:
  TakeInChange(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done)
      : ChangeOf(std::move(done)), messages_(std::move(messages)) {
    for (TakenIn& each : messages_) {
      chain_rules::clean(each);
      if (!each.task) {
        prepared_.emplace_back();
        continue;
      }
      each.task->pending = false;
      prepared_.push_back(std::make_shared<const backend::PreparedTask>(*each.task));
    }
  }
  void ask(Transaction& transaction) override {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const TakenIn& message = messages_[i];
      transaction.want_refused(message.message_id);
      if (message.refused) transaction.want_existing_id(message.refused->task_id);
      if (prepared_[i] && prepared_[i]->checked) {
        transaction.want_existing(prepared_[i]->request);
        transaction.want_task(prepared_[i]->request.id);
      }
      if (!message.task_id.empty()) transaction.want_task(message.task_id);
    }
  }
  [[nodiscard]] std::size_t rows() const override { return messages_.size(); }
  void decide(Transaction& transaction) override {
    std::vector<IntakeAnswer> answers;
    for (std::size_t i = 0; i < messages_.size(); ++i)
      answers.push_back(take_in(transaction, messages_[i], prepared_[i]));
    answer(std::move(answers));
  }

 private:
  static IntakeAnswer refuse(Transaction& transaction, const TakenIn& message, IntakeOutcome outcome,
                             const std::string& reason) {
    const WallTime at = transaction.now().wall;
    transaction.put_refused(message.message_id);
    transaction.note_important();
    DeadLetter letter = chain_rules::letter_of(message, reason, at);
    constexpr std::size_t kMostBytes = 600;
    if (letter.task_id.size() > kMostBytes || letter.task_id.empty() ||
        transaction.existing_id(letter.task_id) != nullptr) {
      letter.task_id = "message:" + message.message_id;
    }
    transaction.put_event(chain_rules::refusal_of(letter, at));
    transaction.put_letter(std::move(letter));
    return {outcome, ""};
  }

  static IntakeAnswer take_in(Transaction& transaction, const TakenIn& message, const PreparedRef& prepared) {
    if (transaction.was_refused(message.message_id)) return {IntakeOutcome::kDuplicate, ""};
    if (message.refused) return refuse(transaction, message, IntakeOutcome::kRefused, "");
    if (ChainTask* const task = transaction.task(prepared ? prepared->request.id : message.task_id)) {
      chain_rules::Effects effects;
      const std::string group = task->request.group;
      const IntakeOutcome outcome =
          chain_rules::take_in(*task, message, transaction.now(), transaction.held(group), effects);
      transaction.note_important();
      if (outcome == IntakeOutcome::kReadied || outcome == IntakeOutcome::kExpired) {
        transaction.save(*task, false, effects);
      }
      return {outcome, task->state == ChainState::kReady ? group : ""};
    }
    if (!prepared) {
      return refuse(transaction, message, IntakeOutcome::kUnknown,
                    "it names task '" + message.task_id + "', which is not there");
    }
    if (message.deadline && transaction.now().wall >= *message.deadline) {
      return refuse(transaction, message, IntakeOutcome::kExpired, "it came after its deadline");
    }
    const Result<Submitted> made = submit_one(transaction, prepared, message.message_id);
    if (!made) return refuse(transaction, message, IntakeOutcome::kRefused, made.error().message);
    const std::string group = made->state == ChainState::kReady || !made->existed ? prepared->request.group : "";
    return {made->existed ? IntakeOutcome::kDuplicate : IntakeOutcome::kCreated, group};
  }

  std::vector<TakenIn> messages_;
  std::vector<PreparedRef> prepared_;
};

// --- one task, by its id

template <class T, class Decide>
class TaskChange final : public ChangeOf<T> {
 public:
  TaskChange(std::string task_id, Decide decide, Completion<T> done)
      : ChangeOf<T>(std::move(done)), task_id_(std::move(task_id)), decide_(std::move(decide)) {}
  void ask(Transaction& transaction) override { transaction.want_task(task_id_); }
  void decide(Transaction& transaction) override {
    ChainTask* const task = transaction.task(task_id_);
    transaction.note_important();
    this->answer(task != nullptr ? decide_(transaction, *task) : Result<T>(transaction.no_such_task(task_id_)));
  }

 private:
  const std::string task_id_;
  const Decide decide_;
};

template <class T, class Decide>
ChangeRef task_change(std::string task_id, Decide decide, Completion<T> done) {
  return std::make_unique<TaskChange<T, Decide>>(std::move(task_id), std::move(decide), std::move(done));
}

// --- groups

class GroupChange : public ChangeOf<void> {
 public:
  GroupChange(std::string group, Completion<void> done) : ChangeOf(std::move(done)), group_(std::move(group)) {}
  void ask(Transaction& transaction) override { transaction.want_group_locked(group_); }
  void decide(Transaction& transaction) override {
    GroupRow& row = transaction.group(group_);
    transaction.note_important();
    if (row.format > transaction.format()) {
      return answer(Error{ErrorCode::kConflict, "the controls of group '" + group_ +
                                                    "' were written by a newer version of Cohort; use that one"});
    }
    if (change(transaction, row)) {
      ++row.version;
      transaction.put_group(group_);
      transaction.news().add_control();
    }
    answer(Result<void>());
  }

 protected:
  /// False: it is so already.
  virtual bool change(Transaction& transaction, GroupRow& row) = 0;
  [[nodiscard]] const std::string& group() const { return group_; }

 private:
  const std::string group_;
};

class PauseChange final : public GroupChange {
 public:
  PauseChange(std::string group, bool paused, Completion<void> done)
      : GroupChange(std::move(group), std::move(done)), paused_(paused) {}

 private:
  bool change(Transaction& transaction, GroupRow& row) override {
    if (paused_ == row.paused_since.has_value()) return false;
    if (paused_) {
      row.paused_since = transaction.now().steady;
    } else {
      row.paused_total += chain_rules::time_since(*row.paused_since, transaction.now().steady);
      row.paused_since.reset();
      transaction.news().add_ready(group(), Duration::zero());
    }
    return true;
  }

  const bool paused_;
};

class LimitsChange final : public GroupChange {
 public:
  LimitsChange(std::string group, std::string limits, Completion<void> done)
      : GroupChange(std::move(group), std::move(done)), limits_(std::move(limits)) {}

 private:
  bool change(Transaction&, GroupRow& row) override {
    row.limits = limits_;
    return true;
  }

  const std::string limits_;
};

class DiscardChange final : public ChangeOf<void> {
 public:
  DiscardChange(std::string task_id, Completion<void> done) : ChangeOf(std::move(done)), task_id_(std::move(task_id)) {}
  void ask(Transaction& transaction) override { transaction.want_letter(task_id_); }
  void decide(Transaction& transaction) override {
    transaction.note_important();
    if (!transaction.has_letter(task_id_)) {
      if (was_uncertain) return answer(Result<void>());  // Perhaps it is this call that has discarded it.
      return answer(Error{ErrorCode::kNotFound, "task '" + task_id_ + "' has no dead letter"});
    }
    transaction.remove_letter(task_id_);
    answer(Result<void>());
  }

 private:
  const std::string task_id_;
};

class CursorChange final : public ChangeOf<void> {
 public:
  CursorChange(std::string name, std::uint64_t value, Completion<void> done)
      : ChangeOf(std::move(done)), name_("cursor:" + std::move(name)), value_(value) {}
  void ask(Transaction&) override {}
  void decide(Transaction& transaction) override {
    transaction.note_important();
    transaction.put_number(name_, static_cast<std::int64_t>(value_));
    answer(Result<void>());
  }

 private:
  const std::string name_;
  const std::uint64_t value_;
};

class ExpireChange final : public ChangeOf<void> {
 public:
  ExpireChange(std::uint32_t limit, Completion<void> done) : ChangeOf(std::move(done)), limit_(limit) {}
  void ask(Transaction& transaction) override { transaction.want_late_pending(limit_); }
  void decide(Transaction& transaction) override {
    transaction.note_important();
    for (const std::string& id : transaction.late_pending()) {
      ChainTask* const task = transaction.task(id);
      if (task == nullptr) continue;
      const Duration held = transaction.held(task->request.group);
      if (!chain_rules::is_expired(*task, transaction.now(), held)) continue;
      chain_rules::Effects effects;
      chain_rules::expire(*task, transaction.now(), effects);
      transaction.save(*task, false, effects);
    }
    answer(Result<void>());
  }

 private:
  const std::uint32_t limit_;
};

}  // namespace

ChangeRef submit_change(std::vector<PreparedRef> tasks, Completion<std::vector<Result<Submitted>>> done) {
  return std::make_unique<SubmitChange>(std::move(tasks), std::move(done));
}

ChangeRef take_in_change(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) {
  return std::make_unique<TakeInChange>(std::move(messages), std::move(done));
}

ChangeRef ready_change(std::string task_id, Completion<ChainTask> done) {
  return task_change<ChainTask>(
      std::move(task_id),
      [](Transaction& transaction, ChainTask& task) -> Result<ChainTask> {
        chain_rules::Effects effects;
        const auto good = chain_rules::ready(task, transaction.now(), transaction.held(task.request.group), effects);
        if (!good) return good.error();
        transaction.save(task, false, effects);
        return task;
      },
      std::move(done));
}

ChangeRef cancel_change(std::string task_id, std::string reason, Completion<ChainRow> done) {
  return task_change<ChainRow>(
      std::move(task_id),
      [reason = std::move(reason)](Transaction& transaction, ChainTask& task) -> Result<ChainRow> {
        chain_rules::Effects effects;
        Result<ChainRow> row = chain_rules::cancel(task, reason, transaction.now(), effects);
        if (!row) return row;
        if (row->state == ChainState::kProcessing) transaction.news().add_control();
        transaction.save(task, false, effects);
        return row;
      },
      std::move(done));
}

ChangeRef replay_change(ReplayRequest request, Completion<ChainTask> done) {
  std::string id = request.task_id;
  return task_change<ChainTask>(
      std::move(id),
      [request = std::move(request)](Transaction& transaction, ChainTask& task) -> Result<ChainTask> {
        chain_rules::Effects effects;
        const auto good =
            chain_rules::replay(task, request, transaction.now(), transaction.held(task.request.group), effects);
        if (!good) return good.error();
        transaction.save(task, false, effects);
        return task;
      },
      std::move(done));
}

ChangeRef pause_change(std::string group, bool paused, Completion<void> done) {
  return std::make_unique<PauseChange>(std::move(group), paused, std::move(done));
}
ChangeRef limits_change(std::string group, std::string limits, Completion<void> done) {
  return std::make_unique<LimitsChange>(std::move(group), std::move(limits), std::move(done));
}
ChangeRef discard_change(std::string task_id, Completion<void> done) {
  return std::make_unique<DiscardChange>(std::move(task_id), std::move(done));
}
ChangeRef cursor_change(std::string name, std::uint64_t value, Completion<void> done) {
  return std::make_unique<CursorChange>(std::move(name), value, std::move(done));
}
ChangeRef expire_change(std::uint32_t limit, Completion<void> done) {
  return std::make_unique<ExpireChange>(limit, std::move(done));
}

}  // namespace cohort::postgres

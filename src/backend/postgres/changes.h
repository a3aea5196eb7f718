#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/postgres/transaction.h"
#include "cohort/base/completion.h"

namespace cohort::postgres {

/// A call that changes something, on its way through a transaction. It may go through several, if one fails.
///
/// Thread-safety: confined to the loop's thread.
class Change {
 public:
  virtual ~Change() = default;
  /// Says which rows it needs.
  virtual void ask(Transaction& transaction) = 0;
  /// Changes them, and notes the answer.
  virtual void decide(Transaction& transaction) = 0;
  /// Tells the caller the answer; or why there is none.
  virtual void complete(const Error* failure) = 0;
  /// About how many rows it writes.
  [[nodiscard]] virtual std::size_t rows() const { return 1; }
  /// It has more to do in a further transaction, before it is complete.
  [[nodiscard]] virtual bool goes_on() const { return false; }

  Time since = std::chrono::steady_clock::now();
  /// An earlier transaction of it may have been committed.
  bool was_uncertain = false;
};

using ChangeRef = std::unique_ptr<Change>;

template <class T>
class ChangeOf : public Change {
 public:
  explicit ChangeOf(Completion<T> done) : done_(std::move(done)) {}
  void complete(const Error* failure) override {
    if (failure != nullptr) return done_(*failure);
    done_(*std::move(answer_));
  }

 protected:
  void answer(Result<T> result) { answer_.emplace(std::move(result)); }

 private:
  Completion<T> done_;
  std::optional<Result<T>> answer_;
};

using PreparedRef = std::shared_ptr<const backend::PreparedTask>;

[[nodiscard]] ChangeRef submit_change(std::vector<PreparedRef> tasks, Completion<std::vector<Result<Submitted>>> done);
[[nodiscard]] ChangeRef take_in_change(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done);
[[nodiscard]] ChangeRef join_change(NodeLease node, Duration lease, Completion<void> done);
[[nodiscard]] ChangeRef leave_change(std::string boot, Completion<void> done);

/// A boot that was seen dead, and the renewals it had then.
struct DeadBoot {
  std::string boot;
  std::uint64_t renewals = 0;
};
[[nodiscard]] ChangeRef take_over_change(std::vector<DeadBoot> dead, Completion<std::vector<std::string>> done);
[[nodiscard]] ChangeRef claim_change(ClaimRequest request, Completion<ClaimAnswer> done);
[[nodiscard]] ChangeRef write_change(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done);
[[nodiscard]] ChangeRef ready_change(std::string task_id, Completion<ChainTask> done);
[[nodiscard]] ChangeRef cancel_change(std::string task_id, std::string reason, Completion<ChainRow> done);
[[nodiscard]] ChangeRef replay_change(ReplayRequest request, Completion<ChainTask> done);
[[nodiscard]] ChangeRef pause_change(std::string group, bool paused, Completion<void> done);
[[nodiscard]] ChangeRef limits_change(std::string group, std::string limits, Completion<void> done);
[[nodiscard]] ChangeRef discard_change(std::string task_id, Completion<void> done);
[[nodiscard]] ChangeRef cursor_change(std::string name, std::uint64_t value, Completion<void> done);
[[nodiscard]] ChangeRef expire_change(std::uint32_t limit, Completion<void> done);

}  // namespace cohort::postgres

#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/broker/broker.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/chain/task_json.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Takes messages of the broker into the store: a batch is fetched, written in one transaction and, once that is
/// durable, acknowledged. It runs nothing of a task, so long tasks never cost this node its place among those that
/// share the topic.
///
/// Thread-safety: thread-safe. One round is under way at a time; what is between its steps is owned by its completions.
template <class Faults>
class BasicIntake : public std::enable_shared_from_this<BasicIntake<Faults>> {
 public:
  using Accept = std::function<Result<void>(NewTask&)>;
  using Wake = std::function<void(const std::string& group)>;

  using Hold = std::function<std::shared_ptr<void>()>;

  /// While somebody has what `hold` gave, broker, store and executor are there.
  BasicIntake(Broker& broker, TaskStore& store, Executor& executor, Accept accept, Wake wake, Hold hold)
      : broker_(broker),
        store_(store),
        executor_(executor),
        accept_(std::move(accept)),
        wake_(std::move(wake)),
        hold_(std::move(hold)) {}

  void start() { next(); }
  void pause() {
    MutexLock lock(mutex_);
    status_.paused = true;
  }
  void resume() {
    {
      MutexLock lock(mutex_);
      status_.paused = false;
    }
    next();
  }
  void stop() {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    broker_.close();
  }
  [[nodiscard]] IntakeStatus status() const {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  using Self = std::shared_ptr<BasicIntake>;
  static constexpr std::uint32_t kBatch = 200;
  static constexpr Duration kFirstWait = std::chrono::milliseconds(50);
  static constexpr Duration kLongestWait = std::chrono::seconds(2);

  void next() {
    {
      MutexLock lock(mutex_);
      if (stopped_ || status_.paused || busy_) return;
      busy_ = true;
    }
    broker_.fetch(kBatch, [self = this->shared_from_this(), hold = hold_()](Result<std::vector<InMessage>> fetched) {
      if (!fetched) return self->end_round(fetched.error().code != ErrorCode::kEnded, kLongestWait);
      if (self->is_stopped()) return self->end_round(false);
      std::vector<TakenIn> batch;
      for (const InMessage& each : *fetched) batch.push_back(self->understand(each));
      if (Faults::kAcknowledgeEarly) self->broker_.acknowledge(*fetched, [](Result<void>) {});
      self->write(std::move(*fetched), std::move(batch), kFirstWait);
    });
  }

  // What this node could not run is refused here, not when it is run.
  TakenIn understand(const InMessage& message) {
    TakenIn in = taken_in(message);
    if (!in.task) return in;
    if (const Result<void> good = accept_(*in.task); !good) {
      in.refused = DeadLetter{.task_id = in.task->id,
                              .group = in.task->group,
                              .message_id = in.message_id,
                              .reason = good.error().message,
                              .original = message.value.substr(0, 4096)};
    }
    return in;
  }

  void write(std::vector<InMessage> messages, std::vector<TakenIn> batch, Duration wait) {
    std::vector<TakenIn> copy = batch;
    store_.take_in(std::move(copy),
                   [self = this->shared_from_this(), hold = hold_(), messages = std::move(messages),
                    batch = std::move(batch), wait](Result<std::vector<IntakeAnswer>> answers) mutable {
                     if (!answers) {
                       // Never past a batch that was not stored: acknowledging a later one would acknowledge it.
                       if (answers.error().code == ErrorCode::kEnded || self->is_stopped())
                         return self->end_round(false);
                       const Time due = self->executor_.clock().now() + wait;
                       self->executor_.call_at(
                           due, [self, hold, messages = std::move(messages), batch = std::move(batch), wait]() mutable {
                             if (!self->is_stopped())
                               self->write(std::move(messages), std::move(batch), std::min(2 * wait, kLongestWait));
                           });
                       return;
                     }
                     self->count(*answers);
                     for (const IntakeAnswer& each : *answers) {
                       // A message for the second time: the news of the first may have been lost with its answer.
                       const bool is_repeated = each.outcome == IntakeOutcome::kDuplicate;
                       if (is_repeated && !each.group.empty()) self->wake_(each.group);
                     }
                     if (Faults::kAcknowledgeEarly || self->is_stopped()) return self->end_round(true);
                     self->broker_.acknowledge(std::move(messages), [self, hold](Result<void>) {
                       self->end_round(true);  // Not acknowledged: then it comes again, and has no effect.
                     });
                   });
  }

  void count(const std::vector<IntakeAnswer>& answers) {
    MutexLock lock(mutex_);
    for (const IntakeAnswer& each : answers) {
      const bool failed = each.outcome == IntakeOutcome::kExpired || each.outcome == IntakeOutcome::kUnknown ||
                          each.outcome == IntakeOutcome::kRefused;
      ++(failed ? status_.failed : status_.consumed);
    }
  }

  void end_round(bool again, Duration wait = Duration::zero()) {
    {
      MutexLock lock(mutex_);
      busy_ = false;
    }
    if (!again) return;
    // By way of the executor: a broker that answers at once would make this a recursion.
    if (is_stopped()) return;
    executor_.call_at(executor_.clock().now() + wait, [self = this->weak_from_this()] {
      if (const Self alive = self.lock()) alive->next();
    });
  }

  [[nodiscard]] bool is_stopped() const {
    MutexLock lock(mutex_);
    return stopped_;
  }

  Broker& broker_;
  TaskStore& store_;
  Executor& executor_;
  const Accept accept_;
  const Wake wake_;
  const Hold hold_;
  mutable Mutex mutex_;
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
  bool busy_ COHORT_GUARDED_BY(mutex_) = false;
  IntakeStatus status_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort

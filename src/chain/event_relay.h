#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/broker/broker.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// Tells the broker what became of tasks: events in their order, with their dead letters, at least once.
///
/// Thread-safety: thread-safe.
class EventRelay : public std::enable_shared_from_this<EventRelay> {
 public:
  using Hold = std::function<std::shared_ptr<void>()>;

  /// While somebody has what `hold` gave, broker and store are there.
  EventRelay(Broker& broker, TaskStore& store, Hold hold) : broker_(broker), store_(store), hold_(std::move(hold)) {}
  /// Publishes what is new; if that is under way, looks once more at its end.
  void look();
  /// Looks again if the last look has failed. Called once a second.
  void tick();
  void stop();

 private:
  static constexpr std::uint32_t kBatch = 200;
  static constexpr const char* kCursor = "relay";

  void read(std::uint64_t after);
  void publish(std::vector<ChainEvent> events);
  void publish_letters(std::vector<ChainEvent> events, std::size_t from);
  void end(bool succeeded, bool more = false);
  [[nodiscard]] bool is_stopped();

  Broker& broker_;
  TaskStore& store_;
  const Hold hold_;
  Mutex mutex_;
  bool busy_ COHORT_GUARDED_BY(mutex_) = false;
  bool is_asked_again_ COHORT_GUARDED_BY(mutex_) = false;  // While busy.
  bool has_failed_ COHORT_GUARDED_BY(mutex_) = false;
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "admin/server_message.h"
#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// Which events a reader wants.
struct EventFilter {
  std::optional<std::uint64_t> after = {};  ///< Nothing: what is new from now on.
  std::string group = {};
  std::string task = {};
};

/// Readers of events. Each goes through the store at its own pace and has one page of it in memory, so a slow one costs
/// nobody anything; one thread looks whether there is something new, and only then are they woken.
///
/// Thread-safety: thread-safe. The store must outlive close().
class EventHub : public std::enable_shared_from_this<EventHub> {
 public:
  EventHub(TaskStore& store, std::uint32_t max_streams) : store_(store), max_streams_(max_streams) {}
  ~EventHub();

  void start();
  void close();
  /// kRejected: there are too many.
  Result<std::shared_ptr<BodyStream>> subscribe(EventFilter filter);

 private:
  class Stream;
  friend class Stream;

  void look(const std::stop_token& stop);
  void read_new();
  void found(const std::vector<ChainEvent>& events);
  void wake_all(bool ping);
  void forget(const Stream* stream);

  TaskStore& store_;
  const std::uint32_t max_streams_;
  std::atomic<std::uint64_t> latest_{0};

  Mutex mutex_;
  CondVar changed_;
  bool closed_ COHORT_GUARDED_BY(mutex_) = false;
  bool reading_ COHORT_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Stream>> streams_ COHORT_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace cohort

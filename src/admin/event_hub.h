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
/// nobody anything. The store says when there are new events (TaskStore::watch), and only then are the readers woken; a
/// thread lets readers without news know every `ping_every` that the connection lives, and looks at the store then.
///
/// Thread-safety: thread-safe. The store must outlive close().
class EventHub : public std::enable_shared_from_this<EventHub> {
 public:
  EventHub(TaskStore& store, std::uint32_t max_streams, Duration ping_every)
      : store_(store), max_streams_(max_streams), ping_every_(ping_every) {}
  ~EventHub();

  void start();
  void close();
  /// kRejected: there are too many.
  Result<std::shared_ptr<BodyStream>> subscribe(EventFilter filter);

 private:
  class Stream;
  friend class Stream;

  void hear(const StoreNews& news);
  void ping_readers(const std::stop_token& stop);
  void read_new();
  void found(std::uint64_t last);
  void wake_all(bool ping);
  void forget(const Stream* stream);

  TaskStore& store_;
  const std::uint32_t max_streams_;
  const Duration ping_every_;
  std::atomic<std::uint64_t> latest_{0};

  Mutex mutex_;
  CondVar changed_;
  bool closed_ COHORT_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Stream>> streams_ COHORT_GUARDED_BY(mutex_);
  std::shared_ptr<void> watch_;  // Of start() and close().
  std::jthread thread_;
};

}  // namespace cohort

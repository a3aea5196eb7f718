#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/wall_clock.h"
#include "cohort/broker/broker.h"

namespace cohort {

/// Brokers of one group that share partitions in memory: for tests and simulations. When a member closes, or is
/// dropped, its partitions go to the others, from what was acknowledged last.
///
///     MemoryBroker shared(clock);
///     std::unique_ptr<Broker> broker = shared.member();
///
/// Thread-safety: thread-safe. Completions run inside the call that gives them something.
class MemoryBroker {
 public:
  explicit MemoryBroker(WallClock& clock, std::uint32_t partitions = 4);
  ~MemoryBroker();

  /// Must not outlive the MemoryBroker.
  [[nodiscard]] std::unique_ptr<Broker> member();
  /// All that was ever published, for checks.
  [[nodiscard]] std::vector<OutMessage> published(Topic topic) const;
  /// Messages of kTasks that nobody has acknowledged.
  [[nodiscard]] std::size_t unacknowledged() const;
  /// Gives everything that is not acknowledged once more to whoever has its partition.
  void redeliver();

 private:
  class Member;
  struct Partition {
    std::vector<InMessage> log;
    std::uint64_t acknowledged = 0;  // The offset of the first that is not.
    std::uint64_t next = 0;          // The offset of the next to give.
    Member* owner = nullptr;
  };

  void join(Member& member);
  void leave(Member& member);
  void share_out() COHORT_REQUIRES(mutex_);
  void serve();

  WallClock& clock_;
  mutable Mutex mutex_;
  std::vector<Partition> partitions_ COHORT_GUARDED_BY(mutex_);
  std::vector<Member*> members_ COHORT_GUARDED_BY(mutex_);
  std::array<std::vector<OutMessage>, kTopics> published_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort

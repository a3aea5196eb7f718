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

/// A broker in memory, for tests and simulations. Its members form one consumer group and share the partitions. When a
/// member closes or is destroyed, its partitions go to the other members, which continue after the last acknowledged
/// message.
///
///     MemoryBroker shared(clock);
///     std::unique_ptr<Broker> broker = shared.member();
///
/// Thread-safety: thread-safe. A completion runs inside the call that provides its result.
class MemoryBroker {
 public:
  explicit MemoryBroker(WallClock& clock, std::uint32_t partitions = 4);
  ~MemoryBroker();

  /// Makes a new member, which must not outlive the MemoryBroker.
  [[nodiscard]] std::unique_ptr<Broker> member();
  /// All messages that were ever published to the topic, for checks.
  [[nodiscard]] std::vector<OutMessage> published(Topic topic) const;
  /// The number of messages of kTasks that no member has acknowledged.
  [[nodiscard]] std::size_t unacknowledged() const;
  /// Delivers each unacknowledged message once more, to the member that has its partition.
  void redeliver();

 private:
  class Member;
  struct Partition {
    std::vector<InMessage> log;
    std::uint64_t acknowledged = 0;  // The offset of the first message that is not acknowledged.
    std::uint64_t next = 0;          // The offset of the next message to deliver.
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

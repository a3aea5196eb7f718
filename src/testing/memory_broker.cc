#include "cohort/testing/memory_broker.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cohort/base/assert.h"

namespace cohort {

class MemoryBroker::Member final : public Broker {
 public:
  explicit Member(MemoryBroker& shared) : shared_(shared) { shared_.join(*this); }
  ~Member() override { close(); }

  void publish(Topic topic, std::vector<OutMessage> messages, Completion<void> done) override {
    {
      MutexLock lock(shared_.mutex_);
      for (OutMessage& each : messages) {
        if (topic == Topic::kTasks) {
          Partition& partition = shared_.partitions_[std::hash<std::string>()(each.key) % shared_.partitions_.size()];
          partition.log.push_back({.key = each.key,
                                   .value = each.value,
                                   .published_at = shared_.clock_.now(),
                                   .partition = static_cast<std::uint32_t>(&partition - shared_.partitions_.data()),
                                   .offset = partition.log.size()});
        }
        shared_.published_[static_cast<std::size_t>(topic)].push_back(std::move(each));
      }
    }
    done({});
    shared_.serve();
  }

  void fetch(std::uint32_t most, Completion<std::vector<InMessage>> done) override {
    bool is_closed = false;
    {
      MutexLock lock(shared_.mutex_);
      COHORT_ASSERT(!wants_, "one fetch at a time");
      is_closed = closed_;
      if (!is_closed) {
        wants_ = std::move(done);
        most_ = most;
      }
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): when it is closed, it was not moved.
    if (is_closed) return done(Error{ErrorCode::kEnded, "the broker's member has been closed"});
    shared_.serve();
  }

  void acknowledge(std::vector<InMessage> messages, Completion<void> done) override {
    {
      MutexLock lock(shared_.mutex_);
      for (const InMessage& each : messages) {
        Partition& partition = shared_.partitions_[each.partition];
        if (partition.owner == this) partition.acknowledged = std::max(partition.acknowledged, each.offset + 1);
      }
    }
    done({});
  }

  void close() override { shared_.leave(*this); }

 private:
  friend class MemoryBroker;

  MemoryBroker& shared_;
  Completion<std::vector<InMessage>> wants_;  // All guarded by the shared mutex.
  std::uint32_t most_ = 0;
  bool closed_ = false;
};

MemoryBroker::MemoryBroker(WallClock& clock, std::uint32_t partitions) : clock_(clock), partitions_(partitions) {}
MemoryBroker::~MemoryBroker() = default;

std::unique_ptr<Broker> MemoryBroker::member() { return std::make_unique<Member>(*this); }

void MemoryBroker::join(Member& member) {
  MutexLock lock(mutex_);
  members_.push_back(&member);
  share_out();
}

void MemoryBroker::leave(Member& member) {
  Completion<std::vector<InMessage>> waiting;
  {
    MutexLock lock(mutex_);
    if (std::exchange(member.closed_, true)) return;
    std::erase(members_, &member);
    waiting = std::move(member.wants_);
    share_out();
  }
  if (waiting) waiting(Error{ErrorCode::kEnded, "the broker's member has been closed"});
  serve();
}

void MemoryBroker::share_out() {
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    Member* owner = members_.empty() ? nullptr : members_[i % members_.size()];
    if (std::exchange(partitions_[i].owner, owner) != owner) partitions_[i].next = partitions_[i].acknowledged;
  }
}

void MemoryBroker::redeliver() {
  {
    MutexLock lock(mutex_);
    for (Partition& each : partitions_) each.next = each.acknowledged;
  }
  serve();
}

// Gives members that wait what there is for them.
void MemoryBroker::serve() {
  for (;;) {
    std::vector<InMessage> messages;
    Completion<std::vector<InMessage>> done;
    {
      MutexLock lock(mutex_);
      for (Partition& partition : partitions_) {
        Member* owner = partition.owner;
        if (owner == nullptr || !owner->wants_ || partition.next >= partition.log.size()) continue;
        while (partition.next < partition.log.size() && messages.size() < owner->most_) {
          messages.push_back(partition.log[partition.next++]);
        }
        done = std::move(owner->wants_);
        owner->wants_ = nullptr;
        break;
      }
    }
    if (!done) return;
    done(std::move(messages));
  }
}

std::vector<OutMessage> MemoryBroker::published(Topic topic) const {
  MutexLock lock(mutex_);
  return published_[static_cast<std::size_t>(topic)];
}

std::size_t MemoryBroker::unacknowledged() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const Partition& each : partitions_) count += each.log.size() - each.acknowledged;
  return count;
}

}  // namespace cohort

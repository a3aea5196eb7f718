#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/completion.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// The kinds of messages that a node reads from or publishes to a broker.
enum class Topic : std::uint8_t {
  kTasks,        ///< Incoming: tasks from other services.
  kDeadLetters,  ///< Outgoing: dead letters.
  kEvents,       ///< Outgoing: events of tasks.
};
inline constexpr std::size_t kTopics = 3;

/// A message to publish.
struct OutMessage {
  std::string key;  ///< The id of the task. Messages with one key keep their order.
  std::string value;
};

/// A message that was fetched.
struct InMessage {
  std::string key;
  std::string value;
  WallTime published_at{};
  std::uint32_t partition = 0;
  std::uint64_t offset = 0;
};

/// Delivers tasks from other services, and publishes events and dead letters. This is a port: MemoryBroker (testing/)
/// implements it. The tests in tests/contract define what every implementation must do.
///
/// Each object is one member of the consumer group of nodes. The broker gives every message to a member at least once.
/// A message that is not acknowledged may be delivered again, also to another member. A message is only a hint: the row
/// in the store decides.
///
/// Thread-safety: thread-safe.
class Broker {
 public:
  virtual ~Broker() = default;

  /// Publishes messages. They are durable when the call completes. kUnavailable: they may or may not be durable, so
  /// repeating the call may publish them twice.
  virtual void publish(Topic topic, std::vector<OutMessage> messages, Completion<void> done) = 0;
  /// Fetches the next messages of kTasks for this member, at most `most`. Completes when there is a message. Only one
  /// fetch may be in progress at a time. After close() it completes with kEnded.
  virtual void fetch(std::uint32_t most, Completion<std::vector<InMessage>> done) = 0;
  /// Tells the broker that these messages, and all earlier ones of their partitions, need not be delivered again.
  /// Messages of partitions that another member owns now are ignored.
  virtual void acknowledge(std::vector<InMessage> messages, Completion<void> done) = 0;
  /// Leaves the consumer group. Messages that were not acknowledged go to other members.
  virtual void close() = 0;
};

}  // namespace cohort

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/completion.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// What a node hears and tells through a broker.
enum class Topic : std::uint8_t {
  kTasks,        ///< The way in: tasks from other services.
  kDeadLetters,  ///< What ended badly.
  kEvents,       ///< What became of tasks.
};
inline constexpr std::size_t kTopics = 3;

struct OutMessage {
  std::string key;  ///< Messages of one key keep their order: the task's id.
  std::string value;
};

struct InMessage {
  std::string key;
  std::string value;
  WallTime published_at{};
  std::uint32_t partition = 0;
  std::uint64_t offset = 0;
};

/// Where tasks come from and where news go. This is a port: MemoryBroker (testing/) and others implement it, and
/// tests/contract says what all of them promise.
///
/// One object is one member of the group of nodes that share the work of taking messages in. Every message is given to
/// some member at least once, and again to another if it is not acknowledged; messages are hints, the store decides.
///
/// Thread-safety: thread-safe.
class Broker {
 public:
  virtual ~Broker() = default;

  /// Durable when it completes; kUnavailable: perhaps, and repeating it may make it twice.
  virtual void publish(Topic topic, std::vector<OutMessage> messages, Completion<void> done) = 0;
  /// The next messages of kTasks for this member, at most `most`; completes when there are some. One at a time. After
  /// close() it completes with kEnded.
  virtual void fetch(std::uint32_t most, Completion<std::vector<InMessage>> done) = 0;
  /// They, and all before them in their partitions, need not be given to anybody again. Those of a partition that
  /// somebody else has by now are ignored.
  virtual void acknowledge(std::vector<InMessage> messages, Completion<void> done) = 0;
  /// Leaves the group; what was not acknowledged goes to others.
  virtual void close() = 0;
};

}  // namespace cohort

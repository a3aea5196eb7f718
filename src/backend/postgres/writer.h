#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend/postgres/changes.h"
#include "backend/postgres/loop.h"

namespace cohort::postgres {

/// A connection that changes things. Calls that wait go together into one transaction: a round trip that reads, the
/// rules in memory, a round trip that writes and commits. So any number of calls costs two round trips and one fsync.
///
/// If a transaction fails in a way that may pass, its calls go through another one. If one call is to blame, the batch
/// is halved until that call is alone.
///
/// Thread-safety: confined to the loop's thread.
class Writer {
 public:
  struct Settings {
    std::int64_t format = 0;
    std::uint32_t max_batch = 200;
    Duration patience{};  ///< How long a call is repeated before it fails with kUnavailable.
    std::function<Duration()> offset;
    std::function<void(const StoreNews& news, bool has_events)> committed;
    std::function<void(const Failure&)> failed;
    std::function<void()> worked;
    std::function<std::string(const StoreNews& news, bool has_events)> notification;  ///< Empty: none is sent.
    std::string channel;
  };

  Writer(Loop& loop, Connect connect, const Settings& settings);

  void open() { link_.open(); }
  void add(ChangeRef change);
  /// Gives up what has waited for too long for a connection. Once a second.
  void look();
  /// Answers what waits with kEnded.
  void close();

 private:
  using Batch = std::vector<ChangeRef>;
  static constexpr int kTries = 8;
  static constexpr std::size_t kMostRows = 2'000;  // Of a transaction, about.

  void go_on();
  void begin();
  void read(Answers answers);
  void read_more(Answers answers);
  void decide();
  void written(Answers answers);
  void end(const std::optional<Error>& error);
  void fail(const Failure& failure);
  void try_again(const Failure& failure);
  void wait_apart(const Failure& failure);
  void roll_back();
  void give_up_old(const Failure& failure);

  Loop& loop_;
  const Settings& settings_;
  Link link_;
  std::deque<ChangeRef> queue_;
  Batch batch_;                               // Under way.
  std::unique_ptr<Transaction> transaction_;  // Of the batch.
  StoreNews news_;
  bool has_events_ = false;
  bool is_committing_ = false;
  bool is_pausing_ = false;  // Before the next try.
  int tries_ = 0;            // Of these calls, that failed in a row.
  std::size_t limit_ = 0;    // While a call to blame is looked for: calls in a batch; 0: max_batch.
  std::size_t limited_ = 0;  // For so many calls.
  std::size_t apart_ = 0;    // Calls that wait for locks of others.
};

}  // namespace cohort::postgres

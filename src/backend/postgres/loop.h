#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/postgres/session.h"
#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"
#include "cohort/base/random.h"

namespace cohort::postgres {

/// A connected and prepared PGconn, or why there is none. May block; called on the connector's thread.
using Connect = std::function<Result<ConnectionRef>()>;

class Loop;

/// A connection that is made anew, with growing and random pauses, whenever it is lost.
///
/// Thread-safety: confined to the loop's thread.
class Link {
 public:
  struct Hooks {
    std::function<void()> up = [] {};                                  ///< The session is there.
    std::function<void(const Failure&)> down = [](const Failure&) {};  ///< It is lost, or could not be made.
    std::function<void(const std::string&)> notified = [](const std::string&) {};
  };

  Link(Loop& loop, Connect connect, Hooks hooks)
      : loop_(loop), connect_(std::move(connect)), hooks_(std::move(hooks)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void open();
  /// Null while there is no connection.
  [[nodiscard]] Session* session() { return session_.get(); }
  /// Drops the connection, and makes a new one.
  void reset(const Failure& failure);
  void close();

 private:
  friend class Loop;
  static constexpr Duration kFirstPause = std::chrono::milliseconds(50);
  static constexpr Duration kLongestPause = std::chrono::seconds(2);
  static constexpr Duration kLongestSilence = std::chrono::seconds(8);  // Longer than statement_timeout.

  void pump();
  void connected(Result<ConnectionRef> connection);
  void try_again();

  Loop& loop_;
  const Connect connect_;
  const Hooks hooks_;
  std::unique_ptr<Session> session_;
  Duration pause_ = kFirstPause;
  bool is_closed_ = false;
};

/// The thread that drives all connections of a store. A second thread makes connections, because that may block: names
/// are looked up, and a server that is frozen does not answer.
///
/// Thread-safety: post() is thread-safe; the lock guards the calls that were posted. All else is the loop's thread's.
class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() { stop(); }

  void start();
  /// Ends both threads. What was posted and not run is dropped.
  void stop();
  void post(Function<void()> call);
  void call_in(Duration delay, Function<void()> call);
  /// Makes all of these calls now: for an end that keeps nobody waiting.
  void call_all_timers();
  /// Polls the link from now on. Links must outlive the loop's thread.
  void add(Link& link) { links_.push_back(&link); }
  [[nodiscard]] Random& random() { return random_; }

 private:
  friend class Link;
  using Connected = Function<void(Result<ConnectionRef>)>;

  void run();
  void run_posted();
  void run_timers();
  void poll();
  void connect(const Connect& connect, Connected done);
  void run_connector();

  const int wake_;
  std::vector<Link*> links_;
  std::multimap<Time, Function<void()>> timers_;
  Random random_;

  Mutex mutex_;
  CondVar wanted_;
  std::vector<Function<void()>> posted_ COHORT_GUARDED_BY(mutex_);
  bool sleeps_ COHORT_GUARDED_BY(mutex_) = false;
  bool ended_ COHORT_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<Connect, Connected>> connects_ COHORT_GUARDED_BY(mutex_);
  std::thread thread_;
  std::thread connector_;
};

}  // namespace cohort::postgres

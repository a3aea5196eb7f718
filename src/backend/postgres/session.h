#pragma once

#include <libpq-fe.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/postgres/wire.h"
#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/result.h"

namespace cohort::postgres {

/// A statement that is prepared once on each connection. Both texts are literals; the name is its address's stand-in.
struct Statement {
  const char* name;
  const char* sql;
};

/// A copy of the text that lives as long as the program: statements are put together once.
[[nodiscard]] const char* kept_sql(const std::string& sql);

struct Query {
  const Statement* statement;
  Parameters parameters = {};
};

/// What went wrong with a statement.
struct Failure {
  std::string state;  ///< SQLSTATE; empty: the connection is lost, or nothing is known.
  std::string message;

  /// The connection is gone: it is not known whether the transaction was committed.
  [[nodiscard]] bool is_lost() const { return state.empty(); }
  /// The same may succeed if it is done again: a deadlock, a time-out, a server that is about to stop or only starts.
  [[nodiscard]] bool may_pass() const;
  [[nodiscard]] Error to_error() const;
};

/// The answers to the statements of one round trip, up to the first that failed.
struct Answers {
  std::vector<ResultRef> results = {};
  std::optional<Failure> failure = {};
  bool was_warned = false;  ///< The server sent a warning, such as "committed, but not known to be replicated".
};

using Answered = Function<void(Answers)>;

using ConnectionRef = std::unique_ptr<PGconn, decltype(&PQfinish)>;

/// A connection in pipeline mode. A round trip is some statements and a Sync: the statements after one that fails are
/// skipped. Several round trips may be on their way; they are answered in order.
///
/// Thread-safety: confined to the loop's thread.
class Session {
 public:
  explicit Session(ConnectionRef connection);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Round trips that are not answered are dropped without an answer. Call lose() first.
  ~Session() = default;

  /// Sends the statements and a Sync. `done` is called from pump() or lose().
  void exchange(std::vector<Query> queries, Answered done);
  /// The oldest round trip has had no answer for so long. (A server that is frozen closes no connection.)
  [[nodiscard]] Duration silence() const {
    return trips_.empty() ? Duration::zero() : std::chrono::steady_clock::now() - trips_.front().since;
  }

  [[nodiscard]] int socket() const { return PQsocket(connection_.get()); }
  /// There are bytes that the socket did not take.
  [[nodiscard]] bool wants_to_write() const { return wants_to_write_; }
  /// Reads what came and writes what waits. Nothing if all is well, else why the connection is lost.
  [[nodiscard]] std::optional<Failure> pump();
  /// Answers everything that is under way with this failure.
  void lose(const Failure& failure);
  /// The next notification, if one has come.
  [[nodiscard]] std::optional<std::string> notification();

 private:
  struct Trip {
    Answered done;
    Answers answers;
    Time since = std::chrono::steady_clock::now();
  };
  struct Sent {
    enum class Kind { kPrepare, kExecute, kSync } kind;
    const Statement* statement;
  };

  void send(const Query& query);
  void note(const Sent& sent, ResultRef result);
  [[nodiscard]] Failure lost() const;
  static void note_notice(void* self, const PGresult* notice);

  static constexpr Duration kPlansFor = std::chrono::seconds(5);

  ConnectionRef connection_;
  Time planned_ = std::chrono::steady_clock::now();
  bool wants_to_write_ = false;
  bool is_broken_ = false;
  bool was_warned_ = false;
  std::unordered_set<const Statement*> prepared_;
  std::deque<Sent> sent_;
  std::deque<Trip> trips_;
};

}  // namespace cohort::postgres

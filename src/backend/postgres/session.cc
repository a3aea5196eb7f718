#include "backend/postgres/session.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "cohort/base/log.h"

namespace cohort::postgres {

const char* kept_sql(const std::string& sql) {
  char* const text = new char[sql.size() + 1];
  std::memcpy(text, sql.c_str(), sql.size() + 1);
  return text;
}

bool Failure::may_pass() const {
  static constexpr std::array<std::string_view, 10> kPassing = {
      "40001",  // serialization_failure
      "40P01",  // deadlock_detected
      "55P03",  // lock_not_available
      "57014",  // query_canceled: a time-out
      "57P01",  // admin_shutdown
      "57P02",  // crash_shutdown
      "57P03",  // cannot_connect_now
      "57P05",  // idle_session_timeout
      "25P03",  // idle_in_transaction_session_timeout
      "23505",  // unique_violation: another node has just made the same row, and the repetition sees it
  };
  if (is_lost() || state.starts_with("08") || state.starts_with("53")) return true;
  for (const std::string_view each : kPassing) {
    if (state == each) return true;
  }
  return state == "25006" || state == "25P02";  // A standby; a transaction that has failed before.
}

Error Failure::to_error() const {
  const std::string what = "the PostgreSQL store: " + message + (state.empty() ? "" : " (" + state + ")");
  return {may_pass() ? ErrorCode::kUnavailable : ErrorCode::kInternal, what};
}

Session::Session(ConnectionRef connection) : connection_(std::move(connection)) {
  PQsetNoticeReceiver(connection_.get(), &Session::note_notice, this);
  PQsetnonblocking(connection_.get(), 1);
  is_broken_ = PQenterPipelineMode(connection_.get()) == 0;
}

void Session::note_notice(void* self, const PGresult* notice) {
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity == nullptr || std::strcmp(severity, "WARNING") != 0) return;
  static_cast<Session*>(self)->was_warned_ = true;
  const char* const text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
  COHORT_LOG(kWarning, "store", "the PostgreSQL server warns", {"error", std::string(text != nullptr ? text : "")});
}

void Session::exchange(std::vector<Query> queries, Answered done) {
  trips_.push_back({std::move(done), {}});
  // Plans are made for tables as they were: what was planned for empty ones must not stay.
  const Time now = std::chrono::steady_clock::now();
  if (now - planned_ >= kPlansFor) {
    planned_ = now;
    if (PQsendQueryParams(connection_.get(), "DISCARD PLANS", 0, nullptr, nullptr, nullptr, nullptr, 0) == 0) {
      is_broken_ = true;
    }
    sent_.push_back({Sent::Kind::kPrepare, nullptr});
  }
  for (const Query& each : queries) send(each);
  if (PQpipelineSync(connection_.get()) == 0) is_broken_ = true;
  sent_.push_back({Sent::Kind::kSync, nullptr});
  wants_to_write_ = PQflush(connection_.get()) != 0;
}

void Session::send(const Query& query) {
  if (prepared_.insert(query.statement).second) {
    if (PQsendPrepare(connection_.get(), query.statement->name, query.statement->sql, 0, nullptr) == 0) {
      is_broken_ = true;
    }
    sent_.push_back({Sent::Kind::kPrepare, query.statement});
  }
  const std::vector<std::string>& values = query.parameters.values();
  std::vector<const char*> texts;
  std::vector<int> lengths;
  for (const std::string& each : values) {
    texts.push_back(each.data());
    lengths.push_back(static_cast<int>(each.size()));
  }
  const std::vector<int> formats(values.size(), 1);
  if (PQsendQueryPrepared(connection_.get(), query.statement->name, static_cast<int>(values.size()), texts.data(),
                          lengths.data(), formats.data(), 1) == 0) {
    is_broken_ = true;
  }
  sent_.push_back({Sent::Kind::kExecute, query.statement});
}

Failure Session::lost() const { return {"", std::string(PQerrorMessage(connection_.get()))}; }

std::optional<Failure> Session::pump() {
  PGconn* const connection = connection_.get();
  if (is_broken_ || PQconsumeInput(connection) == 0 || PQstatus(connection) != CONNECTION_OK) return lost();
  while (!sent_.empty() && PQisBusy(connection) == 0) {
    ResultRef result(PQgetResult(connection), &PQclear);
    if (!result) continue;  // The end of a statement's results.
    const Sent sent = sent_.front();
    sent_.pop_front();
    note(sent, std::move(result));
    if (PQstatus(connection) != CONNECTION_OK) return lost();
  }
  const int flushed = PQflush(connection);
  if (flushed < 0) return lost();
  wants_to_write_ = flushed != 0;
  return std::nullopt;
}

void Session::note(const Sent& sent, ResultRef result) {
  const ExecStatusType status = PQresultStatus(result.get());
  if (sent.kind == Sent::Kind::kSync) {
    Trip trip = std::move(trips_.front());
    trips_.pop_front();
    if (!trips_.empty()) trips_.front().since = std::chrono::steady_clock::now();
    trip.answers.was_warned = std::exchange(was_warned_, false);
    trip.done(std::move(trip.answers));
    return;
  }
  Answers& answers = trips_.front().answers;
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
    if (sent.kind == Sent::Kind::kExecute) answers.results.push_back(std::move(result));
    return;
  }
  if (sent.kind == Sent::Kind::kPrepare) prepared_.erase(sent.statement);
  if (answers.failure) return;
  const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
  const char* const text = PQresultErrorField(result.get(), PG_DIAG_MESSAGE_PRIMARY);
  answers.failure = Failure{state != nullptr ? state : "", text != nullptr ? text : "the statement was not run"};
}

void Session::lose(const Failure& failure) {
  is_broken_ = true;
  sent_.clear();
  std::deque<Trip> trips = std::exchange(trips_, {});
  for (Trip& each : trips) {
    if (!each.answers.failure || !failure.is_lost()) each.answers.failure = failure;
    each.answers.failure->state = failure.state;
    each.done(std::move(each.answers));
  }
}

std::optional<std::string> Session::notification() {
  const std::unique_ptr<PGnotify, decltype(&PQfreemem)> notify(PQnotifies(connection_.get()), &PQfreemem);
  if (!notify) return std::nullopt;
  return std::string(notify->extra);
}

}  // namespace cohort::postgres

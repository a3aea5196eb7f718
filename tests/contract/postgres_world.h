#pragma once

// A PostgreSQL store for a test: tables of its own on the server that tests/servers/postgres.sh has started.

#include <gtest/gtest.h>

#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "cohort/backend/postgres/postgres_store.h"
#include "contract/stores.h"

namespace cohort {

/// The URL of the server for tests.
inline std::string postgres_url() {
  if (const char* url = std::getenv("COHORT_TEST_POSTGRES")) return url;
  std::ifstream file(COHORT_POSTGRES_FOLDER "/url");
  std::string url;
  if (std::getline(file, url)) return url;
  throw std::runtime_error(
      "no PostgreSQL server for tests: run tests/servers/postgres.sh start " COHORT_POSTGRES_FOLDER);
}

/// A connection of the test's own, beside those of the store.
class PostgresSession {
 public:
  explicit PostgresSession(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_));
  }
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;
  ~PostgresSession() { PQfinish(connection_); }

  /// The first column of the first row; empty: there is none. A failure is in last_error().
  std::string run(const std::string& sql) {
    PGresult* const result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    last_error_ = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? "" : PQresultErrorMessage(result);
    std::string value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    PQclear(result);
    return value;
  }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  PGconn* connection_;
  std::string last_error_;
};

class PostgresStoreWorld : public StoreWorld {
 public:
  PostgresStoreWorld() { restart(); }
  ~PostgresStoreWorld() override {
    store_.reset();
    session().run("DROP SCHEMA IF EXISTS " + schema_ + " CASCADE");
  }

  [[nodiscard]] TaskStore& store() override { return *store_; }
  void restart() override {
    store_.reset();
    auto opened = PostgresStore::open(options());
    if (!opened) throw std::runtime_error(opened.error().message);
    store_ = *std::move(opened);
  }
  [[nodiscard]] WallTime now() override {
    return system_wall_clock().now() + std::chrono::duration_cast<std::chrono::microseconds>(offset());
  }
  [[nodiscard]] Duration slack() const override { return std::chrono::steady_clock::now() - begin_ + kRounding; }
  [[nodiscard]] bool has_two_clocks() const override { return false; }

  [[nodiscard]] PostgresOptions options() {
    return {.url = postgres_url(), .schema = schema_, .lease_clock = &clock, .offset = [this] { return offset(); }};
  }
  [[nodiscard]] const std::string& schema() const { return schema_; }
  [[nodiscard]] Duration offset() const { return clock.now() - VirtualClock().now(); }
  /// A connection with the search path of the store.
  [[nodiscard]] PostgresSession& session() {
    if (!session_) {
      session_ = std::make_unique<PostgresSession>(postgres_url());
      session_->run("SET client_min_messages = warning; SET search_path = " + schema_);
    }
    return *session_;
  }

 private:
  static constexpr Duration kRounding = std::chrono::milliseconds(1);

  const std::string schema_ =
      "test_" + std::to_string(std::random_device()()) + "_" + std::to_string(std::random_device()());
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::unique_ptr<PostgresStore> store_;
  std::unique_ptr<PostgresSession> session_;
};

/// New tasks come in through the SQL function, as another program puts them in.
class PostgresSqlWorld final : public PostgresStoreWorld {
 public:
  [[nodiscard]] std::optional<Result<Submitted>> submit_otherwise(const NewTask& task) override {
    const auto is_plain = [](const ChainStep& step) { return step.parameters == "{}" && !step.timeout && !step.retry; };
    const bool is_new = !wait<ChainTask>([&](auto done) { store().get(task.id, std::move(done)); });
    if (!is_new || !check(task) || task.id.empty() || task.pending || task.deadline_at || task.steps.empty() ||
        task.payload != "{}" || !task.idempotency_key.empty() || !std::ranges::all_of(task.steps, is_plain)) {
      return std::nullopt;
    }
    session().run("SELECT set_config('cohort.clock_offset', '" + microseconds(offset()) + "', false)");
    std::string steps;
    for (const ChainStep& each : task.steps) steps += (steps.empty() ? "\"" : ", \"") + each.plugin + "\"";
    std::string tags;
    for (const std::string& each : task.tags) tags += (tags.empty() ? "'" : ", '") + each + "'";
    static constexpr const char* kPriorities[] = {"high", "normal", "low"};
    std::string call = "SELECT submit('" + task.group + "', '[" + steps + "]', id => '" + task.id + "', priority => '" +
                       kPriorities[static_cast<std::size_t>(task.priority)] + "', tags => ARRAY[" + tags +
                       "]::text[], file => '" + task.file + "', session => '" + task.session + "'";
    if (task.deadline) call += ", deadline => interval '" + microseconds(*task.deadline) + " microseconds'";
    if (task.start_at) {
      const auto micros = std::to_string(task.start_at->time_since_epoch().count());
      call += ", start_at => timestamptz 'epoch' + " + micros + " * interval '1 microsecond'";
    }
    const std::string id = session().run(call + ")");
    if (!session().last_error().empty()) return Error{ErrorCode::kInternal, session().last_error()};
    return Submitted{id, ChainState::kReady, false};
  }

 private:
  static std::string microseconds(Duration length) {
    return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(length).count());
  }
};

}  // namespace cohort

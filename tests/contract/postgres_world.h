#pragma once

// A PostgreSQL store for a test: tables of its own on the server that tests/servers/postgres.sh has started.

#include <gtest/gtest.h>

#include <libpq-fe.h>

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

class PostgresStoreWorld final : public StoreWorld {
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

}  // namespace cohort

#include "backend/postgres/connecting.h"

#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "backend/postgres/schema.h"
#include "cohort/base/log.h"

namespace cohort::postgres {

namespace {

Error cannot_connect(PGconn* connection) {
  std::string why = connection != nullptr ? PQerrorMessage(connection) : "there is no memory";
  while (!why.empty() && why.back() == '\n') why.pop_back();
  return {ErrorCode::kUnavailable, "the PostgreSQL store cannot connect: " + without_secrets(why)};
}

Result<std::string> password_of(const PostgresOptions& options) {
  if (options.password_file.empty()) return std::string();
  std::ifstream file(options.password_file);
  std::string password((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) password.pop_back();
  if (!file.good() && password.empty()) {
    return Error{ErrorCode::kInvalid,
                 "the password file '" + options.password_file.string() + "' cannot be read or is empty"};
  }
  return password;
}

// Waits are bounded by the session itself, so that a node that is frozen in a transaction keeps no locks. Writers and
// readers of single rows get the plans that index look-ups need, however little the server knows of the tables.
std::string settings_of(const PostgresOptions& options, Purpose purpose) {
  std::string sql = "SET search_path = " + quoted(options.schema) +
                    ", pg_catalog; SET client_min_messages = warning; SET idle_in_transaction_session_timeout = '2s'; "
                    "SET lock_timeout = '1s'; SET statement_timeout = '6s'; SET plan_cache_mode = force_generic_plan; "
                    "SET jit = off; SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
                    "WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)";
  if (purpose == Purpose::kWrite || purpose == Purpose::kRead) {
    sql +=
        "; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off";
  }
  return sql;
}

std::string text(PGconn* connection, const char* sql) {
  const ResultRef result(PQexec(connection, sql), &PQclear);
  const bool is_good = PQresultStatus(result.get()) == PGRES_TUPLES_OK && rows_of(result) == 1;
  return is_good ? PQgetvalue(result.get(), 0, 0) : "";
}

}  // namespace

Result<ConnectionRef> connect(const PostgresOptions& options, Purpose purpose, ServerNote& note) {
  const Result<std::string> password = password_of(options);
  if (!password) return password.error();
  const std::string timeout = std::to_string(
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(options.connect_timeout).count(), 2));
  // A server that has gone without a word is noticed after about ten seconds.
  std::vector<const char*> names = {"dbname",          "application_name", "client_encoding",     "connect_timeout",
                                    "keepalives_idle", "keepalives_count", "keepalives_interval", "tcp_user_timeout"};
  std::vector<const char*> values = {options.url.c_str(), "cohort", "UTF8", timeout.c_str(), "5", "3", "2", "10000"};
  if (options.url.find("target_session_attrs") == std::string::npos) {
    names.push_back("target_session_attrs");
    values.push_back("read-write");
  }
  if (!password->empty()) {
    names.push_back("password");
    values.push_back(password->c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  ConnectionRef connection(PQconnectdbParams(names.data(), values.data(), 1), &PQfinish);
  PGconn* const raw = connection.get();
  if (PQstatus(raw) != CONNECTION_OK) return cannot_connect(raw);
  if (PQserverVersion(raw) < 150000) {
    return Error{ErrorCode::kInvalid, "the PostgreSQL store needs a server of version 15 or newer; this one is " +
                                          std::string(PQparameterStatus(raw, "server_version"))};
  }
  if (std::string(PQparameterStatus(raw, "server_encoding")) != "UTF8") {
    return Error{ErrorCode::kInvalid, "the PostgreSQL store needs a database with the encoding UTF8; this one has " +
                                          std::string(PQparameterStatus(raw, "server_encoding"))};
  }
  // A pooler answers for several servers' sessions with a process number of its own.
  if (text(raw, "SELECT pg_catalog.pg_backend_pid()") != std::to_string(PQbackendPID(raw))) {
    return Error{
        ErrorCode::kInvalid,
        "there is a connection pooler (such as PgBouncer) between this node and the PostgreSQL server; the store "
        "uses LISTEN and prepared statements, so connect to the server itself"};
  }
  const ResultRef set(PQexec(raw, settings_of(options, purpose).c_str()), &PQclear);
  if (PQresultStatus(set.get()) != PGRES_TUPLES_OK && PQresultStatus(set.get()) != PGRES_COMMAND_OK) {
    return cannot_connect(raw);
  }
  note.timeline = text(raw,
                       "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE "
                       "substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END");
  return connection;
}

}  // namespace cohort::postgres

namespace cohort {

std::string place_of(const PostgresOptions& options) {
  const std::string& url = options.url;
  const std::string schema = ", schema " + options.schema;
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return without_secrets(url) + schema;
  const std::size_t at = url.find('@', scheme);
  const std::size_t begin = at != std::string::npos ? at + 1 : scheme + 3;
  return url.substr(begin, url.find('?', begin) - begin) + schema;
}

}  // namespace cohort

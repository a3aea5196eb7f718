#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "cohort/node/node_config.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

auto fields(const AdminConfig& a) {
  return std::tuple(a.address, a.port, a.threads, a.max_connections, a.max_event_streams, a.max_body, a.max_header,
                    a.request_timeout, a.idle_timeout, a.write_timeout);
}
auto fields(const ChainOptions& c) {
  return std::tuple(c.concurrency, c.step_timeout, c.chain_limit, c.retry, c.longest_wait_in_place, c.keep,
                    c.overrun_grace, c.lease, c.renew_every, c.look_every, c.retention, c.work_folder);
}
auto fields(const SqliteOptions& s) { return std::tuple(s.folder, s.synchronous, s.max_queued, s.max_batch); }
auto fields(const ExecProgram& p) {
  return std::tuple(p.path, p.arguments, p.environment, p.max_output, p.max_memory, p.max_processes, p.cpu_time,
                    p.kill_after);
}
auto fields(const HttpPool& p) {
  return std::tuple(p.urls, p.timeout, p.max_attempts, p.max_concurrent, p.breaker, p.backup_urls, p.auth_is_failure,
                    p.panic_share);
}
auto fields(const HttpPluginOptions& h) { return std::tuple(h.allow_private, h.allow_urls, h.timeout, h.max_response); }
auto fields(const FileSourceOptions& f) {
  return std::tuple(f.roots, f.allow_http, f.allow_private, f.max_bytes, f.timeout);
}
auto fields(const NodeConfig& c) {
  return std::tuple(
      std::tuple(c.name, c.log.level, c.log.format, c.log.file, c.drain_grace, c.groups, c.group_defaults),
      fields(c.chains), fields(c.store.sqlite), fields(c.admin), c.exec.programs.size(), fields(c.http),
      c.http.pools.size(), fields(c.files));
}

TEST(ConfigValuesTest, EmptyTextsAreTheDefaults) {
  for (const char* text :
       {"", "\n", "# nothing\n", "---\n", "{}", "chains:\nstore:\ngroups:\n", "plugins: {exec: }\n"}) {
    const Result<NodeConfig> config = parse_config(text);

    ASSERT_TRUE(config) << text << config.error();
    EXPECT_TRUE(fields(*config) == fields(NodeConfig{})) << text;
  }
}

TEST(ConfigValuesTest, TheOlderLogLevelCountsUnlessTheNewerIsThere) {
  EXPECT_EQ(parse_config("node: {log_level: debug}")->log.level, LogLevel::kDebug);
  for (const char* text :
       {"node: {log_level: debug}\nlog: {level: error}", "log: {level: error}\nnode: {log_level: debug}"}) {
    EXPECT_EQ(parse_config(text)->log.level, LogLevel::kError) << text;
  }
}

TEST(ConfigValuesTest, WhatAProgramMayLeave) {
  const auto config = parse_config(
      "chains: {poison_after: 4}\nplugins: {exec: {programs: {p: {path: /bin/p, output: text, artifacts: out, "
      "max_artifacts: 5MiB}}}}");
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->chains.poison_after, 4U);
  const ExecProgram& program = config->exec.programs.at("p");
  EXPECT_EQ(program.output, ExecProgram::Output::kText);
  EXPECT_EQ(program.artifacts, "out");
  EXPECT_EQ(program.max_artifacts, 5U << 20U);
}

TEST(ConfigValuesTest, EveryKeySetsItsMember) {
  const Result<NodeConfig> config = parse_config(R"(
node: {name: n7, log_level: debug, drain_grace: 1m}
log: {level: error, format: json, file: /var/log/x}
groups:
  defaults: {max_concurrency: 5}
  "vip:*": {max_concurrency: 8, weight: 4.5, max_in_flight: unlimited, max_overrunning: 9,
            rate: {count: 10, period: 2s, burst: 20}}
chains:
  {concurrency: 5, step_timeout: 1m, chain_limit: 2m, longest_wait_in_place: 3s, keep: 4m, overrun_grace: 5s,
   lease: 20s, renew_every: 6s, look_every: 7s, work_folder: /w,
   retry: {max_retries: 8, backoff: 9s, multiplier: 3, max_backoff: 10m, jitter: 0.5}}
store: {sqlite: {folder: data, synchronous: off, max_queued: 11, max_batch: 12}}
admin:
  {address: "::1", port: 0, threads: 13, max_connections: 14, max_event_streams: 15, max_body: 16KiB, max_header: 17KiB,
   request_timeout: 18s, idle_timeout: 19s, write_timeout: 20s}
plugins:
  exec:
    programs:
      p: {path: /bin/p, arguments: ["{file}", 2, ''], environment: {A: b, C: 1}, max_output: 21, max_memory: 22MiB,
          max_processes: 23, cpu_time: 24s, kill_after: 25s}
  http: {allow_urls: false, allow_private: true, timeout: 26s, max_response: 27}
  files: {roots: [/a, /b], allow_http: false, allow_private: true, max_bytes: 28, timeout: 29s}
providers:
  b: {urls: [http://x], timeout: 30s, max_attempts: 31, max_concurrent: 32, backup_urls: [http://y],
      auth_is_failure: true, panic_share: 0.5,
      breaker: {min_calls: 33, error_rate_threshold: 0.34, slow_call_threshold: 35s, slow_rate_threshold: 0.36,
                consecutive_failure_threshold: 37, open_base: 38s, open_max: 39s, open_backoff_multiplier: 4,
                open_jitter_ratio: 0.41, permitted_calls_in_half_open: 42, half_open_success_threshold: 41,
                half_open_failure_threshold: 40, half_open_max_duration: 43s, shadow: true}}
retention: {tasks: 0}
)");

  ASSERT_TRUE(config) << config.error();
  NodeConfig expected;
  expected.name = "n7";
  expected.log = {.level = LogLevel::kError, .format = LogConfig::Format::kJson, .file = "/var/log/x"};
  expected.drain_grace = 1min;
  expected.group_defaults.max_concurrency = 5;
  GroupLimits& vip = expected.groups["vip:*"];
  vip.max_concurrency = 8;
  vip.weight = 4.5;
  vip.max_in_flight = kUnlimited;
  vip.max_overrunning = 9;
  vip.rate = Rate{.count = 10, .period = 2s, .burst = 20};
  ChainOptions& chains = expected.chains;
  std::tie(chains.concurrency, chains.step_timeout, chains.chain_limit) = std::tuple(5, 1min, 2min);
  std::tie(chains.longest_wait_in_place, chains.keep, chains.overrun_grace) = std::tuple(3s, 4min, 5s);
  std::tie(chains.lease, chains.renew_every, chains.look_every, chains.retention) = std::tuple(20s, 6s, 7s, 0s);
  chains.work_folder = "/w";
  chains.retry = {.max_retries = 8, .backoff = 9s, .multiplier = 3, .max_backoff = 10min, .jitter = 0.5};
  expected.store.sqlite.folder = "data";
  expected.store.sqlite.synchronous = SqliteOptions::Synchronous::kOff;
  expected.store.sqlite.max_queued = 11;
  expected.store.sqlite.max_batch = 12;
  expected.admin = {"::1", 0, 13, 14, 15, 16U << 10U, 17U << 10U, 18s, 19s, 20s};
  expected.http.allow_urls = false;
  expected.http.allow_private = true;
  expected.http.timeout = 26s;
  expected.http.max_response = 27;
  expected.files = {.roots = {"/a", "/b"}, .allow_http = false, .allow_private = true, .max_bytes = 28, .timeout = 29s};
  expected.exec.programs["p"] = {"/bin/p", {"{file}", "2", ""}, {{"A", "b"}, {"C", "1"}}, 21, 22U << 20U, 23, 24s, 25s};
  HttpPool& pool = expected.http.pools["b"];
  std::tie(pool.timeout, pool.max_attempts, pool.max_concurrent) = std::tuple(30s, 31, 32);
  pool.urls = {"http://x"};
  pool.backup_urls = {"http://y"};
  std::tie(pool.auth_is_failure, pool.panic_share) = std::tuple(true, 0.5);
  BreakerOptions& breaker = pool.breaker;
  std::tie(breaker.min_calls, breaker.consecutive_failure_threshold) = std::tuple(33, 37);
  std::tie(breaker.error_rate_threshold, breaker.slow_rate_threshold) = std::tuple(0.34, 0.36);
  std::tie(breaker.open_backoff_multiplier, breaker.open_jitter_ratio) = std::tuple(4, 0.41);
  std::tie(breaker.slow_call_threshold, breaker.half_open_max_duration) = std::tuple(35s, 43s);
  std::tie(breaker.open_base, breaker.open_max) = std::tuple(38s, 39s);
  std::tie(breaker.permitted_calls_in_half_open, breaker.half_open_success_threshold) = std::tuple(42, 41);
  breaker.half_open_failure_threshold = 40;
  breaker.shadow = true;
  EXPECT_TRUE(fields(*config) == fields(expected));
  EXPECT_TRUE(fields(config->exec.programs.at("p")) == fields(expected.exec.programs["p"]));
  EXPECT_TRUE(fields(config->http.pools.at("b")) == fields(pool));
}

}  // namespace
}  // namespace cohort

#pragma once

// What the database of a release holds: make_database writes it, upgrade_test.cc reads it with the program of today.

#include <chrono>
#include <string>
#include <vector>

#include "cohort/store/chain_task.h"

namespace cohort {

struct ReleaseTask {
  NewTask request;
  ChainState state;
  std::uint32_t step = 0;
};

inline NewTask two_steps(std::string id, std::string group) {
  using namespace std::chrono_literals;
  NewTask task{.id = std::move(id), .group = std::move(group)};
  task.deadline = 1h;  // Version 0.1 wrote the default into every row.
  task.steps.push_back({.plugin = "first", .parameters = R"({"width":200})", .timeout = 5s});
  task.steps.push_back({.plugin = "second", .retry = RetryPolicy{.max_retries = 2, .backoff = 1s}});
  return task;
}

/// One task in every state, and those with everything that a task can have.
inline std::vector<ReleaseTask> release_tasks(WallTime now) {
  using namespace std::chrono_literals;
  std::vector<ReleaseTask> all = {
      {two_steps("completed", "a"), ChainState::kCompleted, 2},
      {two_steps("failed", "a"), ChainState::kFailed, 1},
      {two_steps("cancelled", "a"), ChainState::kCancelled},
      {two_steps("expired", "expired"), ChainState::kExpired},
      {two_steps("poison", "poison"), ChainState::kPoison},
      {two_steps("pending", "a"), ChainState::kPending},
      {two_steps("processing", "busy"), ChainState::kProcessing, 1},
      {two_steps("delayed", "late"), ChainState::kReady},
      {two_steps("scheduled", "a"), ChainState::kReady},
      {two_steps("paused", "paused"), ChainState::kReady},
      {two_steps("full", "full"), ChainState::kReady},
      {two_steps("large", "full"), ChainState::kReady},
  };
  const auto task = [&](const std::string& id) -> NewTask& {
    for (ReleaseTask& each : all) {
      if (each.request.id == id) return each.request;
    }
    std::abort();
  };
  task("expired").deadline = 1s;
  task("pending").pending = true;
  task("pending").deadline = 100h;
  for (const char* id : {"processing", "delayed", "paused", "full", "large"}) task(id).deadline = 1000h;
  task("scheduled").start_at = now + 24h;
  NewTask& full = task("full");
  full.session = "session-1";
  full.file = "file:/srv/files/1.png";
  full.payload = R"({"text":"Gr\u00fc\u00dfe","list":[1,2,{"x":null}]})";
  full.deadline_at = now + 1000h;
  full.priority = Priority::kHigh;
  full.tags = {"blue", "gr\xC3\xBCn"};
  full.idempotency_key = "key-1";
  task("large").steps[0].parameters = R"({"text":")" + std::string(5000, 'x') + "\"}";
  return all;
}

}  // namespace cohort

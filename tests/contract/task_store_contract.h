#pragma once

// The fixture of what every TaskStore promises.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/stores.h"

namespace cohort {

using namespace std::chrono_literals;

enum class StoreKind { kMemory, kSqlite };

enum class Kind { kMemory, kSqlite };

class TaskStoreContract : public testing::TestWithParam<StoreKind> {
 protected:
  TaskStoreContract() {
    if (GetParam() == StoreKind::kMemory) {
      world_ = std::make_unique<MemoryStoreWorld>();
    } else {
      world_ = std::make_unique<SqliteStoreWorld>();
    }
    EXPECT_TRUE(join("boot-a"));
  }

  TaskStore& store() { return world_->store(); }
  void advance(Duration duration) { world_->clock.advance(duration); }
  WallTime now() { return world_->wall.now(); }

  static NewTask task(const std::string& id, const std::string& group = "g", std::size_t steps = 2) {
    NewTask made{.id = id, .group = group};
    for (std::size_t i = 0; i < steps; ++i) made.steps.push_back({.plugin = "p" + std::to_string(i)});
    return made;
  }
  Result<Submitted> submit(NewTask made) {
    auto answer = wait<std::vector<Result<Submitted>>>([&](auto done) { store().submit({made}, std::move(done)); });
    return answer ? answer->at(0) : Result<Submitted>(answer.error());
  }
  IntakeOutcome take_in(TakenIn message) {
    return wait<std::vector<IntakeAnswer>>([&](auto done) { store().take_in({message}, std::move(done)); })
        ->at(0)
        .outcome;
  }
  Result<void> join(const std::string& boot, Duration lease = 15s) {
    return wait<void>([&](auto done) { store().join({"node", boot}, lease, std::move(done)); });
  }
  Result<void> renew(const std::string& boot) {
    return wait<void>([&](auto done) { store().renew(boot, 15s, std::move(done)); });
  }
  std::vector<std::string> take_over(const std::string& boot, bool all_others = false) {
    return *wait<std::vector<std::string>>([&](auto done) { store().take_over(boot, all_others, std::move(done)); });
  }
  Result<ClaimAnswer> claim(ClaimRequest request) {
    if (request.id.empty()) request.id = "claim-" + std::to_string(++claims_);
    return wait<ClaimAnswer>([&](auto done) { store().claim(request, std::move(done)); });
  }
  ClaimAnswer claim(const std::string& group = "g", const std::string& boot = "boot-a") {
    return *claim(ClaimRequest{.id = "", .boot = boot, .group = group});
  }
  Result<ChainRow> write(const ChainTask& claimed, std::uint64_t number, RunnerWrite what) {
    return wait<ChainRow>([&](auto done) {
      store().write({claimed.id(), claimed.owner, claimed.epoch}, number, what, std::move(done));
    });
  }
  ChainTask get(const std::string& id) {
    return *wait<ChainTask>([&](auto done) { store().get(id, std::move(done)); });
  }
  Result<ChainRow> cancel(const std::string& id) {
    return wait<ChainRow>([&](auto done) { store().cancel(id, "no longer wanted", std::move(done)); });
  }
  Result<ChainTask> replay(ReplayRequest request) {
    return wait<ChainTask>([&](auto done) { store().replay(request, std::move(done)); });
  }
  void pause(const std::string& group, bool paused) {
    ASSERT_TRUE(wait<void>([&](auto done) { store().pause_group(group, paused, std::move(done)); }));
  }
  std::vector<DeadLetter> letters() {
    return *wait<std::vector<DeadLetter>>([&](auto done) { store().dead_letters("", 100, std::move(done)); });
  }
  std::vector<std::string> event_kinds(std::uint64_t after = 0) {
    std::vector<std::string> kinds;
    const auto events = wait<std::vector<ChainEvent>>([&](auto done) { store().events(after, 100, std::move(done)); });
    for (const ChainEvent& each : *events) kinds.emplace_back(to_string(each.kind));
    return kinds;
  }
  std::vector<GroupWork> work() {
    return *wait<std::vector<GroupWork>>([&](auto done) { store().groups_with_work(std::move(done)); });
  }
  /// Claims and loses the node `times` times while the step runs.
  void crash(int times) {
    for (int i = 0; i < times; ++i) {
      const std::string boot = "crashing-" + std::to_string(++boots_);
      ASSERT_TRUE(join(boot));
      ASSERT_TRUE(claim("g", boot).task);
      advance(16s);
      ASSERT_TRUE(join("boot-" + std::to_string(++boots_)));
      take_over("boot-" + std::to_string(boots_));
    }
    ASSERT_TRUE(join(last_boot_ = "last-" + std::to_string(++boots_), 24h));
  }

  std::unique_ptr<StoreWorld> world_;
  std::string last_boot_;
  int claims_ = 0;
  int boots_ = 0;
};

}  // namespace cohort

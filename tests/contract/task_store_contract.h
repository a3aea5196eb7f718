#pragma once

// The fixture of what every TaskStore promises.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/stores.h"

namespace cohort {

using namespace std::chrono_literals;

enum class StoreKind { kMemory, kSqlite, kPostgres, kPostgresSql };

/// Makes the world of a kind of store, and names the kind.
[[nodiscard]] std::unique_ptr<StoreWorld> make_world(StoreKind kind);
[[nodiscard]] std::string name_of(StoreKind kind);

class TaskStoreContract : public testing::TestWithParam<StoreKind> {
 protected:
  TaskStoreContract() {
    world_ = make_world(GetParam());
    EXPECT_TRUE(join("boot-a"));
  }

  TaskStore& store() { return world_->store(); }
  void advance(Duration duration) { world_->clock.advance(duration); }
  WallTime now() { return world_->now(); }
  // A real store's clock goes on while the test runs.
  std::function<bool(std::optional<WallTime>, WallTime)> is_about = [this](std::optional<WallTime> time,
                                                                           WallTime expected) {
    return time && *time <= expected &&
           *time >= expected - std::chrono::ceil<std::chrono::microseconds>(world_->slack());
  };
  std::function<bool(std::optional<Duration>, Duration)> is_in = [this](std::optional<Duration> length,
                                                                        Duration expected) {
    return length && *length <= expected && *length >= expected - world_->slack();
  };

  static NewTask task(const std::string& id, const std::string& group = "g", std::size_t steps = 2) {
    NewTask made{.id = id, .group = group};
    for (std::size_t i = 0; i < steps; ++i) made.steps.push_back({.plugin = "p" + std::to_string(i)});
    return made;
  }
  Result<Submitted> submit(NewTask made) {
    if (auto answer = world_->submit_otherwise(made)) return *std::move(answer);
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
  Result<void> renew(const std::string& boot, Duration lease = 15s) {
    return wait<void>([&](auto done) { store().renew(boot, lease, std::move(done)); });
  }
  /// 16 s go by in which only this boot renews its lease, and sees that others with short leases do not.
  std::vector<std::string> outlive(const std::string& boot, Duration lease = 24h) {
    std::vector<std::string> groups = take_over(boot);
    for (int i = 0; i < 4; ++i) {
      advance(4s);
      EXPECT_TRUE(renew(boot, lease));
    }
    for (std::string& each : take_over(boot)) groups.push_back(std::move(each));
    return groups;
  }
  std::vector<GroupControl> controls(const std::string& after = "") {
    return *wait<std::vector<GroupControl>>([&](auto done) { store().controls(after, 100, std::move(done)); });
  }
  /// Events, when there are so many: they may get their numbers after the call that made them.
  std::vector<ChainEvent> events(std::size_t count) {
    for (;;) {
      auto found = *wait<std::vector<ChainEvent>>([&](auto done) { store().events(0, 1000, std::move(done)); });
      if (found.size() >= count) return found;
      std::this_thread::yield();
    }
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
  std::vector<std::string> event_kinds(std::size_t count) {
    std::vector<std::string> kinds;
    for (const ChainEvent& each : events(count)) kinds.emplace_back(to_string(each.kind));
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
      ASSERT_TRUE(join("boot-" + std::to_string(++boots_)));
      outlive("boot-" + std::to_string(boots_), 15s);
    }
    ASSERT_TRUE(join(last_boot_ = "last-" + std::to_string(++boots_), 24h));
  }

  std::unique_ptr<StoreWorld> world_;
  std::string last_boot_;
  int claims_ = 0;
  int boots_ = 0;
};

}  // namespace cohort

#pragma once

// Workloads of `group` that end much at once: polls at saturation, mass time-outs, slow destructors, keys that come and
// go.

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "group_parts.h"

namespace cohort::bench {

using namespace std::chrono_literals;

// Coroutines that want to go on sooner than two threads can serve them, for eight seconds: how many went on per second
// in the last five.
inline double polls_per_second(bool kernel_says) {
  GroupExecutorOptions options{.defaults = {.max_concurrency = 16}, .threads = kWorkers};
  if (!kernel_says) options.blocked_probe = [](std::int32_t) { return false; };
  GroupExecutor executor(std::move(options));
  std::atomic<bool> stop{false};
  std::atomic<long> polls{0};
  const auto keys = make_keys(64);
  for (int i = 0; i < 1024; ++i) {
    executor.submit(keys[static_cast<std::size_t>(i) % keys.size()], "poll", [&]() -> Task<void> {
      while (!stop) {
        co_await sleep_for(100us);
        polls.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::this_thread::sleep_for(3s);
  const long before = polls;
  const double took = seconds([] { std::this_thread::sleep_for(5s); });
  const double rate = static_cast<double>(polls - before) / took;
  stop = true;
  return rate;
}

struct MassTimeout {
  double others_p999_ms;  ///< How late tasks of another group started meanwhile.
  double all_settled_s;   ///< When the last of them had its result, after their time was over.
};

inline MassTimeout mass_timeout() {
  constexpr int kMany = 500'000;
  GroupExecutor executor({.groups = {{"mass", {.max_waiting = kUnlimited}}}, .threads = kWorkers});
  const Time deadline = executor.clock().now() + 4s;
  // All others wait for this one, which makes way in the middle of it.
  static_cast<void>(executor.submit("mass", "holder", [&executor, deadline]() -> Task<void> {
    co_await sleep_for(deadline + 1ms - executor.clock().now());
  }));
  std::vector<TaskHandle<int>> handles;
  handles.reserve(kMany);
  for (int i = 0; i < kMany; ++i) {
    handles.push_back(executor.submit("mass", "t", [i] { return i; }, {.deadline = deadline}));
  }
  if (executor.clock().now() > deadline - 200ms) fail("submitting took too long");
  while (executor.clock().now() < deadline - 100ms) std::this_thread::sleep_for(1ms);
  std::vector<double> delays;
  const auto all_done = [&] {
    return handles.back().is_done() && handles.front().is_done() && executor.group_stats("mass")->waiting == 0;
  };
  auto next = Clock::now();
  while (delays.size() < 400 || !all_done()) {
    std::this_thread::sleep_until(next += 500us);
    const auto result = executor.submit("other", "o", [] {}).await();
    delays.push_back(std::chrono::duration<double, std::milli>(result.started_at - result.submitted_at).count());
  }
  Time last = deadline;
  for (const auto& handle : handles) {
    const auto result = handle.await();
    if (result.status != TaskStatus::kTimedOutQueued) fail("a task that did not time out");
    last = std::max(last, result.ended_at);
  }
  std::ranges::sort(delays);
  return {delays[delays.size() * 999 / 1000], std::chrono::duration<double>(last - deadline).count()};
}

// What takes a millisecond when it is destroyed.
struct SlowToDestroy {
  SlowToDestroy() = default;
  SlowToDestroy(SlowToDestroy&& other) noexcept : is_full(std::exchange(other.is_full, false)) {}
  SlowToDestroy& operator=(SlowToDestroy&& other) noexcept {
    std::swap(is_full, other.is_full);
    return *this;
  }
  ~SlowToDestroy() {
    if (is_full) spin_for(1ms);
  }
  bool is_full = true;
};

// The 99th percentile of how late a coroutine wakes from a sleep of 10 ms, beside a group whose tasks time out all the
// time and whose callables and results are slow to destroy.
inline double timer_lateness_ms() {
  GroupExecutor executor(
      {.groups = {{"slow", {.max_concurrency = 8}}, {"quick", {.max_concurrency = 8}}}, .threads = kWorkers});
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    while (!stop) {
      for (int i = 0; i < 20; ++i) {
        executor.submit("slow", "times out", [owned = std::make_shared<SlowToDestroy>()] {}, {.queue_timeout = 1ms});
        executor.submit("slow", "result", [] { return SlowToDestroy(); });
      }
      std::this_thread::sleep_for(10ms);
    }
  });
  std::vector<double> late;
  const auto sleeper = executor.submit("quick", "sleeps", [&]() -> Task<void> {
    for (int i = 0; i < 500; ++i) {
      const auto due = Clock::now() + 10ms;
      co_await sleep_for(10ms);
      late.push_back(std::chrono::duration<double, std::milli>(Clock::now() - due).count());
    }
  });
  static_cast<void>(sleeper.await());
  stop = true;
  producer.join();
  std::ranges::sort(late);
  return late[late.size() * 99 / 100];
}

inline double rss_after_million_keys() {
  // Keys as long as a UUID, and a limit over all groups: then a group has memory beside its own block.
  GroupExecutor executor({.global_max_in_flight = 64, .threads = kWorkers, .evict_after = 1s});
  for (int i = 0; i < kTasks; ++i) {
    executor.submit("5f3c9a52-7b1e-4d6a-9c55-0000-" + std::to_string(i), "t", [] {});
  }
  std::this_thread::sleep_for(5s);
  if (executor.stats().groups != 0) fail("idle groups are still there");
  return resident_bytes() / (1 << 20);
}

}  // namespace cohort::bench

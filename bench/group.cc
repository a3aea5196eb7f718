// How fast is the group executor, beside oneTBB's flow graph and Boost.Asio's strands? bench/README.md tells the
// method.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/internal/task_label.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "group_ends.h"
#include "group_parts.h"
#include "harness.h"

namespace {

using namespace std::chrono_literals;
using cohort::GroupExecutor;
using cohort::TaskHandle;
using namespace cohort::bench;

// ---- many short tasks

// The last handles of one producer. Each result is looked at when its place is needed again, at the latest at the end.
class Window {
 public:
  void add(TaskHandle<int> handle, int number) {
    Place& place = places_[static_cast<std::size_t>(number) % kSize];
    check(place);
    place.handle = std::move(handle);
    place.number = number;
  }
  void finish() {
    for (Place& place : places_) check(place);
  }

 private:
  static constexpr std::size_t kSize = 8192;
  struct Place {
    TaskHandle<int> handle;
    int number = 0;
  };
  static void check(Place& place) {
    if (!place.handle.valid()) return;
    if (!place.handle.is_done()) static_cast<void>(place.handle.await());
    const auto& record = place.handle.record();
    if (record.value != place.number || record.ended_at < record.submitted_at) fail("a wrong result");
    place.handle = {};
  }
  std::vector<Place> places_ = std::vector<Place>(kSize);
};

void produce(GroupExecutor& executor, const std::vector<std::string>& keys, int first, int last) {
  Window window;
  for (int i = first; i < last; ++i) {
    window.add(executor.submit(keys[static_cast<std::size_t>(i) % keys.size()], "t", [i] { return i; }), i);
  }
  window.finish();
}

double cohort_grouped(unsigned limit, int groups, int producers, unsigned global = cohort::kUnlimited) {
  GroupExecutor executor({.defaults = {.max_concurrency = limit, .max_waiting = cohort::kUnlimited},
                          .global_max_in_flight = global,
                          .threads = kWorkers});
  const auto keys = make_keys(groups);
  produce(executor, keys, 0, kWarmUp);
  return ns_per_task([&] {
    std::vector<std::thread> others;
    for (int p = 1; p < producers; ++p) {
      others.emplace_back([&, p] { produce(executor, keys, kTasks / producers * p, kTasks / producers * (p + 1)); });
    }
    produce(executor, keys, 0, kTasks / producers);
    for (std::thread& other : others) other.join();
  });
}

double tbb_grouped(unsigned limit, int producers) {
  namespace tbb = oneapi::tbb;
  // Two real workers beside the producers.
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism,
                                        kWorkers + static_cast<unsigned>(producers));
  tbb::task_arena arena(static_cast<int>(kWorkers) + producers, static_cast<unsigned>(producers));
  const auto keys = make_keys(kGroups);
  using Node = tbb::flow::function_node<int, tbb::flow::continue_msg>;
  double result = 0;
  arena.execute([&] {
    tbb::flow::graph graph;
    std::unordered_map<std::string, std::unique_ptr<Node>> nodes;
    for (const std::string& key : keys) {
      nodes.emplace(key, std::make_unique<Node>(graph, limit, [](int) { return tbb::flow::continue_msg(); }));
    }
    const auto put = [&](int first, int last) {
      for (int i = first; i < last; ++i) {
        nodes.find(keys[static_cast<std::size_t>(i) % keys.size()])->second->try_put(i);
      }
    };
    put(0, kWarmUp);
    graph.wait_for_all();
    result = ns_per_task([&] {
      std::vector<std::thread> others;
      for (int p = 1; p < producers; ++p) {
        others.emplace_back(
            [&, p] { arena.execute([&] { put(kTasks / producers * p, kTasks / producers * (p + 1)); }); });
      }
      put(0, kTasks / producers);
      for (std::thread& other : others) other.join();
      graph.wait_for_all();
    });
  });
  return result;
}

double asio_grouped() {
  namespace asio = boost::asio;
  asio::thread_pool pool(kWorkers);
  const auto keys = make_keys(kGroups);
  std::unordered_map<std::string, asio::strand<asio::thread_pool::executor_type>> strands;
  for (const std::string& key : keys) strands.emplace(key, asio::make_strand(pool));
  return ns_per_task([&] {
    for (int i = 0; i < kTasks; ++i) {
      asio::post(strands.find(keys[static_cast<std::size_t>(i) % keys.size()])->second, [] {});
    }
    pool.join();
  });
}

double cohort_single() {
  GroupExecutor executor(
      {.defaults = {.max_concurrency = cohort::kUnlimited, .max_waiting = cohort::kUnlimited}, .threads = kWorkers});
  const std::vector<std::string> key = {"all"};
  return ns_per_task([&] { produce(executor, key, 0, kTasks); });
}

double asio_single() {
  namespace asio = boost::asio;
  asio::thread_pool pool(kWorkers);
  return ns_per_task([&] {
    std::vector<std::future<int>> window(8192);
    for (int i = 0; i < kTasks; ++i) {
      std::future<int>& place = window[static_cast<std::size_t>(i) % window.size()];
      if (place.valid()) place.get();
      place = asio::post(pool, std::packaged_task<int()>([i] { return i; }));
    }
    for (std::future<int>& place : window) {
      if (place.valid()) place.get();
    }
    pool.join();
  });
}

// ---- batches

constexpr int kBatch = 1000;
constexpr int kBatches = 1000;

// Per task. Both make the vector of tasks before the clock runs, so that the workers have been idle for as long.
double cohort_batches(bool execute_all) {
  GroupExecutor executor({.threads = kWorkers});
  const auto keys = make_keys(10);
  const auto key = [&](int i) -> const std::string& { return keys[static_cast<std::size_t>(i) % keys.size()]; };
  double took = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    long sum = 0;
    std::vector<cohort::GroupTask<int>> tasks;
    std::vector<TaskHandle<int>> handles;
    tasks.reserve(kBatch);
    handles.reserve(kBatch);
    for (int i = 0; i < kBatch; ++i) tasks.emplace_back(key(i), "t", [i] { return i; });
    took += seconds([&] {
      if (execute_all) {
        for (const auto& result : executor.execute_all(tasks)) sum += *result.value;
      } else {
        for (int i = 0; i < kBatch; ++i) handles.push_back(executor.submit(key(i), "t", [i] { return i; }));
        for (const auto& handle : handles) sum += *handle.await().value;
        handles.clear();
      }
    });
    if (sum != static_cast<long>(kBatch) * (kBatch - 1) / 2) fail("a wrong sum");
  }
  return took * 1e9 / (kBatch * kBatches);
}

// ---- blocking

// The 99th percentile, in microseconds, of the time from submit to end of a task of 10 us, one every millisecond.
double p99_of_quick_tasks(bool beside_blockers) {
  GroupExecutor executor({.groups = {{"blocks", {.max_concurrency = 64}}}, .threads = kWorkers});
  std::atomic<bool> stop{false};
  std::atomic<int> started{0};
  std::function<void()> block = [&] {
    ++started;
    std::this_thread::sleep_for(200ms);
    if (!stop) executor.submit("blocks", "b", block);
  };
  if (beside_blockers) {
    for (int i = 0; i < 64; ++i) executor.submit("blocks", "b", block);
    while (started < 64) std::this_thread::sleep_for(1ms);
  }
  std::vector<double> times;
  auto next = Clock::now();
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::sleep_until(next += 1ms);
    const auto result = executor.submit("quick", "q", [] { spin_for(10us); }).await();
    times.push_back(std::chrono::duration<double, std::micro>(result.ended_at - result.submitted_at).count());
  }
  stop = true;
  std::ranges::sort(times);
  return times[times.size() * 99 / 100];
}

double cohort_start_of_64() {
  GroupExecutor executor({.groups = {{"blocks", {.max_concurrency = 64}}}, .threads = kWorkers});
  static_cast<void>(executor.submit("other", "warm", [] {}).await());
  std::atomic<int> started{0};
  std::atomic<bool> stop{false};
  const double took = seconds([&] {
    for (int i = 0; i < 64; ++i) {
      executor.submit("blocks", "b", [&] {
        ++started;
        while (!stop) std::this_thread::sleep_for(1ms);
      });
    }
    while (started < 64) std::this_thread::sleep_for(100us);
  });
  stop = true;
  return took * 1e3;
}

double creation_of_64() {
  return seconds([] {
           std::vector<std::thread> threads;
           for (int i = 0; i < 64; ++i) threads.emplace_back([] {});
           for (std::thread& thread : threads) thread.join();
         }) *
         1e3;
}

// ---- share, sleep, memory, idleness

double share_error() {
  GroupExecutor executor({.groups = {{"light", {.max_concurrency = cohort::kUnlimited, .weight = 1.0}},
                                     {"heavy", {.max_concurrency = cohort::kUnlimited, .weight = 3.0}}},
                          .threads = kWorkers});
  for (int i = 0; i < 90'000; ++i) executor.submit("light", "l", [] { spin_for(50us); });
  for (int i = 0; i < 30'000; ++i) executor.submit("heavy", "h", [] { spin_for(500us); });
  const auto time_of = [&](const char* group) {
    return static_cast<double>(executor.group_stats(group)->counters.thread_time.count());
  };
  std::this_thread::sleep_for(200ms);
  const double light = time_of("light");
  const double heavy = time_of("heavy");
  std::this_thread::sleep_for(3s);
  const double ratio = (time_of("heavy") - heavy) / (time_of("light") - light);
  static_cast<void>(executor.shutdown(0s));
  return std::abs(ratio / 3 - 1);
}

double sleepers() {
  GroupExecutor executor({.defaults = {.max_concurrency = 100}, .threads = kWorkers});
  const auto keys = make_keys(100);
  std::vector<TaskHandle<int>> handles;
  const double took = seconds([&] {
    for (int i = 0; i < 10'000; ++i) {
      handles.push_back(executor.submit(keys[static_cast<std::size_t>(i) % 100], "s", [i]() -> cohort::Task<int> {
        co_await cohort::sleep_for(100ms);
        co_return i;
      }));
    }
    for (const auto& handle : handles) static_cast<void>(handle.await());
  });
  return took * 1e3;
}

double bytes_per_waiting_task() {
  GroupExecutor executor({.defaults = {.max_waiting = cohort::kUnlimited}, .threads = kWorkers});
  const auto keys = make_keys(kGroups);
  for (const std::string& key : keys) static_cast<void>(executor.pause_group(key));
  const double before = resident_bytes();
  for (int i = 0; i < kTasks; ++i) {
    executor.submit(keys[static_cast<std::size_t>(i) % keys.size()], "t", [i] { return i; });
  }
  if (executor.stats().waiting != kTasks) fail("tasks are missing");
  const double result = (resident_bytes() - before) / kTasks;
  static_cast<void>(executor.shutdown(0s));
  return result;
}

double bytes_per_group() {
  GroupExecutor executor({.threads = kWorkers, .evict_after = std::chrono::hours(1)});
  for (int i = 0; i < 1000; ++i) static_cast<void>(executor.submit("warm", "t", [] {}).await());
  const double before = resident_bytes();
  for (int i = 0; i < kTasks; ++i) {
    auto handle = executor.submit("tenant-" + std::to_string(i), "t", [] {});
    if (i % 1000 == 0) static_cast<void>(handle.await());
  }
  static_cast<void>(executor.shutdown(60s));
  if (executor.stats().groups < kTasks) fail("groups are missing");
  return (resident_bytes() - before) / kTasks;
}

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// What a table of groups would use if nobody chose keys to collide.
double hash_ns(bool keyed) {
  constexpr int kRounds = 20'000;
  const std::vector<std::string> keys = make_keys(kGroups);
  std::uint64_t sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    for (const std::string& key : keys) {
      sum += keyed ? cohort::internal::TaskLabel::hash(key) : std::hash<std::string_view>()(key);
    }
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  if (sum == 0) fail("no key has a hash");
  return std::chrono::duration<double, std::nano>(took).count() / kRounds / static_cast<double>(keys.size());
}

double idle_cpu() {
  GroupExecutor executor({.threads = kWorkers});
  for (int i = 0; i < 1000; ++i) static_cast<void>(executor.submit("g", "t", [] {}).await());
  std::this_thread::sleep_for(500ms);
  const double before = cpu_ms();
  std::this_thread::sleep_for(2s);
  return cpu_ms() - before;
}

}  // namespace

int main(int argc, char** argv) {
  Suite suite("group");
  suite.measure(
      "grouped1", "cohort", "ns/task", [] { return cohort_grouped(1, kGroups, 1); }, 20);
  suite.measure("grouped1", "tbb", "ns/task", [] { return tbb_grouped(1, 1); });
  suite.measure("grouped1", "asio", "ns/task", asio_grouped);
  suite.measure("grouped1", "global 64", "ns/task", [] { return cohort_grouped(1, kGroups, 1, 64); });
  suite.measure("grouped4", "cohort", "ns/task", [] { return cohort_grouped(4, kGroups, 1); });
  suite.measure("grouped4", "tbb", "ns/task", [] { return tbb_grouped(4, 1); });
  suite.measure("two_producers", "cohort", "ns/task", [] { return cohort_grouped(1, kGroups, 2); });
  suite.measure("two_producers", "tbb", "ns/task", [] { return tbb_grouped(1, 2); });
  suite.measure("single", "cohort", "ns/task", cohort_single);
  suite.measure("single", "asio", "ns/task", asio_single);
  suite.measure("batches", "execute_all", "ns/task", [] { return cohort_batches(true); });
  suite.measure("batches", "submit", "ns/task", [] { return cohort_batches(false); });
  suite.measure("noisy", "beside 64", "us", [] { return p99_of_quick_tasks(true); });
  suite.measure("noisy", "alone", "us", [] { return p99_of_quick_tasks(false); });
  suite.measure("blocking64", "cohort", "ms", cohort_start_of_64);
  suite.measure("blocking64", "threads", "ms", creation_of_64);
  suite.measure("share", "cohort", "error", share_error);
  suite.measure("sleepers", "cohort", "ms", sleepers);
  suite.measure("memory", "task", "bytes", bytes_per_waiting_task);
  suite.measure("memory", "group", "bytes", bytes_per_group);
  suite.measure("idle", "cohort", "ms", idle_cpu);
  suite.measure("key_hash", "with a secret", "ns/key", [] { return hash_ns(true); });
  suite.measure("key_hash", "std::hash", "ns/key", [] { return hash_ns(false); });
  suite.measure(
      "saturation", "cohort", "polls/s", [] { return polls_per_second(true); }, 7);
  suite.measure("saturation", "no probe", "polls/s", [] { return polls_per_second(false); });
  suite.measure("mass_timeout", "others p99.9", "ms", [] { return mass_timeout().others_p999_ms; });
  suite.measure("mass_timeout", "all settled", "s", [] { return mass_timeout().all_settled_s; });
  suite.measure("slow_ends", "cohort", "ms late", timer_lateness_ms);
  suite.measure("million_keys", "cohort", "MiB", rss_after_million_keys);

  const auto at_most = Suite::at_most;
  const auto at_least = Suite::at_least;
  suite.ratio("grouped1_vs_tbb", {"grouped1", "cohort"}, {"grouped1", "tbb"}, at_most(1.2, 0.7));
  suite.ratio("grouped4_vs_tbb", {"grouped4", "cohort"}, {"grouped4", "tbb"}, at_most(1.2, 0.7));
  suite.ratio("two_producers_vs_tbb", {"two_producers", "cohort"}, {"two_producers", "tbb"}, at_most(1.4, 0.9));
  suite.ratio("grouped1_vs_asio", {"grouped1", "asio"}, {"grouped1", "cohort"}, at_least(5, 10));
  suite.ratio("single_vs_asio", {"single", "asio"}, {"single", "cohort"}, at_least(5, 10));
  suite.ratio("global_limit_cost", {"grouped1", "global 64"}, {"grouped1", "cohort"}, at_most(1.2, 1.0));
  suite.ratio("execute_all_vs_submit", {"batches", "execute_all"}, {"batches", "submit"}, at_most(1.0, 0.8));
  suite.figure(
      "slow_processes_of_20", "grouped1",
      [](const Suite::Values& values) {
        const auto& all = values.at({"grouped1", "cohort"});
        const double slow = 2 * Suite::median(all);
        return static_cast<double>(std::ranges::count_if(all, [&](double each) { return each > slow; }));
      },
      at_most(4, 0));
  suite.ratio("noisy_p99_vs_alone", {"noisy", "beside 64"}, {"noisy", "alone"}, at_most(3, 2));
  suite.ratio("blocking64_start_vs_create", {"blocking64", "cohort"}, {"blocking64", "threads"}, at_most(6, 3));
  suite.value("share_error", {"share", "cohort"}, 1, at_most(0.03, 0.01));
  suite.value("sleepers_wall_vs_ideal", {"sleepers", "cohort"}, 100, at_most(1.5, 1.1));
  suite.value("bytes_per_waiting_task", {"memory", "task"}, 1, at_most(192, 130));
  suite.value("bytes_per_group", {"memory", "group"}, 1, at_most(512, 350));
  suite.figure(
      "key_secret_ns", "key_hash",
      [](const Suite::Values& values) {
        return Suite::median(values.at({"key_hash", "with a secret"})) -
               Suite::median(values.at({"key_hash", "std::hash"}));
      },
      at_most(2, 0));
  suite.value("idle_cpu_ms_2s", {"idle", "cohort"}, 1, at_most(2, 0.2));
  suite.figure(
      "saturation_kept", "saturation",
      [](const Suite::Values& values) {
        const auto& ours = values.at({"saturation", "cohort"});
        const auto& unprobed = values.at({"saturation", "no probe"});
        double worst = ours.at(0) / unprobed.at(0);
        for (std::size_t i = 0; i < ours.size(); ++i) worst = std::min(worst, ours[i] / unprobed.at(i));
        return worst;
      },
      at_least(0.9, 1.0));
  suite.value("mass_timeout_p999_ms", {"mass_timeout", "others p99.9"}, 1, at_most(5, 1));
  suite.value("mass_timeout_s", {"mass_timeout", "all settled"}, 1, at_most(2, 1));
  suite.value("timer_lateness_ms", {"slow_ends", "cohort"}, 1, at_most(2, 1));
  suite.value("rss_after_million_keys_mib", {"million_keys", "cohort"}, 1, at_most(40, 20));
  return suite.run(argc, argv);
}

// Is the session registry quick whatever its size, beside the registry that it replaces (one lock for all, a walk over
// all groups to end one session) and a bare std::unordered_map? bench/README.md tells the method.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/session/session_registry.h"
#include "harness.h"

namespace {

using namespace std::chrono_literals;
using cohort::GroupName;
using cohort::Random;
using cohort::SessionId;
using cohort::bench::Suite;
using Clock = std::chrono::steady_clock;
using Payload = std::uint64_t;
using Registry = cohort::SessionRegistry<Payload>;

constexpr std::size_t kGroups = 1'000'000;
constexpr std::size_t kGroupsPerSession = 10;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

SessionId session(std::size_t number) { return SessionId::parse("session-" + std::to_string(number)).value(); }

const std::vector<GroupName>& names() {
  static const std::vector<GroupName> all = [] {
    std::vector<GroupName> names;
    for (std::size_t i = 0; i < kGroupsPerSession; ++i) {
      names.push_back(GroupName::parse("utterance-" + std::to_string(i)).value());
    }
    return names;
  }();
  return all;
}

std::vector<SessionId> sessions_of(std::size_t groups) {
  std::vector<SessionId> sessions;
  for (std::size_t i = 0; i < groups / kGroupsPerSession; ++i) sessions.push_back(session(i));
  return sessions;
}

// As it is often done at first: one lock, and no index of a session's groups.
class ScanningRegistry {
 public:
  void ensure(const SessionId& session, const GroupName& name) {
    const std::string key = session.str() + "/" + name.str();
    {
      const std::shared_lock lock(mutex_);
      if (groups_.contains(key)) return;
    }
    const std::unique_lock lock(mutex_);
    groups_.try_emplace(key, Group{session.str(), 0});
  }
  void end(const SessionId& session) {
    const std::unique_lock lock(mutex_);
    std::erase_if(groups_, [&](const auto& each) { return each.second.session == session.str(); });
  }

 private:
  struct Group {
    std::string session;
    Payload payload;
  };
  std::shared_mutex mutex_;
  std::unordered_map<std::string, Group> groups_;
};

class IndexedRegistry {
 public:
  void ensure(const SessionId& session, const GroupName& name) {
    if (!registry.ensure_group(session, name)) fail("a group was refused");
  }
  void end(const SessionId& session) {
    if (!registry.end_session(session, "bench")) fail("a session could not be ended");
  }
  Registry registry;
};

template <class AnyRegistry>
void fill(AnyRegistry& registry, const std::vector<SessionId>& sessions) {
  for (const SessionId& each : sessions) {
    for (const GroupName& name : names()) registry.ensure(each, name);
  }
}

// The 99.9th percentile, in microseconds, of how late an ensure_group is done that is due every 100 us, while another
// thread ends a session and begins one every 10 ms. Those that have not been done at the end count as late as they are.
template <class AnyRegistry>
double stall() {
  AnyRegistry registry;
  const std::vector<SessionId> sessions = sessions_of(kGroups);
  fill(registry, sessions);
  std::atomic<bool> stop{false};
  const Clock::time_point start = Clock::now();
  std::thread churn([&] {
    std::size_t next = 0;
    for (Clock::time_point due = start; !stop; due += 10ms) {
      std::this_thread::sleep_until(due);
      registry.end(sessions[next++]);
      const SessionId fresh = session(sessions.size() + next);
      for (const GroupName& name : names()) registry.ensure(fresh, name);
    }
  });
  Random random(1);
  const Clock::time_point end = start + 3s;
  std::vector<double> late;
  for (Clock::time_point due = start; due < end; due += 100us) {
    while (Clock::now() < due) {
    }
    if (Clock::now() < end) {
      // The second half: the first is being ended.
      registry.ensure(sessions[sessions.size() / 2 + random.below(sessions.size() / 2)],
                      names()[random.below(names().size())]);
    }
    late.push_back(std::chrono::duration<double, std::micro>(Clock::now() - due).count());
  }
  stop = true;
  churn.join();
  std::ranges::sort(late);
  return late[late.size() * 999 / 1000];
}

// Nanoseconds to end a session of ten groups, chosen at random, in a registry of so many groups.
double cost_of_end(std::size_t groups) {
  IndexedRegistry registry;
  std::vector<SessionId> sessions = sessions_of(groups);
  fill(registry, sessions);
  Random random(1);
  std::size_t next = sessions.size();
  std::vector<double> took;
  for (int i = 0; i < 5000; ++i) {
    SessionId& place = sessions[random.below(sessions.size())];
    const SessionId chosen = std::exchange(place, session(next++));
    const Clock::time_point start = Clock::now();
    registry.end(chosen);
    took.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    for (const GroupName& name : names()) registry.ensure(place, name);
  }
  return Suite::median(took);
}

constexpr std::size_t kLookUps = 2'000'000;

struct LookUps {
  LookUps() {
    Random random(1);
    for (std::size_t i = 0; i < kLookUps; ++i) order.push_back(static_cast<std::uint32_t>(random.below(kGroups)));
  }
  std::vector<std::uint32_t> order;
};

double cost_of_hit() {
  IndexedRegistry registry;
  const std::vector<SessionId> sessions = sessions_of(kGroups);
  fill(registry, sessions);
  const LookUps look_ups;
  const Clock::time_point start = Clock::now();
  for (const std::uint32_t i : look_ups.order) {
    registry.ensure(sessions[i / kGroupsPerSession], names()[i % kGroupsPerSession]);
  }
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kLookUps;
}

double cost_of_map() {
  std::unordered_map<std::string, Payload> map;
  std::vector<std::string> keys;
  for (const SessionId& each : sessions_of(kGroups)) {
    for (const GroupName& name : names()) keys.push_back(each.str() + "/" + name.str());
  }
  for (const std::string& key : keys) map.emplace(key, 0);
  std::mutex mutex;
  const LookUps look_ups;
  std::size_t found = 0;
  const Clock::time_point start = Clock::now();
  for (const std::uint32_t i : look_ups.order) {
    const std::lock_guard lock(mutex);
    found += map.find(keys[i]) != map.end() ? 1 : 0;
  }
  const double took = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kLookUps;
  if (found != kLookUps) fail("a key was not found");
  return took;
}

double resident_bytes() {
  std::size_t pages = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double bytes_per_group() {
  const std::vector<SessionId> sessions = sessions_of(kGroups);
  static_cast<void>(names());
  IndexedRegistry registry;
  const double before = resident_bytes();
  fill(registry, sessions);
  return (resident_bytes() - before) / kGroups;
}

}  // namespace

int main(int argc, char** argv) {
  Suite suite("session");
  suite.measure("stall", "cohort", "us", stall<IndexedRegistry>);
  suite.measure("stall", "scan", "us", stall<ScanningRegistry>);
  suite.measure(
      "end", "of 1,000,000", "ns", [] { return cost_of_end(kGroups); }, 9);
  suite.measure(
      "end", "of 1,000", "ns", [] { return cost_of_end(1000); }, 9);
  suite.measure("hit", "cohort", "ns", cost_of_hit);
  suite.measure("hit", "unordered_map", "ns", cost_of_map);
  suite.measure("memory", "group", "bytes", bytes_per_group);

  suite.ratio("stall_vs_scan", {"stall", "scan"}, {"stall", "cohort"}, Suite::at_least(1000, 1000));
  suite.ratio("end_cost_growth", {"end", "of 1,000,000"}, {"end", "of 1,000"}, Suite::at_most(3, 3));
  suite.ratio("ensure_hit_vs_unordered_map", {"hit", "cohort"}, {"hit", "unordered_map"}, Suite::at_most(3, 3));
  suite.figure(
      "bytes_per_group", "memory",
      [](const Suite::Values& values) {
        return Suite::median(values.at({"memory", "group"}));
      },
      Suite::at_most(256, 256));
  return suite.run(argc, argv);
}

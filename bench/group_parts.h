#pragma once

// What the workloads of `group` share.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace cohort::bench {

using Clock = std::chrono::steady_clock;

inline constexpr int kTasks = 1'000'000;
inline constexpr int kWarmUp = 100'000;  // Everybody has his memory and his groups before the clock runs.
inline constexpr int kGroups = 1000;
inline constexpr unsigned kWorkers = 2;

inline std::vector<std::string> make_keys(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back("tenant-" + std::to_string(i));
  return keys;
}

template <class Run>
double seconds(Run&& run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Run>
double ns_per_task(Run&& run, int tasks = kTasks) {
  return seconds(run) * 1e9 / tasks;
}

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

inline void spin_for(std::chrono::nanoseconds duration) {
  const auto end = Clock::now() + duration;
  while (Clock::now() < end) {
  }
}

inline double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace cohort::bench

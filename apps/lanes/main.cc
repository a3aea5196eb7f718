// Groups at work, to watch in a terminal: each lane is a group with what it runs, what waits and what is done. After
// three seconds one of them floods the executor; the others go on as if nothing had happened.
//
// The scheduler is the real one, in virtual time that is paced to the wall clock. When the output is no terminal, or
// with --fast, it does not wait.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/histogram.h"
#include "cohort/base/random.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/manual_executor.h"

namespace {

using namespace std::chrono_literals;
using cohort::Duration;

constexpr Duration kFlood = 3s;
constexpr Duration kEnd = 12s;
constexpr Duration kFrame = 80ms;

struct Lane {
  const char* group;
  const char* colour;
  Duration every;   // How often a task comes; zero: only the flood.
  Duration length;  // About how long one takes.
  Duration next{0};
  cohort::Histogram calm{};
  cohort::Histogram flooded{};
};

class Lanes {
 public:
  explicit Lanes(bool live) : live_(live) {}

  void run() {
    const auto wall_start = std::chrono::steady_clock::now();
    if (live_) std::fputs("\033[2J\033[?25l", stdout);
    for (Duration t{0}; t <= kEnd; t += kFrame) {
      arrive(t);
      executor_.advance(kFrame);
      if (live_) {
        draw(t);
        std::this_thread::sleep_until(wall_start + t + kFrame);
      }
    }
    if (live_) std::fputs("\033[?25h", stdout);
    if (!live_) draw(kEnd);
    static_cast<void>(executor_.shutdown_group("noisy"));
    executor_.run_until_idle();
    summary();
  }

 private:
  void arrive(Duration t) {
    for (Lane& lane : lanes_) {
      while (lane.every > Duration::zero() && lane.next <= t) {
        submit(lane, t);
        lane.next += lane.every * random_.between(50, 150) / 100;
      }
    }
    if (t >= kFlood && !flooded_) {
      flooded_ = true;
      for (int i = 0; i < 1500; ++i) submit(lanes_.back(), t);
    }
  }

  void submit(Lane& lane, Duration t) {
    const Duration length = lane.length * random_.between(60, 140) / 100;
    const auto asked = clock_.now();
    executor_.submit(lane.group, std::to_string(++tasks_), [this, &lane, length, asked, t]() -> cohort::Task<> {
      (t < kFlood ? lane.calm : lane.flooded).record(clock_.now() - asked);
      co_await cohort::sleep_for(length);
    });
  }

  void draw(Duration t) {
    if (live_) std::fputs("\033[H", stdout);
    const double seconds = std::chrono::duration<double>(t).count();
    line("cohort: groups at work" + std::string(46, ' ') + number("%5.1f s", seconds));
    line("");
    for (const Lane& lane : lanes_) draw(lane);
    line("");
    const cohort::ExecutorStats all = executor_.stats();
    line("all groups together: " + std::to_string(all.running) + " running of at most 16, " +
         std::to_string(all.waiting) + " waiting");
    line(flooded_ ? "'noisy' put 1500 tasks in line at 3.0 s; look who minds" : "a quiet start; 'noisy' comes at 3.0 s");
    std::fflush(stdout);
  }

  void draw(const Lane& lane) {
    constexpr std::uint64_t kWidth = 26;
    const auto stats = executor_.group_stats(lane.group);
    const std::uint64_t running = stats ? stats->running : 0;
    const std::uint64_t waiting = stats ? stats->waiting : 0;
    const std::uint64_t done = stats ? stats->counters.settled_total() : 0;
    const std::uint64_t shown = std::min(waiting, kWidth - std::min(kWidth, running));
    std::string bar = live_ ? lane.colour : "";
    for (std::uint64_t i = 0; i < running; ++i) bar += "█";
    for (std::uint64_t i = 0; i < shown; ++i) bar += "░";
    if (live_) bar += "\033[0m";
    bar += std::string(kWidth - std::min(kWidth, running + shown), ' ');
    const std::uint32_t limit = executor_.resolve(lane.group).max_concurrency;
    line(pad(lane.group, 11) + bar + pad(" runs " + std::to_string(running) + "/" + std::to_string(limit), 11) +
         pad("waits " + std::to_string(waiting), 12) + "done " + std::to_string(done));
  }

  void summary() {
    line("");
    line("how long a task waited, 95 of 100:     before the flood      during it");
    Duration worst{0};
    for (const Lane& lane : lanes_) {
      const bool noisy = &lane == &lanes_.back();
      if (!noisy) worst = std::max(worst, lane.flooded.quantile(0.95));
      line(pad("  " + std::string(lane.group), 39) + pad(noisy ? "-" : milliseconds(lane.calm), 22) +
           milliseconds(lane.flooded));
    }
    line("");
    if (worst < 1s) {
      line("'noisy' waited for its own 1500 tasks; nobody else noticed.");
    } else {
      line("somebody else waited for 'noisy': that should not be.");
    }
  }

  static std::string milliseconds(const cohort::Histogram& waits) {
    return number("%.1f ms", std::chrono::duration<double, std::milli>(waits.quantile(0.95)).count());
  }
  static std::string number(const char* format, double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return text.data();
  }
  static std::string pad(const std::string& text, std::size_t width) {
    return text + std::string(width - std::min(width, text.size()), ' ');
  }
  void line(const std::string& text) const { std::printf("%s%s\n", text.c_str(), live_ ? "\033[K" : ""); }

  bool live_;
  cohort::VirtualClock clock_;
  cohort::ManualExecutor executor_{clock_,
                                   {.groups = {{"noisy", {.max_concurrency = 3}}},
                                    .resolver = [](std::string_view key) -> cohort::GroupLimits {
                                      return {.max_concurrency = key.starts_with("vip:") ? 4U : 1U};
                                    },
                                    .global_max_in_flight = 16,
                                    .threads = 2}};
  cohort::Random random_{7};
  bool flooded_ = false;
  int tasks_ = 0;
  std::array<Lane, 6> lanes_ = {Lane{"vip:alice", "\033[32m", 36ms, 120ms}, Lane{"vip:bob", "\033[32m", 65ms, 200ms},
                                Lane{"carol", "\033[36m", 150ms, 100ms},    Lane{"dave", "\033[36m", 190ms, 120ms},
                                Lane{"erin", "\033[36m", 230ms, 150ms},     Lane{"noisy", "\033[31m", 0ms, 90ms}};
};

}  // namespace

int main(int count, char** arguments) {
  bool live = isatty(STDOUT_FILENO) == 1;
  for (int i = 1; i < count; ++i) {
    if (std::string(arguments[i]) != "--fast") {
      std::fprintf(stderr, "usage: cohort_lanes [--fast]\n  --fast  do not wait, show only the end\n");
      return 2;
    }
    live = false;
  }
  Lanes(live).run();
}

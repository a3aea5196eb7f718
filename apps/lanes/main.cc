// Groups at work, to watch in a terminal: each lane is a group with what it runs, what waits and what is done. After
// three seconds one of them floods the executor; the others go on as if nothing had happened. At the end the same
// twelve seconds are played again without the flood, and compared.
//
// The scheduler is the real one, in virtual time that is paced to the wall clock. When the output is no terminal, or
// with --fast, it does not wait.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

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
  Duration every;   // How often a task comes; zero: only in the flood.
  Duration length;  // About how long one takes.
  Duration next{0};
  cohort::Histogram waits{};
};

std::string number(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string pad(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

// One play of the twelve seconds.
class Lanes {
 public:
  enum class Show { kNothing, kLastFrame, kLive };

  Lanes(bool with_flood, Show show) : with_flood_(with_flood), live_(show == Show::kLive), show_(show) {}

  void run() {
    const auto wall_start = std::chrono::steady_clock::now();
    if (live_) std::fputs("\033[2J\033[?25l", stdout);
    for (Duration t{0}; t <= kEnd; t += kFrame) {
      arrive(t);
      executor_.advance(kFrame);
      if (!live_) continue;
      draw(t);
      std::this_thread::sleep_until(wall_start + t + kFrame);
    }
    if (live_) std::fputs("\033[?25h", stdout);
    if (show_ == Show::kLastFrame) draw(kEnd);
    static_cast<void>(executor_.shutdown_group("noisy"));
    executor_.run_until_idle();
  }

  [[nodiscard]] const auto& lanes() const { return lanes_; }

 private:
  void arrive(Duration t) {
    for (Lane& lane : lanes_) {
      while (lane.every > Duration::zero() && lane.next <= t) {
        submit(lane);
        lane.next += lane.every * random_.between(50, 150) / 100;
      }
    }
    if (t < kFlood || flooded_ || !with_flood_) return;
    flooded_ = true;
    for (int i = 0; i < 1500; ++i) submit(lanes_.back());
  }

  void submit(Lane& lane) {
    const Duration length = lane.length * (&lane == &lanes_.back() ? 100 : random_.between(60, 140)) / 100;
    const auto asked = clock_.now();
    executor_.submit(lane.group, std::to_string(++tasks_), [this, &lane, length, asked]() -> cohort::Task<> {
      lane.waits.record(clock_.now() - asked);
      co_await cohort::sleep_for(length);
    });
  }

  void draw(Duration t) {
    if (live_) std::fputs("\033[H", stdout);
    line("cohort: groups at work" + std::string(43, ' ') + number("%5.1f s", std::chrono::duration<double>(t).count()));
    line("");
    for (const Lane& lane : lanes_) draw(lane);
    line("");
    const cohort::ExecutorStats all = executor_.stats();
    line("all groups together: " + std::to_string(all.running) + " running of at most 16, " +
         std::to_string(all.waiting) + " waiting");
    line(flooded_ ? "'noisy' put 1500 tasks in line at 3.0 s; look who minds"
                  : "a quiet start; 'noisy' comes at 3.0 s");
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

  void line(const std::string& text) const { std::printf("%s%s\n", text.c_str(), live_ ? "\033[K" : ""); }

  bool with_flood_;
  bool live_;
  Show show_;
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

// The lanes with the flood beside the same lanes without it.
void compare(const Lanes& flooded, const Lanes& calm) {
  const auto waited = [](const Lane& lane) {
    return number("%.0f ms", std::chrono::duration<double, std::milli>(lane.waits.quantile(0.95)).count());
  };
  std::puts("\n95 of 100 tasks waited at most        without 'noisy'     with it");
  bool unharmed = true;
  for (std::size_t i = 0; i < flooded.lanes().size(); ++i) {
    const Lane& with = flooded.lanes()[i];
    const Lane& without = calm.lanes()[i];
    const bool noisy = without.waits.count() == 0;
    std::printf("  %-35s %-19s %s\n", with.group, noisy ? "-" : waited(without).c_str(), waited(with).c_str());
    unharmed = unharmed && (noisy || with.waits.quantile(0.95) <= without.waits.quantile(0.95) * 5 / 4 + kFrame);
  }
  std::puts(unharmed ? "\n'noisy' waits for its own 1500 tasks; nobody else noticed."
                     : "\nsomebody else waited for 'noisy': that should not be.");
}

// Whoever leaves early gets his cursor back.
void on_interrupt(int /*signal*/) {
  constexpr std::string_view kShowCursor = "\033[?25h\n";
  static_cast<void>(!write(STDOUT_FILENO, kShowCursor.data(), kShowCursor.size()));
  _exit(130);
}

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
  if (live) std::signal(SIGINT, on_interrupt);
  Lanes flooded(true, live ? Lanes::Show::kLive : Lanes::Show::kLastFrame);
  flooded.run();
  Lanes calm(false, Lanes::Show::kNothing);
  calm.run();
  compare(flooded, calm);
}

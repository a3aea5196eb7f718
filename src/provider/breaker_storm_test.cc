// The breaker against a model of it, in random histories; and under threads, where the number of probes that are out is
// counted. A failure prints its seed.

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/testing/virtual_clock.h"
#include "provider/breaker_parts.h"
#include "testing/seed_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

// What a breaker should do, said once more and as plainly as possible: everything that happened is kept in lists.
class Model {
 public:
  explicit Model(const BreakerOptions& options) : options_(options) {}

  struct Leave {
    bool allowed = false;
    int epoch = 0;
    int probe = 0;
  };

  Leave allow(Time now, std::optional<Time> deadline, bool gave_less) {
    look(now);
    switch (state) {
      case BreakerState::kOpen:
      case BreakerState::kForcedOpen: return {};
      case BreakerState::kHalfOpen:
        if (deadline.value_or(Time::max()) <= now || now >= half_open_until_) return {};
        if (bad_ + own_probes() >= options_.permitted_calls_in_half_open ||
            std::ranges::count_if(probes_, [&](const auto& probe) { return probe.second.until > now; }) >=
                static_cast<std::ptrdiff_t>(options_.permitted_calls_in_half_open)) {
          return {};
        }
        probes_[++last_probe_] = {
            epoch, deadline.value_or(now + std::max(options_.half_open_max_duration, options_.call_timeout)),
            gave_less};
        return {true, epoch, last_probe_};
      default: return {true, epoch, 0};
    }
  }

  void finish(const Leave& leave, FailureType type, Duration latency, Time now, bool in_row) {
    const bool known = probes_.erase(leave.probe) != 0;
    if (leave.epoch != epoch) return;
    const FailureRule& rule = options_.rules[type];
    const bool slow = latency >= options_.slow_from();
    if (leave.probe != 0) {
      if (!known) return;
      const bool succeeded = rule.is_answer && !(slow && rule.counts);
      const bool half = rule.counts && rule.weight == 0.5;
      forget_old_successes(now);
      if (succeeded) {
        good_.push_back(now);
        refused_ = false;
      }
      if ((rule.is_answer && !succeeded) || (rule.counts && rule.weight == 1)) ++bad_;
      if (half) refused_ = good_.empty();
      if (succeeded || half) cut_off_probes_ = 0;
      decide(now);
      return;
    }
    if (rule.is_answer) in_a_row = 0;
    if (rule.consecutive && in_row) ++in_a_row;
    const bool no_answer = type == FailureType::kTimeout || type == FailureType::kConnect ||
                           type == FailureType::kDns || type == FailureType::kTls || type == FailureType::kUnknown ||
                           type == FailureType::kCancelled || type == FailureType::kLocal;
    if (!no_answer) cut_off_in_a_row = 0;
    if (!rule.counts) return;
    calls_.push_back({now.time_since_epoch() / options_.window.bucket, rule.weight, slow});
    if (state != BreakerState::kClosed) return;
    const auto [total, errors, slow_calls] = counts(now);
    const bool troubled = errors > 0 || slow_calls > 0;
    const bool rates = total >= options_.min_calls && (errors / total >= options_.error_rate_threshold ||
                                                       slow_calls / total >= options_.slow_rate_threshold);
    if (troubled && (in_a_row >= options_.consecutive_failure_threshold ||
                     cut_off_in_a_row >= 2 * options_.consecutive_failure_threshold || rates)) {
      open(now);
    }
  }

  void cut_off(const Leave& leave, Time now) {
    const bool known = probes_.erase(leave.probe) != 0;
    if (leave.epoch != epoch || (leave.probe != 0 && !known)) return;
    if (leave.probe != 0) {
      ++cut_off_probes_;
      decide(now);
      return;
    }
    ++cut_off_in_a_row;
    const auto [total, errors, slow_calls] = counts(now);
    const bool rates = total >= options_.min_calls && (errors / total >= options_.error_rate_threshold ||
                                                       slow_calls / total >= options_.slow_rate_threshold);
    if (state == BreakerState::kClosed && (in_a_row >= options_.consecutive_failure_threshold ||
                                           cut_off_in_a_row >= 2 * options_.consecutive_failure_threshold || rates)) {
      open(now);
    }
  }

  void abandon(const Leave& leave) { probes_.erase(leave.probe); }

  void force(BreakerState forced, std::optional<Duration> expires_in, Time now) {
    if (forced == BreakerState::kClosed) {
      if (state == BreakerState::kForcedOpen) {
        enter(BreakerState::kHalfOpen);
        half_open_until_ = now + options_.half_open_max_duration;
      } else {
        close();
      }
      return;
    }
    until_ = expires_in ? now + *expires_in : Time::max();
    enter(forced);
  }

  void reconfigure(const BreakerOptions& options, Time now) {
    options_ = options;
    if (state == BreakerState::kHalfOpen) decide(now);
  }

  struct Counts {
    double calls = 0;
    double errors = 0;
    double slow = 0;
  };
  [[nodiscard]] Counts counts(Time now) const {
    Counts counts;
    const auto step = now.time_since_epoch() / options_.window.bucket;
    for (const Call& call : calls_) {
      if (call.step + options_.window.buckets <= step) continue;
      ++counts.calls;
      counts.errors += call.weight;
      counts.slow += call.slow ? 1 : 0;
    }
    return counts;
  }
  [[nodiscard]] std::size_t probes_out() const { return probes_.size(); }

  BreakerState state = BreakerState::kClosed;
  int epoch = 0;
  std::uint32_t attempt = 0;
  std::uint32_t in_a_row = 0;
  std::uint32_t cut_off_in_a_row = 0;

 private:
  struct Call {
    std::int64_t step;
    double weight;
    bool slow;
  };

  void look(Time now) {
    if (state == BreakerState::kHalfOpen) {
      for (const auto& [number, probe] : probes_) {
        if (probe.until <= now && probe.epoch == epoch) ++(probe.gave_less ? cut_off_probes_ : bad_);
      }
      std::erase_if(probes_, [&](const auto& probe) { return probe.second.until <= now; });
      forget_old_successes(now);
      if (failed()) return reopen(now);
      if (now < half_open_until_) return;
      if (bad_ == 0 && !refused_) {
        half_open_until_ = now + options_.half_open_max_duration;
      } else if (own_probes() == 0) {
        reopen(now);
      }
      return;
    }
    if (state == BreakerState::kClosed || now < until_) return;
    if (state == BreakerState::kOpen || state == BreakerState::kForcedOpen) {
      enter(BreakerState::kHalfOpen);
      half_open_until_ = now + options_.half_open_max_duration;
    } else {
      close();
    }
  }
  void forget_old_successes(Time now) {
    std::erase_if(good_, [&](Time at) { return now - at >= 10min; });
  }
  [[nodiscard]] bool failed() const {
    return bad_ >= options_.half_open_failure_threshold ||
           cut_off_probes_ >= 2 * options_.consecutive_failure_threshold;
  }
  void decide(Time now) {
    const auto good = static_cast<std::size_t>(std::ranges::count_if(good_, [&](Time at) { return now - at < 10min; }));
    if (failed()) {
      reopen(now);
    } else if (good >= options_.half_open_success_threshold) {
      close();
    } else if (good + bad_ >= options_.permitted_calls_in_half_open) {
      reopen(now);
    }
  }
  [[nodiscard]] std::size_t own_probes() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(probes_, [&](const auto& probe) { return probe.second.epoch == epoch; }));
  }
  void enter(BreakerState next) {
    state = next;
    ++epoch;
    good_.clear();
    bad_ = cut_off_probes_ = 0;
    refused_ = false;
  }
  void close() {
    enter(BreakerState::kClosed);
    calls_.clear();
    in_a_row = cut_off_in_a_row = attempt = 0;
  }
  void open(Time now) {
    const double seconds =
        std::chrono::duration<double>(options_.open_base).count() * std::pow(options_.open_backoff_multiplier, attempt);
    const double most = std::chrono::duration<double>(options_.open_max).count();
    until_ = now + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(seconds, most)));
    enter(BreakerState::kOpen);
  }
  void reopen(Time now) {
    ++attempt;
    open(now);
  }

  BreakerOptions options_;
  std::vector<Call> calls_;
  struct Probe {
    int epoch;
    Time until;
    bool gave_less;
  };
  std::map<int, Probe> probes_;
  int last_probe_ = 0;
  std::vector<Time> good_;
  std::size_t bad_ = 0;
  std::size_t cut_off_probes_ = 0;
  bool refused_ = false;
  Time half_open_until_{};
  Time until_{};
};

// The choices of a history, from a seed without an end, or from a list that ends it and that rapidcheck can shrink.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed) {}
  explicit Choices(std::vector<std::uint32_t> list) : random_(0), list_(std::move(list)) {}

  [[nodiscard]] bool at_end() const { return list_ && next_ >= list_->size(); }
  std::uint64_t below(std::uint64_t limit) { return list_ ? listed() % limit : random_.below(limit); }
  bool chance(double probability) {
    return list_ ? static_cast<double>(listed() % 1000) >= 1000 * (1 - probability) : random_.chance(probability);
  }

 private:
  std::uint64_t listed() { return at_end() ? 0 : (*list_)[next_++]; }

  Random random_;
  std::optional<std::vector<std::uint32_t>> list_;
  std::size_t next_ = 0;
};

// What went wrong, or nothing.
template <class Faults>
std::string run_history(Choices random) {
  const auto some = [&](std::uint64_t most) { return static_cast<std::uint32_t>(1 + random.below(most)); };
  VirtualClock clock;
  const auto thresholds = [&](BreakerOptions options) {
    options.min_calls = some(8);
    options.error_rate_threshold = 0.25 * some(4);
    options.slow_rate_threshold = 0.25 * some(4);
    options.consecutive_failure_threshold = some(6);
    options.permitted_calls_in_half_open = some(4);
    options.half_open_success_threshold = some(options.permitted_calls_in_half_open);
    options.half_open_failure_threshold = some(options.permitted_calls_in_half_open);
    options.half_open_max_duration = std::chrono::seconds(some(20));
    return options;
  };
  BreakerOptions options;
  options.window = {.buckets = some(10), .bucket = std::chrono::milliseconds(250 * some(8))};
  options.open_jitter_ratio = 0;
  options.open_base = std::chrono::seconds(some(4));
  options.open_max = std::chrono::seconds(4 + some(16));
  options = thresholds(options);
  BasicBreaker<Faults> breaker(options, clock, 1);
  Model model(options);

  struct Open {
    BasicPermit<Faults> permit;
    Model::Leave leave;
  };
  std::vector<Open> calls;
  // Some histories are of nothing but answers of one kind.
  const bool one_kind = random.chance(0.2);
  const bool often_cut_off = random.chance(0.1);
  const auto only = static_cast<FailureType>(random.below(kFailureTypes));
  for (int i = 0; i < 400 && !random.at_end(); ++i) {
    switch (random.below(10)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        std::optional<Time> deadline;
        if (random.chance(0.3)) deadline = clock.now() + std::chrono::milliseconds(random.below(40'000));
        const bool asked = random.chance(0.3) ? breaker.would_allow() : true;
        const bool gave_less = random.chance(0.5);
        const Model::Leave leave = model.allow(clock.now(), deadline, gave_less);
        Open call{breaker.allow(deadline, gave_less), leave};
        if (static_cast<bool>(call.permit) != leave.allowed) return "it disagrees about who may call";
        if (leave.allowed && !asked && breaker.state() != BreakerState::kHalfOpen) return "would_allow is wrong";
        if (leave.allowed) calls.push_back(std::move(call));
        break;
      }
      case 4:
      case 5:
      case 6: {
        if (calls.empty()) break;
        std::swap(calls[random.below(calls.size())], calls.back());
        const auto type = one_kind ? only : static_cast<FailureType>(random.below(kFailureTypes));
        const Duration latency = random.chance(0.2) ? 5s : 10ms;
        if (random.chance(often_cut_off ? 0.8 : 0.1)) {
          model.cut_off(calls.back().leave, clock.now());
          calls.back().permit.cut_off();
        } else if (random.chance(0.1)) {
          model.finish(calls.back().leave, type, latency, clock.now(), false);
          calls.back().permit.failure_out_of_row(type, latency);
        } else {
          model.finish(calls.back().leave, type, latency, clock.now(), true);
          calls.back().permit.finish(type, latency);
        }
        calls.pop_back();
        break;
      }
      case 7:
        if (calls.empty()) break;
        std::swap(calls[random.below(calls.size())], calls.back());
        model.abandon(calls.back().leave);
        calls.pop_back();
        break;
      case 8:
        clock.advance(random.chance(0.01)  ? std::chrono::minutes(random.below(15))
                      : random.chance(0.2) ? std::chrono::milliseconds(random.below(40'000))
                                           : std::chrono::milliseconds(random.below(400)));
        break;
      default:
        if (random.chance(0.1)) {
          options = thresholds(options);
          if (!breaker.reconfigure(options)) return "it could not be reconfigured";
          model.reconfigure(options, clock.now());
        } else if (random.chance(0.1)) {
          std::optional<Duration> expires_in;
          if (random.chance(0.7)) expires_in = std::chrono::seconds(some(10));
          switch (random.below(4)) {
            case 0:
              breaker.force_open("a", "b", expires_in);
              model.force(BreakerState::kForcedOpen, expires_in, clock.now());
              break;
            case 1:
              breaker.force_closed("a", "b", expires_in);
              model.force(BreakerState::kForcedClosed, expires_in, clock.now());
              break;
            case 2:
              breaker.disable("a", "b", expires_in);
              model.force(BreakerState::kDisabled, expires_in, clock.now());
              break;
            default:
              breaker.release("a", "b");
              model.force(BreakerState::kClosed, {}, clock.now());
              break;
          }
        }
        break;
    }
    const auto seen = breaker.snapshot();
    const Model::Counts counts = model.counts(clock.now());
    if (seen.state != model.state)
      return "it is " + std::string(to_string(seen.state)) + ", not " + std::string(to_string(model.state));
    if (seen.attempt != model.attempt) return "its back-off is wrong";
    if (seen.consecutive_failures != model.in_a_row) return "the row of failures is wrong";
    if (seen.cut_off_in_a_row != model.cut_off_in_a_row) return "the row of calls that were cut off is wrong";
    if (seen.probes_out != model.probes_out()) return "the number of probes is wrong";
    if (static_cast<double>(seen.window.calls) != counts.calls ||
        static_cast<double>(seen.window.half_errors) != 2 * counts.errors ||
        static_cast<double>(seen.window.slow) != counts.slow) {
      return "the window is wrong";
    }
  }
  return "";
}

TEST(BreakerStormTest, DoesWhatItsModelDoes) {
  const Seeds seeds(3000);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(run_history<NoBreakerFaults>(Choices(seed)), "") << "replay with ./dev sim " << seed;
  }
}

// The same from lists of choices: one that fails is shrunk to a short one and printed. RC_PARAMS="seed=1
// max_success=10000" sets another seed and number.
TEST(BreakerPropertyTest, DoesWhatItsModelDoes) {
  ::setenv("RC_PARAMS", "seed=42 max_success=400 max_size=600", 0);
  EXPECT_TRUE(rc::check("a breaker does what its model does", [](const std::vector<std::uint32_t>& choices) {
    RC_ASSERT(run_history<NoBreakerFaults>(Choices(choices)) == "");
  }));
}

// A test that cannot fail proves nothing.
struct LeakProbe : NoBreakerFaults {
  static constexpr bool kLeakProbe = true;
};
struct CountStale : NoBreakerFaults {
  static constexpr bool kCountStale = true;
};
struct KeepBackoff : NoBreakerFaults {
  static constexpr bool kKeepBackoff = true;
};
struct KeepWindow : NoBreakerFaults {
  static constexpr bool kKeepWindow = true;
};
struct NeverExtend : NoBreakerFaults {
  static constexpr bool kNeverExtend = true;
};
template <class Faults>
class PlantedBreakerBugTest : public ::testing::Test {};
using PlantedBugs = ::testing::Types<LeakProbe, CountStale, KeepBackoff, KeepWindow, NeverExtend>;
TYPED_TEST_SUITE(PlantedBreakerBugTest, PlantedBugs);

TYPED_TEST(PlantedBreakerBugTest, IsFound) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const std::string broken = run_history<TypeParam>(Choices(seed));
    if (broken.empty()) continue;
    std::cout << "seed " << seed << ": " << broken << "\n";
    return;
  }
  FAIL() << "300 histories did not find it";
}

// Threads call, fail, abandon and control it at once; its time is short, so that it goes through all its states. Probes
// that are out are never more than allowed, as long as none is lost.
TEST(BreakerStormTest, NeverHasMoreProbesOutThanAllowed) {
  for (int round = 0; round < 5; ++round) {
    BreakerOptions options;
    options.open_base = 1ms;
    options.open_max = 2ms;
    options.half_open_max_duration = 600s;
    options.permitted_calls_in_half_open = 3;
    options.half_open_success_threshold = 3;
    options.consecutive_failure_threshold = 3;
    Breaker breaker(options);
    std::atomic<int> probes{0};
    std::atomic<bool> too_many{false};
    std::atomic<int> changes{0};
    breaker.on_event([&](const BreakerEvent&) { ++changes; });
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Random random(t + 1);
        for (int i = 0; i < 3000; ++i) {
          Permit permit = breaker.allow();
          if (!permit) {
            std::this_thread::yield();
            continue;
          }
          const bool probe = permit.is_probe();
          if (probe && ++probes > 3) too_many = true;
          if (random.chance(0.2)) std::this_thread::yield();
          if (probe) --probes;
          if (random.chance(0.2)) continue;
          permit.finish(random.chance(0.5) ? FailureType::kSuccess : FailureType::kConnect, 1us);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(too_many);
    EXPECT_GT(changes, 0);
  }
}

}  // namespace
}  // namespace cohort

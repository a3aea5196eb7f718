#pragma once

// Five providers of an unreliable world in virtual time, and three ways to use them.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/provider/router.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort::bench {

inline constexpr std::size_t kProviders = 5;
inline constexpr int kSeconds = 600;
inline constexpr int kRequestsPerSecond = 200;
inline constexpr Duration kTimeout = std::chrono::seconds(2);
inline constexpr Duration kGood = std::chrono::seconds(1);

/// What became of the requests of each second, and of the calls made in it.
struct Series {
  std::vector<int> requests = std::vector<int>(kSeconds);
  std::vector<int> good = std::vector<int>(kSeconds);    ///< A good answer within a second, by when it was asked for.
  std::vector<int> wasted = std::vector<int>(kSeconds);  ///< Calls sent to a provider in a bad phase.

  [[nodiscard]] double not_good() const {
    double sum = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) sum += requests[i] - good[i];
    return sum;
  }
  [[nodiscard]] double all_wasted() const {
    double sum = 0;
    for (const int each : wasted) sum += each;
    return sum;
  }
};

/// How one call of a provider goes.
struct CallEnd {
  FailureType type = FailureType::kSuccess;
  Duration latency{0};
  std::optional<Duration> retry_after{};
  bool bad_phase = false;
};

/// The providers: healthy; slow in minutes 2 to 6; dead in minutes 3 to 5; flapping every ten seconds; limited to 50
/// requests a second.
class World5 {
 public:
  explicit World5(std::uint64_t seed) : random_(seed) {}

  CallEnd call(std::size_t provider, Duration at) {
    using namespace std::chrono_literals;
    const double second = std::chrono::duration<double>(at).count();
    CallEnd end{FailureType::kSuccess, jittered(40ms)};
    switch (provider) {
      case 0:
        if (random_.chance(0.005)) end.type = FailureType::kHttp5xx;
        break;
      case 1:
        end.bad_phase = second >= 120 && second < 360;
        if (end.bad_phase) end = {FailureType::kTimeout, kTimeout, {}, true};  // 6 s, which nobody waits for.
        break;
      case 2:
        end.bad_phase = second >= 180 && second < 300;
        if (end.bad_phase) end = {FailureType::kConnect, 1ms, {}, true};
        break;
      case 3:
        end.bad_phase = std::fmod(second, 20) >= 10;
        if (end.bad_phase && random_.chance(0.6)) end.type = FailureType::kHttp5xx;
        break;
      default:
        while (!recent_.empty() && recent_.front() <= at - 1s) recent_.pop_front();
        if (recent_.size() >= 50) {
          end = {FailureType::kHttp429, 5ms, 2s, true};
        } else {
          recent_.push_back(at);
        }
        break;
    }
    return end;
  }

 private:
  Duration jittered(Duration mean) {
    return Duration(static_cast<Duration::rep>(static_cast<double>(mean.count()) * (0.7 + 0.6 * random_.unit())));
  }
  Random random_;
  std::deque<Duration> recent_;
};

/// A request under way, in one of the three ways.
class Request {
 public:
  virtual ~Request() = default;
  /// The provider to ask next, or none: it has ended.
  virtual std::optional<std::size_t> next() = 0;
  /// True: it has its answer.
  virtual bool end(const CallEnd& end) = 0;
};
using MakeRequest = std::function<std::unique_ptr<Request>()>;

/// Runs ten minutes of requests.
inline Series simulate(std::uint64_t seed, VirtualClock& clock, const MakeRequest& make) {
  struct Event {
    Time at;
    std::uint64_t order;
    std::size_t request;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Running {
    std::unique_ptr<Request> request;
    Time began;
    std::size_t second = 0;
    CallEnd call;
  };
  Series series;
  World5 world(seed);
  Random random(seed + 1000);
  const Time start = clock.now();
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<Running> running;
  std::vector<std::size_t> free;
  std::uint64_t order = 0;

  const auto go_on = [&](std::size_t index) {
    Running& each = running[index];
    const auto provider = each.request->next();
    if (!provider) {
      each.request.reset();
      free.push_back(index);
      return;
    }
    const Duration at = clock.now() - start;
    each.call = world.call(*provider, at);
    const auto second = static_cast<std::size_t>(at / std::chrono::seconds(1));
    if (each.call.bad_phase && second < series.wasted.size()) ++series.wasted[second];
    events.push({clock.now() + each.call.latency, order++, index});
  };

  const int all = kSeconds * kRequestsPerSecond;
  Time next_arrival = start;
  for (int arrived = 0; arrived < all || !events.empty();) {
    if (arrived < all && (events.empty() || next_arrival <= events.top().at)) {
      clock.set(std::max(clock.now(), next_arrival));
      std::size_t index = running.size();
      if (free.empty()) {
        running.emplace_back();
      } else {
        index = free.back();
        free.pop_back();
      }
      const auto second = std::min<std::size_t>(
          static_cast<std::size_t>((clock.now() - start) / std::chrono::seconds(1)), kSeconds - 1);
      running[index].request = make();
      running[index].began = clock.now();
      running[index].second = second;
      ++series.requests[second];
      go_on(index);
      ++arrived;
      // Poisson, 200 a second.
      next_arrival += Duration(static_cast<Duration::rep>(-std::log(1 - random.unit()) * 1e9 / kRequestsPerSecond));
      continue;
    }
    const Event event = events.top();
    events.pop();
    clock.set(std::max(clock.now(), event.at));
    Running& each = running[event.request];
    if (each.request->end(each.call)) {
      if (clock.now() - each.began <= kGood) ++series.good[each.second];
      each.request.reset();
      free.push_back(event.request);
    } else {
      go_on(event.request);
    }
  }
  return series;
}

// ---- one after the other

inline Series round_robin(std::uint64_t seed) {
  class Once final : public Request {
   public:
    explicit Once(std::size_t provider) : provider_(provider) {}
    std::optional<std::size_t> next() override { return std::exchange(provider_, std::nullopt); }
    bool end(const CallEnd& end) override { return end.type == FailureType::kSuccess; }

   private:
    std::optional<std::size_t> provider_;
  };
  VirtualClock clock;
  std::size_t number = 0;
  return simulate(seed, clock, [&] { return std::make_unique<Once>(number++ % kProviders); });
}

// ---- a simple breaker: five failures and a score below 40 open for 30 s, half open lets everything through,
// every failure fails over, without a limit

class SimplePool {
 public:
  SimplePool(VirtualClock& clock, std::uint64_t seed) : clock_(clock), random_(seed) {}

  std::optional<std::size_t> select(const std::array<bool, kProviders>& tried) {
    std::vector<std::pair<double, std::size_t>> eligible;
    for (std::size_t i = 0; i < kProviders; ++i) {
      if (!tried[i] && allows(i)) eligible.emplace_back(states_[i].score, i);
    }
    if (eligible.empty()) return std::nullopt;
    std::ranges::sort(eligible, std::greater<>());
    if (eligible.size() > 3) eligible.resize(3);
    double sum = 0;
    for (const auto& each : eligible) sum += std::exp((each.first - eligible[0].first) / 10);
    double draw = random_.unit() * sum;
    for (const auto& each : eligible) {
      draw -= std::exp((each.first - eligible[0].first) / 10);
      if (draw <= 0) return each.second;
    }
    return eligible.back().second;
  }

  void end(std::size_t index, bool success, Duration latency) {
    State& state = states_[index];
    const double ms = std::chrono::duration<double, std::milli>(latency).count();
    state.success_rate += ((success ? 1.0 : 0.0) - state.success_rate) * 0.4;
    state.latency_ms += (ms - state.latency_ms) * 0.4;
    state.recent.push_back(success);
    if (state.recent.size() > 20) state.recent.pop_front();
    if (++state.calls >= 15) {
      const double penalty = std::clamp((state.latency_ms - 5000) / 25'000, 0.0, 1.0);
      const auto failed = static_cast<double>(std::ranges::count(state.recent, false));
      const double recent = failed / static_cast<double>(state.recent.size());
      state.score = std::clamp(state.success_rate * 70 - penalty * 20 - recent * 10, 1.0, 100.0);
    }
    if (success) {
      if (state.half_open) state.half_open = false;
      state.failures = 0;
      return;
    }
    if (++state.failures >= 5 && state.score < 40) {
      state.open_until = clock_.now() + std::chrono::seconds(30);
      state.half_open = false;
    }
  }

 private:
  struct State {
    double success_rate = 1;
    double latency_ms = 0;
    double score = 70;
    std::deque<bool> recent;
    int calls = 0;
    int failures = 0;
    Time open_until = Time::min();
    bool half_open = false;
  };
  bool allows(std::size_t index) {
    State& state = states_[index];
    if (state.open_until == Time::min()) return true;
    if (clock_.now() < state.open_until) return false;
    state.open_until = Time::min();
    return state.half_open = true;
  }

  VirtualClock& clock_;
  Random random_;
  std::array<State, kProviders> states_;
};

inline Series starting_point(std::uint64_t seed) {
  class Unlimited final : public Request {
   public:
    explicit Unlimited(SimplePool& pool) : pool_(pool) {}
    std::optional<std::size_t> next() override {
      const auto chosen = pool_.select(tried_);
      if (chosen) {
        current_ = *chosen;
        tried_[*chosen] = true;
      }
      return chosen;
    }
    bool end(const CallEnd& end) override {
      pool_.end(current_, end.type == FailureType::kSuccess, end.latency);
      return end.type == FailureType::kSuccess;
    }

   private:
    SimplePool& pool_;
    std::array<bool, kProviders> tried_{};
    std::size_t current_ = 0;
  };
  VirtualClock clock;
  SimplePool pool(clock, seed);
  return simulate(seed, clock, [&] { return std::make_unique<Unlimited>(pool); });
}

// ---- ours

inline Series ours(std::uint64_t seed) {
  class Routed final : public Request {
   public:
    explicit Routed(Router& router) : route_(router) {}
    std::optional<std::size_t> next() override {
      if (ended_ || !route_.next()) return std::nullopt;
      return route_.attempt().index;
    }
    bool end(const CallEnd& end) override {
      if (end.type == FailureType::kSuccess) {
        route_.succeed();
        return true;
      }
      ended_ = !route_.fail({end.type, {ErrorCode::kUnavailable, "failed"}, end.retry_after, {}});
      return false;
    }

   private:
    Route route_;
    bool ended_ = false;
  };
  VirtualClock clock;
  std::vector<ProviderOptions> providers;
  for (const char* name : {"healthy", "slow", "dead", "flapping", "limited"}) {
    ProviderOptions provider{.name = name};
    provider.breaker.slow_call_threshold = kGood;  // Later than that is of no use here.
    providers.push_back(std::move(provider));
  }
  RouterOptions options;
  options.timeout = kTimeout;
  options.clock = &clock;
  options.seed = seed;
  const auto router = Router::make(providers, options).value();
  return simulate(seed, clock, [&] { return std::make_unique<Routed>(*router); });
}

}  // namespace cohort::bench

#include "cohort/provider/breaker.h"

#include <cmath>
#include <string>

#include "provider/breaker_parts.h"

namespace cohort {

std::string_view to_string(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed: return "closed";
    case BreakerState::kOpen: return "open";
    case BreakerState::kHalfOpen: return "half_open";
    case BreakerState::kForcedOpen: return "forced_open";
    case BreakerState::kForcedClosed: return "forced_closed";
    case BreakerState::kDisabled: return "disabled";
  }
  return "closed";
}

namespace {

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}
double in_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Collects what is wrong.
class Complaints {
 public:
  void range(const char* field, double value, double low, double high) {
    if (value >= low && value <= high) return;
    add(std::string(field) + " is " + number(value) + "; it must be from " + number(low) + " to " + number(high));
  }
  void half(const char* field, double value) {
    if (value * 2 == std::floor(value * 2)) return;
    add(std::string(field) + " is " + number(value) + "; it must be 0, 0.5 or 1");
  }
  void positive(const char* field, Duration value) {
    if (value <= Duration::zero()) add(std::string(field) + " must be longer than 0");
  }
  void at_most(const char* field, double value, const char* other, double most) {
    if (value <= most) return;
    add(std::string(field) + " (" + number(value) + ") is above " + other + " (" + number(most) + ")");
  }
  [[nodiscard]] Result<void> result() const {
    if (text_.empty()) return {};
    return Error{ErrorCode::kInvalid, text_};
  }

 private:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
  std::string text_;
};

constexpr double kSmallest = 1e-6;  // Of a rate.

// How many calls a window always has room for: a step that is full is halved.
std::uint32_t most_calls(const WindowOptions& window) {
  if (window.kind == WindowOptions::Kind::kCalls) return window.calls;
  return std::clamp(window.buckets, 1U, 60U) * ((Window::kMostInStep + 1) / 2);
}

}  // namespace

Result<void> BreakerOptions::check() const {
  Complaints complaints;
  if (window.kind == WindowOptions::Kind::kTime) {
    complaints.range("window.buckets", window.buckets, 1, 60);
    complaints.range("window.bucket in seconds", in_seconds(window.bucket), 0.001, 3600);
  } else {
    complaints.range("window.calls", window.calls, 1, 10'000);
    complaints.at_most("min_calls", min_calls, "window.calls", window.calls);
  }
  if (window.kind == WindowOptions::Kind::kTime) {
    complaints.at_most("min_calls", min_calls, "what the window can hold", most_calls(window));
  }
  complaints.range("min_calls", min_calls, 1, 1'000'000);
  complaints.range("error_rate_threshold", error_rate_threshold, kSmallest, 1);
  complaints.range("slow_rate_threshold", slow_rate_threshold, kSmallest, 1);
  if (slow_call_threshold) complaints.positive("slow_call_threshold", *slow_call_threshold);
  if (call_timeout < Duration::zero()) complaints.positive("call_timeout", call_timeout);
  complaints.range("consecutive_failure_threshold", consecutive_failure_threshold, 1, 1'000'000);
  complaints.positive("open_base", open_base);
  complaints.at_most("open_base in seconds", in_seconds(open_base), "open_max", in_seconds(open_max));
  complaints.range("open_backoff_multiplier", open_backoff_multiplier, 1, 10);
  complaints.range("open_jitter_ratio", open_jitter_ratio, 0, 0.9);
  complaints.range("permitted_calls_in_half_open", permitted_calls_in_half_open, 1, 64);
  complaints.range("half_open_success_threshold", half_open_success_threshold, 1, 64);
  complaints.range("half_open_failure_threshold", half_open_failure_threshold, 1, 64);
  complaints.at_most("half_open_success_threshold", half_open_success_threshold, "permitted_calls_in_half_open",
                     permitted_calls_in_half_open);
  complaints.at_most("half_open_failure_threshold", half_open_failure_threshold, "permitted_calls_in_half_open",
                     permitted_calls_in_half_open);
  complaints.positive("half_open_max_duration", half_open_max_duration);
  for (std::size_t i = 0; i < kFailureTypes; ++i) {
    const auto type = static_cast<FailureType>(i);
    const std::string field = "rules[" + std::string(to_string(type)) + "].weight";
    complaints.range(field.c_str(), rules[type].weight, 0, 1);
    complaints.half(field.c_str(), rules[type].weight);
  }
  return complaints.result();
}

Duration BreakerOptions::slow_from() const {
  constexpr Duration kSlow = std::chrono::seconds(4);
  if (slow_call_threshold) return *slow_call_threshold;
  return call_timeout > Duration::zero() ? std::min(kSlow, call_timeout) : kSlow;
}

namespace internal {

BreakerOptions corrected(BreakerOptions options) {
  const auto longer = [](Duration& value) { value = std::max<Duration>(value, std::chrono::milliseconds(1)); };
  const auto rate = [](double& value) { value = value >= kSmallest ? std::min(value, 1.0) : kSmallest; };
  WindowOptions& window = options.window;
  window.buckets = std::clamp(window.buckets, 1U, 60U);
  window.bucket = std::clamp<Duration>(window.bucket, std::chrono::milliseconds(1), std::chrono::hours(1));
  window.calls = std::clamp(window.calls, 1U, 10'000U);
  options.min_calls = std::clamp(options.min_calls, 1U, 1'000'000U);
  options.min_calls = std::min(options.min_calls, most_calls(window));
  rate(options.error_rate_threshold);
  rate(options.slow_rate_threshold);
  if (options.slow_call_threshold) longer(*options.slow_call_threshold);
  options.call_timeout = std::max(options.call_timeout, Duration::zero());
  options.consecutive_failure_threshold = std::clamp(options.consecutive_failure_threshold, 1U, 1'000'000U);
  longer(options.open_base);
  options.open_max = std::max(options.open_max, options.open_base);
  options.open_backoff_multiplier =
      options.open_backoff_multiplier >= 1 ? std::min(options.open_backoff_multiplier, 10.0) : 1.0;
  options.open_jitter_ratio = options.open_jitter_ratio >= 0 ? std::min(options.open_jitter_ratio, 0.9) : 0.0;
  options.permitted_calls_in_half_open = std::clamp(options.permitted_calls_in_half_open, 1U, 64U);
  options.half_open_success_threshold =
      std::clamp(options.half_open_success_threshold, 1U, options.permitted_calls_in_half_open);
  options.half_open_failure_threshold =
      std::clamp(options.half_open_failure_threshold, 1U, options.permitted_calls_in_half_open);
  longer(options.half_open_max_duration);
  return options;
}

}  // namespace internal

template class BasicBreaker<NoBreakerFaults>;
template class BasicPermit<NoBreakerFaults>;

}  // namespace cohort

#include "cohort/base/token_bucket.h"

#include <algorithm>

namespace cohort {

TokenBucket::TokenBucket(Rate rate, Time now)
    : count_(std::max<std::uint32_t>(rate.count, 1)),
      burst_(rate.burst.was_negative() ? 1
             : rate.burst == 0         ? count_
                                       : static_cast<std::uint32_t>(rate.burst)),
      per_token_(std::max(rate.period, Duration(1)).count()),
      empty_at_(units(now) - per_token_ * burst_) {}

bool TokenBucket::try_take(Time now) {
  if (available(now) == 0) return false;
  // Whatever flowed in beyond the burst is lost first.
  empty_at_ = std::max(empty_at_, units(now) - per_token_ * burst_) + per_token_;
  return true;
}

void TokenBucket::put_back(Time now) { empty_at_ = std::max(empty_at_ - per_token_, units(now) - per_token_ * burst_); }

std::uint64_t TokenBucket::available(Time now) const {
  const Units flowed = units(now) - empty_at_;
  if (flowed <= 0) return 0;
  return static_cast<std::uint64_t>(std::min(flowed / per_token_, Units{burst_}));
}

Time TokenBucket::next_at(Time now) const { return std::max(now, at(empty_at_ + per_token_)); }

Time TokenBucket::full_at(Time now) const { return std::max(now, at(empty_at_ + per_token_ * burst_)); }

Time TokenBucket::at(Units units) const {
  const Units up = (units + Units{count_} - 1) / count_;
  return Time(Duration(static_cast<std::int64_t>(std::min(up, Units{Duration::max().count()}))));
}

}  // namespace cohort

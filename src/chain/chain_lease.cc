#include "chain/chain_lease.h"

#include <utility>

#include "cohort/base/log.h"

namespace cohort {

ChainLease::ChainLease(TaskStore& store, ChainCalls& calls, ChainRandom& random, const ChainOptions& options,
                       Begin begin, Lost lost)
    : store_(store),
      calls_(calls),
      random_(random),
      options_(options),
      begin_(std::move(begin)),
      lost_(std::move(lost)),
      clock_(options.lease_clock != nullptr ? *options.lease_clock : boottime_clock()) {}

void ChainLease::join(Completion<void> done) {
  const std::string boot = options_.node + "/" + random_.make_id().substr(0, 16);
  const std::string formerly = this->boot();
  const Time sent = clock_.now();
  store_.join({.node = options_.node, .boot = boot, .formerly = formerly}, length(),
              [this, hold = calls_.hold(), boot, is_first = formerly.empty(), sent,
               done = std::move(done)](Result<void> joined) mutable {
                if (!joined) return done(std::move(joined));
                {
                  MutexLock lock(mutex_);
                  boot_ = boot;
                  is_held_ = true;  // Also while the engine drains: then it is given up at the end of that.
                  renewed_ = sent;
                }
                begin_(boot, is_first, std::move(done));
              });
}

void ChainLease::tick() {
  bool is_lost = false;
  bool joins = false;
  std::string boot;
  {
    MutexLock lock(mutex_);
    const Duration since = clock_.now() - renewed_;
    // A fifth of the lease is left for what runs to end in.
    is_lost = store_.is_shared() && is_held_ && since >= options_.lease - options_.lease / 5;
    if (!is_lost && (is_renewing_ || (is_held_ && since < options_.renew_every))) return;
    joins = !is_held_;
    is_renewing_ = is_renewing_ || !is_lost;
    boot = boot_;
  }
  if (is_lost) return lose("it could not be renewed in time");
  if (!joins) return renew(std::move(boot));
  join([this, hold = calls_.hold()](const Result<void>&) { end_renewal(); });
}

void ChainLease::renew(std::string boot) {
  const Time sent = clock_.now();
  store_.renew(boot, length(), [this, hold = calls_.hold(), sent, boot](Result<void> renewed) {
    end_renewal();
    {
      MutexLock lock(mutex_);
      if (boot_ != boot) return;
      if (renewed) renewed_ = sent;
    }
    if (!renewed && renewed.error().code == ErrorCode::kStale) lose("the store says so");
  });
}

void ChainLease::lose(const char* why) {
  std::string boot;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(is_held_, false)) return;
    ++times_lost_;
    boot = boot_;
  }
  COHORT_LOG(kWarning, "chain", "the node has lost its lease; its running steps are stopped", {"node", boot},
             {"error", why});
  lost_();
}

std::string ChainLease::give_up() {
  MutexLock lock(mutex_);
  return std::exchange(is_held_, false) ? boot_ : "";
}

bool ChainLease::is_held() const {
  MutexLock lock(mutex_);
  return is_held_;
}

bool ChainLease::is_held_by(const std::string& boot) const {
  MutexLock lock(mutex_);
  return is_held_ && boot_ == boot;
}

std::string ChainLease::boot() const {
  MutexLock lock(mutex_);
  return boot_;
}

std::uint64_t ChainLease::times_lost() const {
  MutexLock lock(mutex_);
  return times_lost_;
}

}  // namespace cohort

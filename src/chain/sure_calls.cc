#include "chain/sure_calls.h"

#include <algorithm>
#include <utility>

namespace cohort {

bool SureCalls::is_worth_repeating(const Error& error, const std::string& boot) const {
  for (const ErrorCode final : {ErrorCode::kStale, ErrorCode::kNotFound, ErrorCode::kInvalid, ErrorCode::kEnded}) {
    if (error.code == final) return false;
  }
  if (store_.fault()) return false;
  {
    MutexLock lock(mutex_);
    if (gives_up_at_ && executor_.clock().now() >= *gives_up_at_) return false;
  }
  return lease_.is_held_by(boot);
}

void SureCalls::claim(ClaimRequest request, Duration wait, Completion<ClaimAnswer> done) {
  ClaimRequest copy = request;
  store_.claim(std::move(copy), [this, hold = calls_.hold(), request = std::move(request), wait,
                                 done = std::move(done)](Result<ClaimAnswer> answer) mutable {
    if (answer || !is_worth_repeating(answer.error(), request.boot)) return done(std::move(answer));
    executor_.call_at(executor_.clock().now() + wait,
                      [this, hold, request = std::move(request), wait, done = std::move(done)]() mutable {
                        claim(std::move(request), std::min(2 * wait, kLongestWait), std::move(done));
                      });
  });
}

void SureCalls::write(Claim claim, std::uint64_t number, RunnerWrite write, Duration wait, Completion<ChainRow> done) {
  Claim claim_copy = claim;
  RunnerWrite copy = write;
  store_.write(std::move(claim_copy), number, std::move(copy),
               [this, hold = calls_.hold(), claim = std::move(claim), number, write = std::move(write), wait,
                done = std::move(done)](Result<ChainRow> row) mutable {
                 if (row || !is_worth_repeating(row.error(), claim.boot)) return done(std::move(row));
                 executor_.call_at(executor_.clock().now() + wait,
                                   [this, hold, claim = std::move(claim), number, write = std::move(write), wait,
                                    done = std::move(done)]() mutable {
                                     this->write(std::move(claim), number, std::move(write),
                                                 std::min(2 * wait, kLongestWait), std::move(done));
                                   });
               });
}

}  // namespace cohort

#include "backend/sqlite/worker.h"

#include <pthread.h>

namespace cohort::sqlite {

Worker::Worker(const char* name, std::uint32_t max_queued, std::uint32_t max_batch, Together together)
    : max_queued_(max_queued), max_batch_(max_batch), together_(std::move(together)), thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

void Worker::stop() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::add_call(std::unique_ptr<Call> call) {
  std::optional<Error> refused;
  {
    MutexLock lock(mutex_);
    if (ended_) {
      refused = Error{ErrorCode::kEnded, "the store has been closed"};
    } else if (queue_.size() >= max_queued_) {
      refused = Error{ErrorCode::kRejected,
                      "the store has " + std::to_string(max_queued_) + " calls waiting already; submit more slowly"};
    } else {
      queue_.push_back(std::move(call));
      if (std::exchange(asleep_, false)) wake_.notify_one();
    }
  }
  if (refused) call->complete(&*refused);
}

void Worker::work() {
  std::vector<std::unique_ptr<Call>> calls;
  for (;;) {
    bool ended = false;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !ended_) {
        asleep_ = true;
        wake_.wait(mutex_);
      }
      asleep_ = false;
      ended = ended_;
      while (!queue_.empty() && (ended || calls.size() < max_batch_)) {
        calls.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    if (calls.empty()) return;
    std::optional<Error> failure;
    if (ended) {
      failure = Error{ErrorCode::kEnded, "the store has been closed"};
    } else {
      failure = together_(calls);
    }
    for (const std::unique_ptr<Call>& call : calls) call->complete(failure ? &*failure : nullptr);
    calls.clear();
  }
}

}  // namespace cohort::sqlite

#include "backend/sqlite/worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cohort::sqlite {

Worker::Worker(const char* name, std::uint32_t max_queued, std::uint32_t max_batch, bool in_background,
               Together together)
    : max_queued_(max_queued), max_batch_(max_batch), together_(std::move(together)), thread_([this, in_background] {
        constexpr int kNice = 10;
        if (in_background) ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // Of this thread alone.
        work();
      }) {
  pthread_setname_np(thread_.native_handle(), name);
  if (max_batch_ == 1) return;  // There is no next transaction to go on with.
  answerer_ = std::thread([this] { answer(); });
  pthread_setname_np(answerer_.native_handle(), "cohort-answer");
}

void Worker::stop() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  {
    MutexLock lock(mutex_);
    answerer_ends_ = true;
    answerable_.notify_one();
  }
  if (answerer_.joinable()) answerer_.join();
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
  if (refused) call->complete(&*refused);  // NOLINT(bugprone-use-after-move): then it was not moved.
}

void Worker::complete(Done& done) {
  for (const std::unique_ptr<Call>& call : done.calls) call->complete(done.failure ? &*done.failure : nullptr);
  done.calls.clear();
}

void Worker::work() {
  for (;;) {
    Done done;
    bool ended = false;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !ended_) {
        asleep_ = true;
        wake_.wait(mutex_);
      }
      asleep_ = false;
      ended = ended_;
      while (!queue_.empty() && (ended || done.calls.size() < max_batch_)) {
        done.calls.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    if (done.calls.empty()) return;
    if (ended) {
      done.failure = Error{ErrorCode::kEnded, "the store has been closed"};
    } else {
      done.failure = together_(done.calls);
    }
    {
      MutexLock lock(mutex_);
      const bool is_much = done.calls.size() > kFew || !queue_.empty() || answers_ || !done_.empty();
      const bool rushes = max_batch_ > 1 && is_much;
      if (rushes) {
        while (done_.size() >= kMaxDone) answered_.wait(mutex_);
        done_.push_back(std::move(done));
        if (!answers_) answerable_.notify_one();
        continue;
      }
    }
    complete(done);
  }
}

void Worker::answer() {
  MutexLock lock(mutex_);
  for (;;) {
    while (done_.empty() && !answerer_ends_) answerable_.wait(mutex_);
    if (done_.empty()) return;
    answers_ = true;
    Done done = std::move(done_.front());
    done_.pop_front();
    answered_.notify_one();
    lock.unlock();
    complete(done);
    lock.lock();
    answers_ = !done_.empty();
  }
}

}  // namespace cohort::sqlite

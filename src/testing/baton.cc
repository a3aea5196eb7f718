#include "testing/baton.h"

#include <algorithm>
#include <utility>

namespace cohort::internal {

BatonThread::BatonThread() : thread_([this] { loop(); }) {}

BatonThread::~BatonThread() {
  COHORT_ASSERT(idle_, "a body's thread ends after its body has");
  {
    MutexLock lock(mutex_);
    ending_ = true;
    passed_.notify_all();
  }
  thread_.join();
}

void BatonThread::run(Function<void()> work) {
  work_ = std::move(work);
  idle_ = false;
  give();
}

void BatonThread::go_on() { give(); }

void BatonThread::give() {
  MutexLock lock(mutex_);
  has_baton_ = true;
  passed_.notify_all();
  while (has_baton_) passed_.wait(mutex_);
}

void BatonThread::yield() {
  MutexLock lock(mutex_);
  has_baton_ = false;
  passed_.notify_all();
  while (!has_baton_) passed_.wait(mutex_);
}

void BatonThread::loop() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!has_baton_ && !ending_) passed_.wait(mutex_);
      if (ending_) return;
    }
    Function<void()> work = std::move(work_);
    work();
    work = nullptr;
    idle_ = true;
    MutexLock lock(mutex_);
    has_baton_ = false;
    passed_.notify_all();
  }
}

BatonThread& BatonThreads::take() {
  const auto idle = std::ranges::find_if(threads_, [](const auto& thread) { return thread->idle(); });
  if (idle != threads_.end()) return **idle;
  return *threads_.emplace_back(std::make_unique<BatonThread>());
}

std::size_t BatonThreads::busy() const {
  return static_cast<std::size_t>(std::ranges::count_if(threads_, [](const auto& thread) { return !thread->idle(); }));
}

}  // namespace cohort::internal

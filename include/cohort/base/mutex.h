#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Annotations that say which lock guards which data. clang checks them (-Wthread-safety); other compilers ignore them.
#if defined(__clang__)
#define COHORT_ANNOTATE(x) __attribute__((x))
#else
#define COHORT_ANNOTATE(x)
#endif
#define COHORT_GUARDED_BY(lock) COHORT_ANNOTATE(guarded_by(lock))
#define COHORT_REQUIRES(...) COHORT_ANNOTATE(requires_capability(__VA_ARGS__))
#define COHORT_EXCLUDES(...) COHORT_ANNOTATE(locks_excluded(__VA_ARGS__))
#define COHORT_ACQUIRE(...) COHORT_ANNOTATE(acquire_capability(__VA_ARGS__))
#define COHORT_TRY_ACQUIRE(...) COHORT_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define COHORT_RELEASE(...) COHORT_ANNOTATE(release_capability(__VA_ARGS__))

namespace cohort {

/// Tells the processor that this thread is in a spin loop.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A mutual exclusion lock whose use clang can check: name it in COHORT_GUARDED_BY of each member that it guards.
///
/// Thread-safety: thread-safe.
class COHORT_ANNOTATE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() COHORT_ACQUIRE() { mutex_.lock(); }
  bool try_lock() COHORT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void lock_soon(int tries) COHORT_ACQUIRE() {
    for (; tries > 0; --tries) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < 8; ++i) pause_processor();
    }
    mutex_.lock();
  }
  void unlock() COHORT_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope. Use `unlock()` and `lock()` around a call that must not be made under the lock.
class COHORT_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) COHORT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  /// Tries to lock `tries` times, a few nanoseconds apart, before it blocks. For a lock that is never held for long.
  MutexLock(Mutex& mutex, int tries) COHORT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock_soon(tries); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() COHORT_RELEASE() {
    if (held_) mutex_.unlock();
  }

  void unlock() COHORT_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() COHORT_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// Waits for a condition that is guarded by a Mutex.
///
/// Thread-safety: thread-safe.
class CondVar {
 public:
  /// Blocks until notified, or wakes up spuriously. Call it in a loop that checks the condition.
  void wait(Mutex& mutex) COHORT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  /// Like wait(), but blocks at most until `end`. Returns false if `end` has come.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end) COHORT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_until(lock, end) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace cohort

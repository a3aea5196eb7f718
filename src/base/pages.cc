#include "cohort/base/internal/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <vector>

#include "base/sanitized.h"
#include "cohort/base/mutex.h"

namespace cohort::internal {

void* map_zeros(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

void unmap(void* memory, std::size_t bytes) { munmap(memory, bytes); }

#ifdef COHORT_SANITIZED

void* take_page() { return ::operator new(kPageBytes, std::align_val_t(kPageBytes)); }
void give_page(void* page) { ::operator delete(page, std::align_val_t(kPageBytes)); }

#else

namespace {

class Pages {
 public:
  void* take() COHORT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!warm_.empty()) return pop(warm_);
    if (cold_.empty()) add_region();
    return pop(cold_);
  }

  // The system call is made with the page in nobody's hands.
  void give(void* page) COHORT_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (warm_.size() < kMostWarm) return warm_.push_back(page);
    }
    madvise(page, kPageBytes, MADV_DONTNEED);
    MutexLock lock(mutex_);
    cold_.push_back(page);
  }

 private:
  static constexpr std::size_t kMostWarm = 16;
  static constexpr std::size_t kPagesInRegion = 64;

  static void* pop(std::vector<void*>& pages) {
    void* const page = pages.back();
    pages.pop_back();
    return page;
  }

  // Address space, which is never given back. Room for all pages to be given back to is made beforehand.
  void add_region() COHORT_REQUIRES(mutex_) {
    pages_ += kPagesInRegion;
    cold_.reserve(pages_);
    warm_.reserve(kMostWarm);
    auto* const memory = static_cast<char*>(map_zeros((kPagesInRegion + 1) * kPageBytes));
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(memory) % kPageBytes;
    char* const first = memory + (kPageBytes - beyond);
    for (std::size_t i = kPagesInRegion; i-- > 0;) cold_.push_back(first + i * kPageBytes);
  }

  Mutex mutex_;
  std::size_t pages_ COHORT_GUARDED_BY(mutex_) = 0;
  std::vector<void*> warm_ COHORT_GUARDED_BY(mutex_);
  std::vector<void*> cold_ COHORT_GUARDED_BY(mutex_);
};

Pages& pages() {
  static auto* all = new Pages;  // Never freed: threads may outlive statics.
  return *all;
}

}  // namespace

void* take_page() { return pages().take(); }
void give_page(void* page) { pages().give(page); }

#endif

}  // namespace cohort::internal

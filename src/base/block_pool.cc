#include "cohort/base/internal/block_pool.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COHORT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COHORT_SANITIZED 1
#endif
#endif

namespace cohort::internal {

#ifdef COHORT_SANITIZED

void* allocate_block(std::size_t size) { return ::operator new(size); }
void free_block(void* block, std::size_t) { ::operator delete(block); }

#else

namespace {

// Sizes are 8 modulo 16: with malloc's own 8 bytes a block then fills its chunk exactly.
constexpr std::size_t kLargest = 2056;
constexpr std::size_t kClasses = kLargest / 16 + 1;
constexpr std::size_t class_of(std::size_t size) { return size <= 8 ? 0 : (size + 7) / 16; }
constexpr std::size_t size_of(std::size_t size_class) { return 16 * size_class + 8; }

struct Magazine {
  static constexpr std::uint32_t kBlocks = 64;

  [[nodiscard]] bool empty() const { return count == 0; }
  [[nodiscard]] bool full() const { return count == kBlocks; }
  void push(void* block) { blocks[count++] = block; }
  void* pop() { return blocks[--count]; }

  Magazine() = default;
  Magazine(const Magazine&) = delete;
  Magazine& operator=(const Magazine&) = delete;
  ~Magazine() {
    while (!empty()) std::free(pop());
  }

  std::uint32_t count = 0;
  std::array<void*, kBlocks> blocks;
};

using MagazinePtr = std::unique_ptr<Magazine>;

// The magazines of one size that no thread holds.
class Depot {
 public:
  // A full one, or null.
  MagazinePtr take_full() COHORT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (full_.empty()) return nullptr;
    MagazinePtr magazine = std::move(full_.back());
    full_.pop_back();
    return magazine;
  }

  // The blocks of what finds no room go back to the system.
  void put(MagazinePtr magazine, std::size_t block_size) COHORT_EXCLUDES(mutex_) {
    if (magazine->empty()) return;
    MutexLock lock(mutex_);
    try {
      if (full_.size() * Magazine::kBlocks * block_size < kMostBytes) full_.push_back(std::move(magazine));
    } catch (const std::bad_alloc&) {
      // Then they go back too.
    }
    lock.unlock();
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  Mutex mutex_;
  std::vector<MagazinePtr> full_ COHORT_GUARDED_BY(mutex_);  // Those that a thread left behind are not quite full.
};

Depot& depot_of(std::size_t size_class) {
  static auto* depots = new std::array<Depot, kClasses>;  // Never freed: threads may outlive statics.
  return (*depots)[size_class];
}

// What one thread has at hand. `spare` is full or empty, so that freeing and allocating in turn at the border of a
// magazine does not go to the depot each time.
class ThreadCache {
 public:
  ~ThreadCache() {
    gone_ = true;
    for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
      Loaded& loaded = classes_[size_class];
      for (MagazinePtr* magazine : {&loaded.current, &loaded.spare}) {
        if (*magazine) depot_of(size_class).put(std::move(*magazine), size_of(size_class));
      }
    }
  }

  // Null on a thread that is past its end: the blocks that statics free there have no cache to go to.
  static ThreadCache* mine() {
    if (gone_) return nullptr;
    thread_local ThreadCache cache;
    return &cache;
  }

  void* allocate(std::size_t size_class) {
    Loaded& loaded = classes_[size_class];
    if (loaded.current && !loaded.current->empty()) return loaded.current->pop();
    if (loaded.spare && !loaded.spare->empty()) {
      std::swap(loaded.current, loaded.spare);
      return loaded.current->pop();
    }
    if (MagazinePtr full = depot_of(size_class).take_full()) {
      loaded.current = std::move(full);
      return loaded.current->pop();
    }
    return nullptr;
  }

  void free(std::size_t size_class, void* block) {
    Loaded& loaded = classes_[size_class];
    if (loaded.current && loaded.current->full()) {
      std::swap(loaded.current, loaded.spare);
      if (loaded.current && loaded.current->full()) {
        depot_of(size_class).put(std::move(loaded.current), size_of(size_class));
      }
    }
    if (!loaded.current) loaded.current.reset(new (std::nothrow) Magazine);
    if (!loaded.current) return std::free(block);
    loaded.current->push(block);
  }

 private:
  struct Loaded {
    MagazinePtr current;
    MagazinePtr spare;
  };
  static inline thread_local bool gone_ = false;
  std::array<Loaded, kClasses> classes_;
};

}  // namespace

void* allocate_block(std::size_t size) {
  if (size > kLargest) return ::operator new(size);
  const std::size_t size_class = class_of(size);
  ThreadCache* cache = ThreadCache::mine();
  void* block = cache != nullptr ? cache->allocate(size_class) : nullptr;
  if (block == nullptr) block = std::malloc(size_of(size_class));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void free_block(void* block, std::size_t size) {
  if (size > kLargest) {
    ::operator delete(block);
  } else if (ThreadCache* cache = ThreadCache::mine()) {
    cache->free(class_of(size), block);
  } else {
    std::free(block);
  }
}

#endif

}  // namespace cohort::internal

#include "cohort/base/internal/block_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "cohort/base/internal/pages.h"
#include "cohort/base/mutex.h"

namespace cohort::internal {

#ifdef COHORT_SANITIZED

void* allocate_block(std::size_t size) { return ::operator new(size); }
void free_block(void* block, std::size_t) { ::operator delete(block); }

#else

namespace {

constexpr std::size_t kLargest = 2048;
constexpr std::size_t kClasses = kLargest / 16;
constexpr std::size_t class_of(std::size_t size) { return size == 0 ? 0 : (size - 1) / 16; }
constexpr std::size_t size_of(std::size_t size_class) { return 16 * (size_class + 1); }

struct Magazine {
  static constexpr std::uint32_t kBlocks = 64;

  [[nodiscard]] bool empty() const { return count == 0; }
  [[nodiscard]] bool full() const { return count == kBlocks; }
  void push(void* block) { blocks[count++] = block; }
  void* pop() { return blocks[--count]; }

  std::uint32_t count = 0;
  std::array<void*, kBlocks> blocks;
};

using MagazinePtr = std::unique_ptr<Magazine>;

// A page cut into blocks of one size: this stands at its beginning.
struct Slab {
  Slab* previous = nullptr;  // Of those with a free block.
  Slab* next = nullptr;
  void* free = nullptr;     // Freed blocks, linked through their first bytes;
  std::uint32_t fresh = 0;  // those behind this one have never been used.
  std::uint32_t used = 0;
};
constexpr std::size_t kSlabHeader = 64;
static_assert(sizeof(Slab) <= kSlabHeader);

// The blocks of one size that no thread holds: whole magazines, and what is free in pages.
class Depot {
 public:
  // A full one; less full if there is no memory, or null.
  MagazinePtr take_full(std::size_t block_size) COHORT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!full_.empty()) {
      MagazinePtr magazine = std::move(full_.back());
      full_.pop_back();
      return magazine;
    }
    MagazinePtr magazine(new (std::nothrow) Magazine);
    if (!magazine) return nullptr;
    while (!magazine->full()) {
      void* const block = cut(block_size);
      if (block == nullptr) break;
      magazine->push(block);
    }
    return magazine->empty() ? nullptr : std::move(magazine);
  }

  // What finds no room goes back to its pages.
  void put(MagazinePtr magazine, std::size_t block_size) COHORT_EXCLUDES(mutex_) {
    std::array<void*, Magazine::kBlocks> empty_pages;
    std::size_t count = 0;
    MutexLock lock(mutex_);
    if (full_.size() * Magazine::kBlocks * block_size < kMostBytes && magazine->full()) {
      try {
        full_.push_back(std::move(magazine));
        return;
      } catch (const std::bad_alloc&) {
        // Then they go back too.
      }
    }
    while (!magazine->empty()) {
      void* const page = give_back(magazine->pop(), block_size);
      if (page != nullptr) empty_pages[count++] = page;
    }
    lock.unlock();
    while (count > 0) give_page(empty_pages[--count]);  // A system call each.
  }

  // For a thread without a cache.
  void* allocate_one(std::size_t block_size) COHORT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return cut(block_size);
  }
  void free_one(void* block, std::size_t block_size) COHORT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    void* const page = give_back(block, block_size);
    lock.unlock();
    if (page != nullptr) give_page(page);
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  static std::uint32_t blocks_in_slab(std::size_t block_size) {
    return static_cast<std::uint32_t>((kPageBytes - kSlabHeader) / block_size);
  }

  void* cut(std::size_t block_size) COHORT_REQUIRES(mutex_) {
    if (with_room_ == nullptr) {
      void* page = nullptr;
      try {
        page = take_page();
      } catch (const std::bad_alloc&) {
        return nullptr;
      }
      list(*::new (page) Slab);
    }
    Slab& slab = *with_room_;
    void* block = slab.free;
    if (block != nullptr) {
      slab.free = *static_cast<void**>(block);
    } else {
      block = reinterpret_cast<char*>(&slab) + kSlabHeader + slab.fresh++ * block_size;
    }
    if (++slab.used == blocks_in_slab(block_size)) unlist(slab);
    return block;
  }

  // Gives the page if nothing of it is used any more.
  [[nodiscard]] void* give_back(void* block, std::size_t block_size) COHORT_REQUIRES(mutex_) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    auto& slab = *reinterpret_cast<Slab*>(static_cast<std::byte*>(block) - address % kPageBytes);
    *static_cast<void**>(block) = slab.free;
    slab.free = block;
    if (slab.used-- == blocks_in_slab(block_size)) list(slab);
    if (slab.used != 0) return nullptr;
    unlist(slab);
    return &slab;
  }

  void list(Slab& slab) COHORT_REQUIRES(mutex_) {
    slab.previous = nullptr;
    slab.next = std::exchange(with_room_, &slab);
    if (slab.next != nullptr) slab.next->previous = &slab;
  }
  void unlist(Slab& slab) COHORT_REQUIRES(mutex_) {
    (slab.previous != nullptr ? slab.previous->next : with_room_) = slab.next;
    if (slab.next != nullptr) slab.next->previous = slab.previous;
  }

  Mutex mutex_;
  std::vector<MagazinePtr> full_ COHORT_GUARDED_BY(mutex_);
  Slab* with_room_ COHORT_GUARDED_BY(mutex_) = nullptr;
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
    if (MagazinePtr full = depot_of(size_class).take_full(size_of(size_class))) {
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
    if (!loaded.current) return depot_of(size_class).free_one(block, size_of(size_class));
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
  if (block == nullptr) block = depot_of(size_class).allocate_one(size_of(size_class));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void free_block(void* block, std::size_t size) {
  if (size > kLargest) {
    ::operator delete(block);
  } else if (ThreadCache* cache = ThreadCache::mine()) {
    cache->free(class_of(size), block);
  } else {
    depot_of(class_of(size)).free_one(block, size_of(class_of(size)));
  }
}

#endif

}  // namespace cohort::internal

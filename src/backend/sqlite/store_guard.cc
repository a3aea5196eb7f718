#include "backend/sqlite/store_guard.h"

#include <sys/stat.h>

#include "cohort/base/log.h"

namespace cohort::sqlite {

auto StoreGuard::identity_of(const std::string& path) -> std::optional<Identity> {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Identity{found.st_dev, found.st_ino};
}

void StoreGuard::watch() {
  database_ = identity_of(file_);
  log_ = identity_of(file_ + "-wal");
}

std::optional<Error> StoreGuard::check() {
  if (has_fault_.load(std::memory_order_relaxed)) return fault();
  for (const auto& [path, before] : {std::pair{file_, database_}, std::pair{file_ + "-wal", log_}}) {
    if (!before) continue;
    const std::optional<Identity> now = identity_of(path);
    if (now == before) continue;
    set_fault({ErrorCode::kUnavailable,
               "'" + path + (now ? "' was replaced" : "' was removed") +
                   " while this node used it; the node does no more work. Stop it, put the right files back (" + path +
                   " and those beside it, or a backup) and start it again"});
    break;
  }
  return fault();
}

void StoreGuard::set_fault(const Error& fault) {
  {
    MutexLock lock(mutex_);
    if (fault_) return;
    fault_ = fault;
    has_fault_ = true;
  }
  COHORT_LOG(kError, "store", fault.message);
}

void StoreGuard::note_write(const std::optional<Error>& failure) {
  const bool is_trouble = failure && failure->code == ErrorCode::kUnavailable && !has_fault_;
  if (!is_trouble && !has_trouble_.load(std::memory_order_relaxed)) return;
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    is_new = !trouble_ && is_trouble;
    trouble_ = is_trouble ? failure : std::nullopt;
    has_trouble_ = is_trouble;
  }
  if (is_new) COHORT_LOG(kError, "store", failure->message);
  if (!is_trouble) COHORT_LOG(kInfo, "store", "the store can be written again");
}

std::optional<Error> StoreGuard::trouble() const {
  if (!has_trouble_.load(std::memory_order_relaxed)) return std::nullopt;
  MutexLock lock(mutex_);
  return trouble_;
}

std::optional<Error> StoreGuard::fault() const {
  if (!has_fault_.load(std::memory_order_relaxed)) return std::nullopt;
  MutexLock lock(mutex_);
  return fault_;
}

}  // namespace cohort::sqlite

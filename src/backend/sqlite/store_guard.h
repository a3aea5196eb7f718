#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "cohort/base/error.h"
#include "cohort/base/mutex.h"

namespace cohort::sqlite {

/// Knows whether the files of a store are still the ones that were opened, and why the store is not to be used any
/// more.
///
/// A fault is final: the process must be started again.
///
/// Thread-safety: thread-safe after watch().
class StoreGuard {
 public:
  explicit StoreGuard(std::string file) : file_(std::move(file)) {}

  /// Remembers which files the database and its log are now. Call it when the log is there.
  void watch();
  /// Compares the files with the ones remembered; a difference is a fault. Gives the fault.
  std::optional<Error> check();
  /// The first fault counts, and is logged.
  void set_fault(const Error& fault);
  [[nodiscard]] std::optional<Error> fault() const;
  /// After every write: whether it failed in a way that may pass. A change is logged.
  void note_write(const std::optional<Error>& failure);
  [[nodiscard]] std::optional<Error> trouble() const;

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  [[nodiscard]] static std::optional<Identity> identity_of(const std::string& path);

  const std::string file_;
  std::optional<Identity> database_;
  std::optional<Identity> log_;
  std::atomic<bool> has_fault_{false};
  std::atomic<bool> has_trouble_{false};
  mutable Mutex mutex_;
  std::optional<Error> fault_ COHORT_GUARDED_BY(mutex_);
  std::optional<Error> trouble_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort::sqlite

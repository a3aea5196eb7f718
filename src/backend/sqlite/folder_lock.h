#pragma once

#include <filesystem>
#include <string>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"

namespace cohort::sqlite {

/// The right to a folder: one process at a time, and gone when the last process that holds it ends, however it ends.
///
/// The folder itself is locked, so the lock cannot be lost by removing a file. The file `lock` in it is locked too:
/// that is the lock of version 0.1, and it says who holds the folder.
class FolderLock {
 public:
  /// Makes the folder if need be. Waits up to `patience` while another process holds it: what a dead node has started
  /// may need a moment to end. kConflict says who has it; kInvalid: it is on a network file system.
  static Result<FolderLock> take(const std::filesystem::path& folder, const std::string& who, Duration patience);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

  /// A descriptor of the locked folder: a process that has a copy of it holds the lock as well.
  [[nodiscard]] int descriptor() const { return folder_; }

 private:
  FolderLock(int folder, int file) : folder_(folder), file_(file) {}
  int folder_;
  int file_;
};

/// The name of a file system that is shared over a network, by the type that statfs() gives; null for others. Locks and
/// shared memory, which the store depends on, cannot be relied on there.
[[nodiscard]] const char* network_file_system(long type);

}  // namespace cohort::sqlite

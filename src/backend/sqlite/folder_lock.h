#pragma once

#include <filesystem>
#include <string>

#include "cohort/base/result.h"

namespace cohort::sqlite {

/// The right to a folder: one process at a time, and gone with it however it ends.
class FolderLock {
 public:
  /// Makes the folder if need be. kConflict says who has it.
  static Result<FolderLock> take(const std::filesystem::path& folder, const std::string& who);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int file) : file_(file) {}
  int file_;
};

}  // namespace cohort::sqlite

#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "cohort/base/result.h"
#include "cohort/chain/chain_options.h"

namespace cohort {

/// A private folder for one run of a task, with the file the task names in it. Removed with the object.
///
/// Thread-safety: thread-compatible.
class LocalFile {
 public:
  LocalFile() = default;
  LocalFile(LocalFile&& other) noexcept;
  LocalFile& operator=(LocalFile&& other) noexcept;
  ~LocalFile();

  /// Fetches it, unless it is there.
  Result<void> fetch(const FileSource& source, const std::filesystem::path& work_folder, const std::string& task_id,
                     const std::string& reference, std::stop_token stop);
  /// Empty: not fetched.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

/// A folder for the runs of one engine, under a work folder that several engines may share. It is locked while the
/// engine lives, and removed with the object.
///
/// Thread-safety: thread-compatible.
class WorkFolder {
 public:
  WorkFolder() = default;
  /// Makes one, and removes those of engines that are gone. kUnavailable: the file system says no.
  static Result<WorkFolder> make(const std::filesystem::path& work_folder);
  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&& other) noexcept;
  ~WorkFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace cohort

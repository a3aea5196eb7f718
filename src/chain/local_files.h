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

  /// Removes what runs of earlier boots have left behind.
  static void remove_stale(const std::filesystem::path& work_folder);

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace cohort

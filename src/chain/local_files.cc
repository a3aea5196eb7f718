#include "chain/local_files.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include "cohort/base/log.h"

namespace cohort {

LocalFile::LocalFile(LocalFile&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), path_(std::exchange(other.path_, {})) {}

LocalFile& LocalFile::operator=(LocalFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(path_, other.path_);
  return *this;
}

LocalFile::~LocalFile() {
  if (folder_.empty()) return;
  std::error_code failed;
  std::filesystem::remove_all(folder_, failed);
  if (failed) COHORT_LOG(kWarning, "chain", "'" + folder_.string() + "' could not be removed: " + failed.message());
}

// The name of the folder is not made of anything that a submitter chooses.
Result<void> LocalFile::fetch(const FileSource& source, const std::filesystem::path& work_folder,
                              const std::string& task_id, const std::string& reference, std::stop_token stop) {
  if (!path_.empty()) return {};
  if (!source || work_folder.empty()) {
    return Error{ErrorCode::kInvalid, "task '" + task_id + "' names a file, and this node fetches none"};
  }
  if (folder_.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(work_folder, failed);
    std::string name = (work_folder / "run-XXXXXX").string();
    if (failed || ::mkdtemp(name.data()) == nullptr) {
      return Error{ErrorCode::kUnavailable,
                   "a folder for task '" + task_id + "' could not be made in '" + work_folder.string() + "'"};
    }
    folder_ = name;
  }
  Result<std::filesystem::path> fetched = source(reference, folder_, std::move(stop));
  if (!fetched) return fetched.error();
  path_ = *std::move(fetched);
  return {};
}

void LocalFile::remove_stale(const std::filesystem::path& work_folder) {
  std::error_code ignored;
  std::filesystem::directory_iterator each(work_folder, ignored);
  for (; each != std::filesystem::directory_iterator(); each.increment(ignored)) {
    if (each->path().filename().string().starts_with("run-")) std::filesystem::remove_all(each->path(), ignored);
  }
}

}  // namespace cohort

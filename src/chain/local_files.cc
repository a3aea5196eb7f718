#include "chain/local_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
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
      return Error{is_shortage(failed ? failed.value() : errno) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
                   "a folder for task '" + task_id + "' could not be made in '" + work_folder.string() + "'"};
    }
    folder_ = name;
  }
  Result<std::filesystem::path> fetched = source(reference, folder_, std::move(stop));
  if (!fetched) return fetched.error();
  path_ = *std::move(fetched);
  return {};
}

namespace {

// Removes it if no process has it locked. What 0.1 left behind are folders "run-…" without a lock.
void remove_if_stale(const std::filesystem::path& folder) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) return;
  std::error_code ignored;
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(folder, ignored);
  ::close(lock);
}

}  // namespace

// A folder is locked under a name that nobody looks for, and then gets its own: no other engine sees it unlocked.
Result<WorkFolder> WorkFolder::make(const std::filesystem::path& work_folder) {
  std::error_code failed;
  std::filesystem::create_directories(work_folder, failed);
  std::filesystem::directory_iterator each(work_folder, failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with("engine-") || name.starts_with("run-")) remove_if_stale(each->path());
  }
  WorkFolder made;
  std::string name = (work_folder / "new-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{ErrorCode::kUnavailable, "no folder can be made in the work folder '" + work_folder.string() +
                                              "': " + std::generic_category().message(errno)};
  }
  made.path_ = name;
  made.lock_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (made.lock_ < 0 || ::flock(made.lock_, LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "the folder '" + name + "' cannot be locked: " + std::generic_category().message(errno)};
  }
  const std::filesystem::path path = work_folder / ("engine-" + made.path_.filename().string().substr(4));
  std::filesystem::rename(made.path_, path, failed);
  if (failed) return Error{ErrorCode::kUnavailable, "'" + path.string() + "' cannot be made: " + failed.message()};
  made.path_ = path;
  return made;
}

WorkFolder::WorkFolder(WorkFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

WorkFolder& WorkFolder::operator=(WorkFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

WorkFolder::~WorkFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace cohort

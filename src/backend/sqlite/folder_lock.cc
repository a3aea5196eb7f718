#include "backend/sqlite/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace cohort::sqlite {

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder, const std::string& who) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return Error{ErrorCode::kUnavailable, "the folder '" + folder.string() + "' cannot be made: " + failed.message()};
  }
  const std::string path = (folder / "lock").string();
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return Error{ErrorCode::kUnavailable, "'" + path + "' cannot be opened: " + std::strerror(errno) +
                                              "; check owner and permissions of the folder"};
  }
  FolderLock lock(file);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    std::array<char, 256> text{};
    const ssize_t bytes = ::pread(file, text.data(), text.size() - 1, 0);
    const std::string holder(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return Error{ErrorCode::kConflict, "the folder '" + folder.string() + "' is in use by " +
                                           (holder.empty() ? "another process" : holder) +
                                           "; stop it, or use another folder"};
  }
  const std::string text = "process " + std::to_string(::getpid()) + (who.empty() ? "" : " (" + who + ")");
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) < 0) {
    return Error{ErrorCode::kUnavailable, "'" + path + "' cannot be written: " + std::strerror(errno)};
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace cohort::sqlite

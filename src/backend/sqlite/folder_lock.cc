#include "backend/sqlite/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

namespace cohort::sqlite {

namespace {

constexpr long kFuse = 0x65735546;

// FUSE has one type for local and for remote file systems; the mount table tells them apart.
bool is_remote_fuse(dev_t device) {
  const std::string wanted = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id;
    std::string parent;
    std::string numbers;
    words >> id >> parent >> numbers;
    const std::size_t type = line.find(" - ");
    if (numbers != wanted || type == std::string::npos) continue;
    for (const char* each : {"sshfs", "glusterfs", "s3fs", "ceph", "juicefs", "goofys", "gcsfuse", "davfs", "rclone"}) {
      if (line.find(each, type) != std::string::npos) return true;
    }
  }
  return false;
}

Result<void> refuse_network(const std::filesystem::path& folder, int descriptor) {
  struct statfs system {};
  struct stat file {};
  if (::fstatfs(descriptor, &system) != 0 || ::fstat(descriptor, &file) != 0) return {};
  const char* name = network_file_system(static_cast<long>(system.f_type));
  if (name == nullptr && static_cast<long>(system.f_type) == kFuse && is_remote_fuse(file.st_dev)) name = "FUSE";
  if (name == nullptr) return {};
  return Error{ErrorCode::kInvalid, "the folder '" + folder.string() + "' is on a network file system (" + name +
                                        "), where locks cannot be relied on; choose a folder on a local disk"};
}

std::string holder_of(int file) {
  std::array<char, 256> text{};
  const ssize_t bytes = ::pread(file, text.data(), text.size() - 1, 0);
  return bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes)) : "another process";
}

// What a dead node has started may hold the folder for a moment; a live node is not waited for.
bool is_alive(const std::string& holder) {
  int pid = 0;
  return std::sscanf(holder.c_str(), "process %d", &pid) == 1 && (::kill(pid, 0) == 0 || errno == EPERM);
}

bool lock_within(int descriptor, const std::string& holder, Time until) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || system_clock().now() >= until || is_alive(holder)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

const char* network_file_system(long type) {
  static constexpr std::array<std::pair<long, const char*>, 14> kTypes = {{{0x6969, "NFS"},
                                                                           {0x517B, "SMB"},
                                                                           {0xFE534D42, "SMB2"},
                                                                           {0xFF534D42, "CIFS"},
                                                                           {0x00C36400, "Ceph"},
                                                                           {0x01021997, "9P"},
                                                                           {0x5346414F, "AFS"},
                                                                           {0x6B414653, "kAFS"},
                                                                           {0x73757245, "Coda"},
                                                                           {0x564C, "NCP"},
                                                                           {0x7461636F, "OCFS2"},
                                                                           {0x01161970, "GFS2"},
                                                                           {0x0BD00BD0, "Lustre"},
                                                                           {0x47504653, "GPFS"}}};
  const auto* const found = std::ranges::find(kTypes, type, &std::pair<long, const char*>::first);
  return found == kTypes.end() ? nullptr : found->second;
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder, const std::string& who, Duration patience) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return Error{ErrorCode::kUnavailable, "the folder '" + folder.string() + "' cannot be made: " + failed.message()};
  }
  const auto unavailable = [](const std::string& path) {
    return Error{ErrorCode::kUnavailable, "'" + path + "' cannot be opened: " + std::strerror(errno) +
                                              "; check owner and permissions of the folder"};
  };
  const std::string path = (folder / "lock").string();
  FolderLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
  if (lock.folder_ < 0) return unavailable(folder.string());
  if (Result<void> good = refuse_network(folder, lock.folder_); !good) return good.error();
  lock.file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.file_ < 0) return unavailable(path);
  const Time until = saturating_add(system_clock().now(), patience);
  const std::string holder = holder_of(lock.file_);
  if (!lock_within(lock.folder_, holder, until) || !lock_within(lock.file_, holder, until)) {
    return Error{ErrorCode::kConflict,
                 "the folder '" + folder.string() + "' is in use by " + holder +
                     (is_alive(holder) ? "; stop it, or use another folder"
                                       : ", which is gone, but programs that it started are not; end them first")};
  }
  const std::string text = "process " + std::to_string(::getpid()) + (who.empty() ? "" : " (" + who + ")");
  if (::ftruncate(lock.file_, 0) != 0 || ::pwrite(lock.file_, text.data(), text.size(), 0) < 0) {
    return Error{ErrorCode::kUnavailable, "'" + path + "' cannot be written: " + std::strerror(errno)};
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)), file_(std::exchange(other.file_, -1)) {}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace cohort::sqlite

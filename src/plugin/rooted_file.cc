#include "plugin/rooted_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace cohort {
namespace {

ErrorCode code_of(int number) {
  if (is_shortage(number)) return ErrorCode::kRejected;
  switch (number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::kNotFound;
    case EXDEV:
    case ELOOP:
    case EACCES:
    case EPERM:
    case ENXIO:
    case EINVAL:
    case ENAMETOOLONG:
    case ENOSYS: return ErrorCode::kInvalid;
    default: return ErrorCode::kUnavailable;
  }
}

std::string text_of(int number) {
  if (number == EXDEV) return "it lies outside, or a link leads there";
  if (number == ENXIO) return "it is no regular file";
  if (number == ENOSYS) return "this system cannot keep it inside (it has no openat2), so files are not read at all";
  return std::generic_category().message(number);
}

FileDescriptor open_within(int root, const std::string& name) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  long number = -1;
  do {
    number = ::syscall(SYS_openat2, root, name.c_str(), &how, sizeof(how));
  } while (number < 0 && errno == EINTR);
  return FileDescriptor(static_cast<int>(number));
}

}  // namespace

Result<OpenFile> open_beneath(const std::filesystem::path& root, const std::string& name) {
  const auto failed = [&](ErrorCode code, const std::string& why) {
    return Error{code, "'" + name + "' in '" + root.string() + "' cannot be read: " + why};
  };
  const FileDescriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open())
    return failed(is_shortage(errno) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
                  "the folder itself: " + text_of(errno));
  OpenFile file;
  file.descriptor = open_within(folder.get(), name);
  if (!file.descriptor.is_open()) return failed(code_of(errno), text_of(errno));
  struct stat seen {};
  if (::fstat(file.descriptor.get(), &seen) != 0) return failed(code_of(errno), text_of(errno));
  if (!S_ISREG(seen.st_mode)) return failed(ErrorCode::kInvalid, "it is no regular file");
  file.bytes = static_cast<std::uint64_t>(seen.st_size);
  return file;
}

}  // namespace cohort

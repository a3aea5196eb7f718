#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cohort/base/result.h"
#include "plugin/file_descriptor.h"

namespace cohort {

/// A regular file, open for reading, and how large it was then.
struct OpenFile {
  FileDescriptor descriptor = {};
  std::uint64_t bytes = 0;
};

/// Opens `name`, relative to a folder, where the way to it never leaves the folder: not by "..", not by a link, not by
/// one that is put there meanwhile. Links within are followed unless they are absolute.
///
/// kInvalid: it would leave, may not be read, or is no regular file; or this system cannot promise it (openat2, Linux
/// 5.6). kNotFound: there is none. kUnavailable: it may work later.
[[nodiscard]] Result<OpenFile> open_beneath(const std::filesystem::path& root, const std::string& name);

}  // namespace cohort

#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/chain/chain_options.h"

namespace cohort {

struct FileSourceOptions {
  /// Folders in which `file:` may point, absolute; none: nowhere. A link out of them is not followed.
  std::vector<std::filesystem::path> roots = {};
  bool allow_http = true;                         ///< Whether `http:` and `https:` are fetched.
  bool allow_private = false;                     ///< Whether from private, loopback and link-local addresses too.
  std::size_t max_bytes = std::size_t{1} << 30U;  ///< Of one file. 1 byte to 1 TiB.
  Duration timeout = std::chrono::minutes(5);     ///< Of one download.
};

/// Where the files of tasks come from: `file:///inside/a/root/name`, `http://…`, `https://…`. The copy is named "file",
/// with the ending of the original if that is plain (letters and digits).
///
/// kInvalid: a root that is not a folder.
[[nodiscard]] Result<FileSource> make_file_source(FileSourceOptions options);

}  // namespace cohort

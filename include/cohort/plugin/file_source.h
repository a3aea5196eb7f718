#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/chain/chain_options.h"

namespace cohort {

struct FileSourceOptions {
  /// Absolute paths of the folders from which `file:` may read. Empty: `file:` is refused. A link that leads out of a
  /// root is not followed.
  std::vector<std::filesystem::path> roots = {};
  bool allow_http = true;                         ///< Allow `http:` and `https:`.
  bool allow_private = false;                     ///< Allow downloads from private, loopback and link-local addresses.
  std::size_t max_bytes = std::size_t{1} << 30U;  ///< Maximum size of one file. 1 byte to 1 TiB.
  Duration timeout = std::chrono::minutes(5);     ///< Time-out of one download.
};

/// Makes a FileSource that fetches the files of tasks from `file:///inside/a/root/name`, `http://…` and `https://…`.
/// The name of the copy is "file", with the extension of the original if it consists of letters and digits.
///
/// kInvalid: an option is out of range, or a root is not a folder.
[[nodiscard]] Result<FileSource> make_file_source(FileSourceOptions options);

/// Makes a function that checks the file of a task at submit (ChainOptions::check_file). It refuses what the FileSource
/// of the same options would never fetch: other schemes, malformed references, and paths outside every root. It does
/// not look whether the file exists, and it does not follow links.
[[nodiscard]] std::function<Result<void>(const std::string& reference)> make_file_check(FileSourceOptions options);

}  // namespace cohort

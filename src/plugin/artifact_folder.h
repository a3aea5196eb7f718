#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"

namespace cohort {

/// Moves the regular files below `folder`/`name` to `root`, where they stay until their task is removed. Links and
/// special files are left behind; a link in place of a folder of `name` is not followed. What an earlier attempt of the
/// step has put there is replaced.
///
/// Under `root` each task has a folder, named by a hash of its id; in it the file "task" holds the id, and each step
/// has a folder named by its number. kInvalid: more than `max_bytes`, or more than kMaxArtifacts files.
[[nodiscard]] Result<std::vector<Artifact>> keep_artifacts(const std::filesystem::path& folder,
                                                           const std::filesystem::path& name,
                                                           const std::filesystem::path& root,
                                                           const std::string& task_id, std::uint32_t step,
                                                           std::uint64_t max_bytes);
inline constexpr std::size_t kMaxArtifacts = 1'000;

/// A folder of artifacts and the task it belongs to.
struct ArtifactFolder {
  std::filesystem::path path = {};
  std::string task_id = {};
};
/// All of them; those whose task cannot be told have an empty id.
[[nodiscard]] std::vector<ArtifactFolder> artifact_folders(const std::filesystem::path& root);

}  // namespace cohort

#include "plugin/artifact_folder.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "cohort/store/chain_task.h"
#include "plugin/sha256.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

Error from_system(const std::string& what, const std::error_code& failed) {
  return Error{is_shortage(failed.value()) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
               what + ": " + failed.message()};
}

struct Found {
  std::string name;
  std::uint64_t bytes;
};

Result<std::vector<Found>> files_below(const fs::path& folder, std::uint64_t max_bytes) {
  std::vector<Found> found;
  std::uint64_t bytes = 0;
  std::error_code failed;
  fs::recursive_directory_iterator each(folder, failed);
  for (; !failed && each != fs::recursive_directory_iterator(); each.increment(failed)) {
    if (each->symlink_status(failed).type() != fs::file_type::regular) continue;
    const std::uint64_t size = each->file_size(failed);
    bytes += size;
    found.push_back({fs::relative(each->path(), folder, failed).string(), size});
    if (found.size() > kMaxArtifacts) {
      return Error{ErrorCode::kInvalid, "it left more than " + std::to_string(kMaxArtifacts) + " artifacts"};
    }
  }
  if (failed) return from_system("its artifacts could not be read", failed);
  if (bytes > max_bytes) {
    return Error{ErrorCode::kInvalid, "its artifacts have " + std::to_string(bytes) + " bytes; its max_artifacts is " +
                                          std::to_string(max_bytes)};
  }
  std::ranges::sort(found, {}, &Found::name);
  return found;
}

// Within a file system by its name; else by a copy.
std::error_code move_file(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::create_directories(to.parent_path(), failed);
  if (failed) return failed;
  fs::rename(from, to, failed);
  if (failed == std::errc::cross_device_link) {
    failed.clear();
    fs::copy_file(from, to, failed);
  }
  return failed;
}

std::string folder_name(const std::string& task_id) {
  Sha256 hash;
  hash.update(task_id);
  return hash.finish().substr(0, 40);
}

}  // namespace

Result<std::vector<Artifact>> keep_artifacts(const fs::path& folder, const fs::path& name, const fs::path& root,
                                             const std::string& task_id, std::uint32_t step, std::uint64_t max_bytes) {
  std::error_code failed;
  fs::path from = folder;
  for (const fs::path& part : name) {
    from /= part;
    if (!fs::is_directory(fs::symlink_status(from, failed))) return std::vector<Artifact>();
  }
  Result<std::vector<Found>> found = files_below(from, max_bytes);
  if (!found) return found.error();
  const fs::path absolute = fs::absolute(root, failed);
  const fs::path of_task = absolute / folder_name(task_id);
  const fs::path of_step = of_task / std::to_string(step);
  fs::remove_all(of_step, failed);
  if (found->empty()) return std::vector<Artifact>();
  fs::create_directories(of_step, failed);
  if (failed) return from_system("no folder for its artifacts could be made in '" + root.string() + "'", failed);
  std::ofstream name_file(of_task / "task", std::ios::binary | std::ios::trunc);
  if (!(name_file << task_id).flush()) {  // Without it nobody would know when the folder may go.
    const std::error_code why(errno, std::generic_category());
    fs::remove_all(of_step, failed);
    return from_system("the folder of its artifacts could not be written", why);
  }
  std::vector<Artifact> kept;
  for (Found& each : *found) {
    const fs::path to = of_step / each.name;
    if (const std::error_code error = move_file(from / each.name, to)) {
      return from_system("its artifact '" + each.name + "' could not be kept", error);
    }
    kept.push_back({std::move(each.name), to, each.bytes});
  }
  return kept;
}

std::vector<ArtifactFolder> artifact_folders(const fs::path& root) {
  std::vector<ArtifactFolder> found;
  std::error_code failed;
  fs::directory_iterator each(root, failed);
  for (; !failed && each != fs::directory_iterator(); each.increment(failed)) {
    std::ifstream file(each->path() / "task", std::ios::binary);
    std::string id(4 * NewTask::kMaxIdLength, '\0');
    file.read(id.data(), static_cast<std::streamsize>(id.size()));
    id.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    found.push_back({each->path(), std::move(id)});
  }
  return found;
}

}  // namespace cohort

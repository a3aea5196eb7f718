#pragma once

// Steps for tests of plugins, and folders for their files.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "cohort/chain/plugin.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// A task "t1" of the group "acme" at its first step.
inline ChainTask task_with(const nlohmann::json& parameters, const nlohmann::json& payload = nlohmann::json::object(),
                           const nlohmann::json& context = nlohmann::json::object()) {
  ChainTask task{};
  task.request.id = "t1";
  task.request.group = "acme";
  task.request.payload = payload.dump();
  task.request.steps = {{.plugin = "tested", .parameters = parameters.dump()}};
  task.context = context.dump();
  task.attempt = 1;
  return task;
}

/// A folder of its own under the system's place for temporary files, removed with the object.
class StepFolder {
 public:
  StepFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-step-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  StepFolder(const StepFolder&) = delete;
  StepFolder& operator=(const StepFolder&) = delete;
  ~StepFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cohort

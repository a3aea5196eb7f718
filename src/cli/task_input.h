#pragma once

#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/result.h"

namespace cohort {

/// A task as the options of `cohort submit` say it. An empty text: not said.
struct TaskInput {
  std::string group{};
  std::string file{};
  std::string payload{};                  ///< JSON, or "@" and the path of a file with it.
  std::vector<std::string> steps{};       ///< "plugin" or "plugin:{…}".
  std::string chain{};                    ///< A chain that the node's configuration names.
  std::vector<std::string> parameters{};  ///< "NAME=VALUE", for the parameters of that chain.
  std::vector<std::string> tags{};
  std::string priority{};
  std::string deadline{};
  std::string start_at{};
  std::string id{};
  std::string key{};
  std::string session{};

  [[nodiscard]] bool empty() const;
};

/// The task for the API. A relative path in `file` that exists becomes file:///absolute. kInvalid: a text that should
/// be JSON is none, or a file cannot be read.
[[nodiscard]] Result<nlohmann::json> task_from_input(const TaskInput& input);

/// The tasks of a file, or of `in` where `path` is "-".
struct TaskFile {
  std::vector<nlohmann::json> tasks{};
  bool is_single = false;  ///< One object, and not a list.
};
/// One task, a list of tasks, or {"tasks": [...]}. kInvalid with what is wrong.
[[nodiscard]] Result<TaskFile> read_task_file(const std::string& path, std::istream* in);

/// Cuts tasks into bodies of a request: at most 500 tasks, and about 4 MiB, in each.
[[nodiscard]] std::vector<nlohmann::json> batches_of(const std::vector<nlohmann::json>& tasks);

}  // namespace cohort

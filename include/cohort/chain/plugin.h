#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "cohort/store/chain_task.h"
#include "cohort/task/task.h"

namespace cohort {

/// A file that a step has made and that outlives it.
struct Artifact {
  std::string name = {};  ///< Relative to the folder of the step's artifacts.
  std::filesystem::path path = {};
  std::uint64_t bytes = 0;
};

/// The outcome of one attempt of a step, as its plugin reports it.
class PluginResult {
 public:
  enum class Kind : std::uint8_t { kSuccess, kFailure, kSkip, kRetry, kInterrupted };

  /// The step is done. Its outputs are merged into the task's context; an output replaces an older one of its name.
  static PluginResult success(nlohmann::json outputs = nlohmann::json::object()) {
    return {Kind::kSuccess, {}, std::move(outputs), {}};
  }
  /// The step cannot be done. The task fails, and no further step runs.
  static PluginResult failure(std::string reason) { return {Kind::kFailure, std::move(reason), {}, {}}; }
  /// The step has nothing to do. The task goes on with the next step.
  static PluginResult skip(std::string reason) { return {Kind::kSkip, std::move(reason), {}, {}}; }
  /// The step may succeed later. It is tried again after the given time, or after the back-off of the retry policy.
  static PluginResult retry(std::string reason, std::optional<Duration> after = {}) {
    return {Kind::kRetry, std::move(reason), {}, after};
  }

  /// The node could not run the step: it ran out of descriptors or memory, or lost a helper process. The step is tried
  /// again after the given time (one second if not given) and uses up no retry.
  static PluginResult interrupted(std::string reason, std::optional<Duration> after = {}) {
    return {Kind::kInterrupted, std::move(reason), {}, after};
  }

  /// Adds files that outlive the step. The task lists them, and its context has them under "artifacts" with their step.
  [[nodiscard]] PluginResult with_artifacts(std::vector<Artifact> artifacts) && {
    artifacts_ = std::move(artifacts);
    return std::move(*this);
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const nlohmann::json& outputs() const { return outputs_; }
  [[nodiscard]] std::optional<Duration> after() const { return after_; }
  [[nodiscard]] const std::vector<Artifact>& artifacts() const { return artifacts_; }

 private:
  PluginResult(Kind kind, std::string reason, nlohmann::json outputs, std::optional<Duration> after)
      : kind_(kind), reason_(std::move(reason)), outputs_(std::move(outputs)), after_(after) {}

  Kind kind_;
  std::string reason_;
  nlohmann::json outputs_;
  std::optional<Duration> after_;
  std::vector<Artifact> artifacts_;
};

/// Classifies an exception that a plugin threw. A std::system_error of the network or of files is a retry. A shortage
/// of memory or descriptors is an interruption. Every other exception is a failure.
[[nodiscard]] PluginResult result_of_exception(std::exception_ptr exception);

/// The step that a plugin is to run: its inputs, its stop token, and functions to report progress.
///
/// Thread-safety: thread-compatible, except stop_token(), report_progress() and log(), which are thread-safe.
class StepContext {
 public:
  StepContext(const ChainTask& task, std::filesystem::path local_file, std::stop_token stop,
              std::filesystem::path work_folder = {});

  [[nodiscard]] const std::string& task_id() const { return task_id_; }
  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] const std::string& session() const { return session_; }
  [[nodiscard]] const std::vector<std::string>& tags() const { return tags_; }
  /// The index of the step in the chain, counted from 0. (Messages, the API and events count steps from 1.)
  [[nodiscard]] std::uint32_t step() const { return step_; }
  /// The number of this attempt of the step, counted from 1.
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }
  /// Grows with every claim of the task. A plugin may pass it as a fencing token to systems that it writes to.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// True if an earlier attempt of this step was running when its node died. Its work may be half done.
  [[nodiscard]] bool resumed_after_crash() const { return resumed_after_crash_; }
  /// The parameters of this step, as submitted.
  [[nodiscard]] const nlohmann::json& parameters() const { return parameters_; }
  /// The payload of the task, as submitted.
  [[nodiscard]] const nlohmann::json& payload() const { return payload_; }
  /// The merged outputs of the steps before this one.
  [[nodiscard]] const nlohmann::json& context() const { return context_; }
  /// The local copy of the task's file, fetched once for all steps of a run. Empty: the task has no file.
  [[nodiscard]] const std::filesystem::path& local_file() const { return local_file_; }
  /// A folder in which the step may make folders of its own. Empty: use the system's folder for temporary files.
  [[nodiscard]] const std::filesystem::path& work_folder() const { return work_folder_; }
  /// A token that is equal for all attempts of this step, on any node and after a replay, and that no other step has.
  /// Pass it to a system that must not do the same work twice.
  [[nodiscard]] const std::string& idempotency_token() const { return idempotency_token_; }
  /// A stop is requested when the step times out, its task is cancelled or its node stops. The plugin should end soon
  /// then.
  [[nodiscard]] const std::stop_token& stop_token() const { return stop_; }

  /// Reports progress from 0 to 1. The task shows it, updated about once a second.
  void report_progress(double fraction, std::string_view note = {});
  /// Adds a line to the log of the task. The task and its dead letter keep the last 100 lines.
  void log(std::string_view line);

  /// What the plugin has reported since the last call. For the runner only.
  struct Report {
    double progress = 0;
    std::string note;
    std::vector<std::string> lines;
  };
  [[nodiscard]] std::optional<Report> take_report();

 private:
  std::string task_id_;
  std::string group_;
  std::string session_;
  std::vector<std::string> tags_;
  std::uint32_t step_;
  std::uint32_t attempt_;
  std::uint64_t epoch_;
  bool resumed_after_crash_;
  nlohmann::json parameters_;
  nlohmann::json payload_;
  nlohmann::json context_;
  std::filesystem::path local_file_;
  std::filesystem::path work_folder_;
  std::string idempotency_token_;
  std::stop_token stop_;
  Mutex mutex_;
  Report report_ COHORT_GUARDED_BY(mutex_);
  bool has_report_ COHORT_GUARDED_BY(mutex_) = false;
};

/// The code that runs a step. Override run(), which may block, or run_async(), which must not block.
///
/// A step may run more than once: its node may die after the work and before the checkpoint. Use idempotency_token() to
/// make effects safe that must not happen twice.
///
/// Thread-safety: an implementation must be thread-safe. It is called for many tasks at the same time.
class Plugin {
 public:
  virtual ~Plugin() = default;
  /// Checks the parameters of a step when a task is submitted. kInvalid: the plugin cannot work with them.
  [[nodiscard]] virtual Result<void> check(const nlohmann::json& parameters) const;
  virtual PluginResult run(StepContext& context);
  virtual Task<PluginResult> run_async(StepContext& context);
  /// How long run() may take to end after a stop was requested. A run() that takes longer counts as a crash of its
  /// node.
  [[nodiscard]] virtual Duration time_to_stop() const { return std::chrono::seconds(1); }
  /// True if its steps run in processes of their own, so that they cannot kill the node. These steps never have to run
  /// alone. They are poison only after ChainOptions::poison_after deaths of their node.
  [[nodiscard]] virtual bool runs_in_own_process() const { return false; }
};

/// Plugins by name. Add all plugins before the engine starts; do not change the registry afterwards.
///
/// Thread-safety: thread-compatible.
class PluginRegistry {
 public:
  /// kExists: the registry has a plugin of that name.
  Result<void> add(std::string name, std::shared_ptr<Plugin> plugin);
  /// Adds a function as a plugin.
  Result<void> add(std::string name, std::function<PluginResult(StepContext&)> run);
  /// Null: there is no plugin of that name.
  [[nodiscard]] Plugin* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, std::shared_ptr<Plugin>, std::less<>> plugins_;
};

}  // namespace cohort

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

/// How a step ended, as its plugin says.
class PluginResult {
 public:
  enum class Kind : std::uint8_t { kSuccess, kFailure, kSkip, kRetry, kInterrupted };

  /// It is done; the outputs are merged into the task's context, the last wins.
  static PluginResult success(nlohmann::json outputs = nlohmann::json::object()) {
    return {Kind::kSuccess, {}, std::move(outputs), {}};
  }
  /// It cannot be done: the task fails, no further step runs.
  static PluginResult failure(std::string reason) { return {Kind::kFailure, std::move(reason), {}, {}}; }
  /// There is nothing to do; the next step is.
  static PluginResult skip(std::string reason) { return {Kind::kSkip, std::move(reason), {}, {}}; }
  /// It may pass later: after the given time, or what the retry policy says.
  static PluginResult retry(std::string reason, std::optional<Duration> after = {}) {
    return {Kind::kRetry, std::move(reason), {}, after};
  }

  /// The step is not to blame: the node ran out of something, or lost what it runs steps with. It is tried again after
  /// the given time (a second if not given), and that uses up no retry.
  static PluginResult interrupted(std::string reason, std::optional<Duration> after = {}) {
    return {Kind::kInterrupted, std::move(reason), {}, after};
  }

  /// The same result with files that outlive the step. They are listed under "artifacts" in the task's context, each
  /// with its step, and with the task itself.
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

/// What an exception thrown by a plugin means: errors of the network and of files (std::system_error) may pass, a
/// shortage (is_shortage) is an interruption, other exceptions are failures.
[[nodiscard]] PluginResult result_of_exception(std::exception_ptr exception);

/// All that a plugin may know of the step it runs, and its way to say how far it is.
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
  [[nodiscard]] std::uint32_t step() const { return step_; }
  /// From 1.
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }
  /// Rises with every claim of the task: a fencing token for what this step writes elsewhere.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// An earlier attempt of this step was under way when its node died: what it did may be half done.
  [[nodiscard]] bool resumed_after_crash() const { return resumed_after_crash_; }
  /// Of this step, as submitted.
  [[nodiscard]] const nlohmann::json& parameters() const { return parameters_; }
  /// Of the task, as submitted.
  [[nodiscard]] const nlohmann::json& payload() const { return payload_; }
  /// What the steps before have put out.
  [[nodiscard]] const nlohmann::json& context() const { return context_; }
  /// The task's file, fetched once for all steps of a run; empty when it has none.
  [[nodiscard]] const std::filesystem::path& local_file() const { return local_file_; }
  /// Where a step may make folders for files of its own; empty: the system's place for temporary files.
  [[nodiscard]] const std::filesystem::path& work_folder() const { return work_folder_; }
  /// The same for every attempt of this step, on any node, and after a replay; no other step has it. Give it to whoever
  /// must not do the same thing twice.
  [[nodiscard]] const std::string& idempotency_token() const { return idempotency_token_; }
  /// Asked when the step's time is over, its task is cancelled or its node stops: then it should end soon.
  [[nodiscard]] const std::stop_token& stop_token() const { return stop_; }

  /// From 0 to 1. Shown with the task, about once a second.
  void report_progress(double fraction, std::string_view note = {});
  /// A line that is kept with the task (the last hundred) and shown in its dead letter.
  void log(std::string_view line);

  /// For the runner: what has been reported since it asked last.
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

/// A kind of step. Override run(), which may block, or run_async(), which must not.
///
/// A step may run more than once: its node may die after it did its work and before that was recorded. What must not
/// happen twice is made safe with idempotency_token().
///
/// Thread-safety: an implementation is called for many tasks at once.
class Plugin {
 public:
  virtual ~Plugin() = default;
  /// Whether it can work with these parameters; asked when a task is submitted.
  [[nodiscard]] virtual Result<void> check(const nlohmann::json& parameters) const;
  virtual PluginResult run(StepContext& context);
  virtual Task<PluginResult> run_async(StepContext& context);
  /// How long it may take to end once it is asked to stop. One that takes longer is counted as if it had taken its node
  /// down.
  [[nodiscard]] virtual Duration time_to_stop() const { return std::chrono::seconds(1); }
  /// True: its steps run in processes of their own, so they cannot take the node down. Such a step is never made to run
  /// alone; it is poison only after ChainOptions::poison_after deaths of its node.
  [[nodiscard]] virtual bool runs_in_own_process() const { return false; }
};

/// The plugins by their names. Filled before chains run, not changed after.
///
/// Thread-safety: thread-compatible.
class PluginRegistry {
 public:
  /// kExists: there is one of that name.
  Result<void> add(std::string name, std::shared_ptr<Plugin> plugin);
  /// A function as a plugin.
  Result<void> add(std::string name, std::function<PluginResult(StepContext&)> run);
  /// Null: there is none.
  [[nodiscard]] Plugin* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, std::shared_ptr<Plugin>, std::less<>> plugins_;
};

}  // namespace cohort

#include "cohort/plugin/exec_plugin.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "cohort/base/log.h"
#include "plugin/artifact_folder.h"
#include "plugin/child_output.h"
#include "plugin/child_process.h"
#include "plugin/child_watch.h"
#include "plugin/exec_arguments.h"
#include "plugin/exec_helper.h"
#include "plugin/step_parameters.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxOutput = 64U << 20U;
constexpr int kTemporaryFailure = 75;  // EX_TEMPFAIL of sysexits.h.

Error invalid(std::string message) { return Error{ErrorCode::kInvalid, std::move(message)}; }

PluginResult result_of(const Error& error) {
  if (error.code == ErrorCode::kRejected) return PluginResult::interrupted(error.message);
  return error.retryable() ? PluginResult::retry(error.message) : PluginResult::failure(error.message);
}

// --- What the operator has configured.

Result<void> check_path(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (!path.is_absolute()) return invalid("its path '" + text + "' is not absolute");
  if (text.find('\0') != std::string::npos) return invalid("its path has a NUL byte");
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) return invalid("there is no file '" + text + "'");
  if (!std::filesystem::is_regular_file(status)) return invalid("'" + text + "' is not a regular file");
  if (::access(path.c_str(), X_OK) != 0) return invalid("'" + text + "' may not be executed; see chmod");
  return {};
}

Result<void> check_environment(const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find('=') != std::string::npos || (name + value).find('\0') != std::string::npos) {
      return invalid("'" + name + "' cannot be in an environment: a name is not empty and has no '=', none has a NUL");
    }
    if (name.starts_with("COHORT_")) return invalid("'" + name + "' is for what the step has; choose another name");
  }
  return {};
}

Result<void> check_program(const ExecProgram& program) {
  if (Result<void> good = check_path(program.path); !good) return good;
  if (Result<void> good = check_environment(program.environment); !good) return good;
  if (program.max_output < 1 || program.max_output > kMaxOutput) {
    return invalid("its max_output must be from 1 byte to 64 MiB");
  }
  if (program.kill_after <= Duration::zero()) return invalid("its kill_after must be more than 0");
  if (program.cpu_time < Duration::zero()) return invalid("its cpu_time must not be less than 0");
  const std::filesystem::path artifacts = program.artifacts;
  const bool leaves = artifacts.is_absolute() || std::ranges::count(artifacts, "..") != 0;
  if (leaves) return invalid("its artifacts '" + program.artifacts + "' must be a folder below the one it begins in");
  return {};
}

// --- What a program is given.

/// An empty folder that is removed with the object.
class StepFolder {
 public:
  static Result<StepFolder> make(const std::filesystem::path& local_file, const std::filesystem::path& otherwise) {
    std::error_code failed;
    std::filesystem::path parent = local_file.empty() ? otherwise : local_file.parent_path();
    if (parent.empty()) parent = std::filesystem::temp_directory_path(failed);
    if (!failed) std::filesystem::create_directories(parent, failed);
    if (!failed) parent = std::filesystem::absolute(parent, failed);
    std::string name = (parent / "run-exec-XXXXXX").string();
    if (!failed && ::mkdtemp(name.data()) != nullptr) return StepFolder(name);
    if (!failed) failed = std::error_code(errno, std::generic_category());
    return Error{is_shortage(failed.value()) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
                 "a folder for the program could not be made in '" + parent.string() + "': " + failed.message()};
  }
  StepFolder(StepFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  StepFolder& operator=(StepFolder&&) = delete;
  ~StepFolder() {
    if (path_.empty() || ::rmdir(path_.c_str()) == 0) return;  // An empty one needs no descriptor to be removed.
    std::error_code failed;
    std::filesystem::remove_all(path_, failed);
    if (failed) COHORT_LOG(kWarning, "plugin", "'" + path_.string() + "' could not be removed: " + failed.message());
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit StepFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

json describe(const StepContext& context, const std::filesystem::path& file) {
  return {{"task_id", context.task_id()},
          {"group", context.group()},
          {"step", context.step() + 1},
          {"attempt", context.attempt()},
          {"token", context.idempotency_token()},
          {"parameters", context.parameters()},
          {"payload", context.payload()},
          {"context", context.context()},
          {"file", file.empty() ? json(nullptr) : json(file.string())}};
}

Result<std::vector<std::string>> environment_of(const ExecProgram& program, const StepContext& context,
                                                const std::filesystem::path& file) {
  std::map<std::string, std::string> all = program.environment;
  all.try_emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  all.try_emplace("HOME", "/nonexistent");
  all.try_emplace("LANG", "C.UTF-8");
  all["COHORT_TASK_ID"] = context.task_id();
  all["COHORT_GROUP"] = context.group();
  all["COHORT_TOKEN"] = context.idempotency_token();
  all["COHORT_ATTEMPT"] = std::to_string(context.attempt());
  if (!file.empty()) all["COHORT_FILE"] = file.string();
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) {
    if (value.find('\0') != std::string::npos) return invalid("the value of " + name + " has a NUL byte");
    lines.emplace_back(name).append("=").append(value);
  }
  return lines;
}

std::uint64_t whole_seconds(Duration time) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
}

// --- What became of it.

PluginResult not_started(const std::string& name, const std::filesystem::path& path, int error) {
  const std::string reason =
      name + " could not be run as '" + path.string() + "': " + std::generic_category().message(error);
  if (is_shortage(error)) return PluginResult::interrupted(reason);
  return error == EIO || error == ETXTBSY ? PluginResult::retry(reason) : PluginResult::failure(reason);
}

Result<json> outputs_as_offered(const ExecProgram& program, const std::string& text) {
  switch (program.output) {
    case ExecProgram::Output::kText: return json{{"output", readable_text(text)}};
    case ExecProgram::Output::kIgnore: return json(json::object());
    case ExecProgram::Output::kJson: break;
  }
  return outputs_of(text);
}

PluginResult exited(const std::string& name, const ExecProgram& program, const ChildEnd& end,
                    const std::vector<std::string>& lines) {
  if (end.status.code == 0) {
    Result<json> outputs = outputs_as_offered(program, end.output);
    if (outputs) return PluginResult::success(*std::move(outputs));
    return PluginResult::failure(name + ": " + outputs.error().message);
  }
  const std::string reason =
      name + " exited with " + std::to_string(end.status.code) + (lines.empty() ? std::string() : ": " + lines.back());
  return end.status.code == kTemporaryFailure ? PluginResult::retry(reason) : PluginResult::failure(reason);
}

PluginResult result_of(const std::string& name, const ExecProgram& program, const ChildEnd& end,
                       const std::vector<std::string>& lines) {
  if (end.status.how == ChildStatus::How::kNotStarted) return not_started(name, program.path, end.status.code);
  if (end.was_stopped) return PluginResult::retry("stopped " + name + " before it had ended");
  if (end.wrote_too_much) {
    return PluginResult::failure(name + " put out more than " + std::to_string(program.max_output) +
                                 " bytes and was killed; raise its max_output or let it write to a file");
  }
  if (end.status.how == ChildStatus::How::kExited) return exited(name, program, end, lines);
  return PluginResult::retry(name + " was ended by signal " + std::to_string(end.status.code) + " (" +
                             ::strsignal(end.status.code) + ")" +
                             (lines.empty() ? std::string() : ": " + lines.back()));
}

// --- What a task gives.

struct ExecStep {
  std::string program = {};
};

Result<void> read_program(const json& value, ExecStep& step) {
  if (!value.is_string()) return invalid("it is the name of a program");
  step.program = value.get<std::string>();
  return {};
}

// Further parameters are the program's own.
constexpr StepParameters<ExecStep, 1> kParameters = {
    {{{"program", "text", "", "The program of the configuration (`plugins.exec.programs`) that runs. Required."},
      read_program}}};

// --- The plugin.

class ExecPlugin final : public Plugin {
 public:
  static Result<std::shared_ptr<Plugin>> make(ExecOptions options) {
    auto plugin = std::make_shared<ExecPlugin>();
    plugin->artifacts_ = std::move(options.artifacts);
    for (auto& [name, program] : options.programs) {
      const std::string place = program.place.empty() ? "" : program.place + ": ";
      const std::string what = place + "the program '" + name + "' cannot be offered: ";
      if (name.empty()) return invalid(what + "it needs a name");
      if (const Result<void> good = check_program(program); !good) return invalid(what + good.error().message);
      Result<ExecArguments> arguments = ExecArguments::parse(program.arguments);
      if (!arguments) return invalid(what + arguments.error().message);
      if (!program.artifacts.empty() && plugin->artifacts_.empty()) {
        return invalid(what + "it has artifacts, and there is no folder to keep them in");
      }
      plugin->programs_.emplace(name, Offered{std::move(program), *std::move(arguments)});
    }
    Result<std::unique_ptr<ExecHelper>> helper = ExecHelper::start(options.helper, options.use_cgroups);
    if (!helper) return helper.error();
    plugin->helper_ = *std::move(helper);
    return std::shared_ptr<Plugin>(std::move(plugin));
  }

  [[nodiscard]] Result<void> check(const json& parameters) const override {
    const Result<const Offered*> program = find(parameters);
    if (!program) return program.error();
    return (*program)->arguments.check_parameters(parameters);
  }

  // Until the last signal, and a moment for its effect.
  [[nodiscard]] Duration time_to_stop() const override {
    Duration longest{0};
    for (const auto& [name, offered] : programs_) longest = std::max(longest, offered.program.kill_after);
    return longest + std::chrono::seconds(1);
  }

  [[nodiscard]] bool runs_in_own_process() const override { return true; }
  [[nodiscard]] ExecHelper& helper() const { return *helper_; }

  PluginResult run(StepContext& context) override {
    const Result<const Offered*> found = find(context.parameters());
    if (!found) return result_of(found.error());
    const std::string name = "program '" + context.parameters()["program"].get<std::string>() + "'";
    if (context.stop_token().stop_requested()) return PluginResult::retry("stopped before " + name + " had begun");
    std::filesystem::path file = context.local_file();
    std::error_code failed;
    if (!file.empty()) file = std::filesystem::absolute(file, failed);
    if (failed) return PluginResult::retry("where the task's file is could not be found out: " + failed.message());
    Result<StepFolder> folder = StepFolder::make(file, context.work_folder());
    if (!folder) return result_of(folder.error());
    const pid_t helper = helper_->pid();
    const Result<ChildEnd> end = run_in(folder->path(), **found, context, file);
    if (!end) return result_of(Error{end.error().code, name + ": " + end.error().message});
    if (end->status.how == ChildStatus::How::kLost) {
      // The helper's death is nobody's fault. A step's own process is killed by somebody, most likely by the program.
      if (!helper_->is_alive(helper))
        return PluginResult::interrupted("the exec helper died, and " + name + " with it");
      return PluginResult::retry("the process that watched " + name + " was killed, and the program with it");
    }
    const std::vector<std::string> lines = readable_lines(end->errors, end->errors_are_cut);
    for (const std::string& line : lines) context.log(line);
    PluginResult result = result_of(name, (*found)->program, *end, lines);
    if (result.kind() != PluginResult::Kind::kSuccess || (*found)->program.artifacts.empty()) return result;
    Result<std::vector<Artifact>> kept =
        keep_artifacts(folder->path(), (*found)->program.artifacts, artifacts_, context.task_id(), context.step() + 1,
                       (*found)->program.max_artifacts);
    if (!kept) return result_of(Error{kept.error().code, name + ": " + kept.error().message});
    return std::move(result).with_artifacts(*std::move(kept));
  }

 private:
  struct Offered {
    ExecProgram program;
    ExecArguments arguments;
  };

  Result<const Offered*> find(const json& parameters) const {
    const auto given = parameters.is_object() ? parameters.find("program") : parameters.end();
    if (given == parameters.end()) return invalid(R"("exec" needs the name of a program: {"program": "NAME"})");
    const Result<ExecStep> step = read_parameters(kParameters, json{{"program", *given}});
    if (!step) return step.error();
    const auto found = programs_.find(step->program);
    if (found != programs_.end()) return &found->second;
    std::string known;
    std::vector<std::string_view> names;
    for (const auto& [each, offered] : programs_) {
      known += (known.empty() ? "" : ", ") + each;
      names.push_back(each);
    }
    const std::string nearest = internal::nearest_word(step->program, names);
    return invalid("parameters.program: there is no program '" + step->program.substr(0, 100) + "'" +
                   (nearest.empty() ? "" : "; did you mean '" + nearest + "'?") +
                   "; the configuration allows: " + (known.empty() ? "none" : known));
  }

  Result<ChildEnd> run_in(const std::filesystem::path& folder, const Offered& offered, const StepContext& context,
                          const std::filesystem::path& file) {
    json step = describe(context, file);
    ChildRequest request{.path = offered.program.path, .folder = folder};
    request.input = step.dump(-1, ' ', false, json::error_handler_t::replace);
    step["folder"] = folder.string();
    Result<std::vector<std::string>> arguments = offered.arguments.expand(step);
    if (!arguments) return arguments.error();
    Result<std::vector<std::string>> environment = environment_of(offered.program, context, file);
    if (!environment) return environment.error();
    request.arguments = *std::move(arguments);
    request.environment = *std::move(environment);
    request.max_memory = offered.program.max_memory;
    request.max_processes = offered.program.max_processes;
    request.cpu_seconds = whole_seconds(offered.program.cpu_time);
    if (!offered.program.artifacts.empty()) {
      std::error_code failed;
      std::filesystem::create_directories(folder / offered.program.artifacts, failed);
    }
    Result<ChildProcess> child = ChildProcess::start(request, *helper_);
    if (!child) return child.error();
    const WatchOptions options{.max_output = offered.program.max_output, .kill_after = offered.program.kill_after};
    return watch(*std::move(child), options, context.stop_token());
  }

  std::filesystem::path artifacts_;
  std::map<std::string, Offered, std::less<>> programs_;
  std::unique_ptr<ExecHelper> helper_;
};

}  // namespace

Result<void> hold_until_programs_end(Plugin& exec, int descriptor) {
  auto* const plugin = dynamic_cast<ExecPlugin*>(&exec);
  if (plugin == nullptr) return Error{ErrorCode::kInvalid, "this plugin runs no programs"};
  return plugin->helper().hold(descriptor);
}

int exec_helper_pid(const Plugin& exec) {
  const auto* const plugin = dynamic_cast<const ExecPlugin*>(&exec);
  return plugin == nullptr ? -1 : plugin->helper().pid();
}

std::vector<ParameterInfo> exec_parameters() { return infos_of(kParameters); }

Result<std::shared_ptr<Plugin>> make_exec_plugin(ExecOptions options) { return ExecPlugin::make(std::move(options)); }

}  // namespace cohort

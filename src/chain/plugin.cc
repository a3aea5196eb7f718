#include "cohort/chain/plugin.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <system_error>
#include <utility>

#include "chain/json_depth.h"
#include "cohort/base/assert.h"

namespace cohort {

namespace {

// A row that was written by somebody else may hold anything; a step that cannot use it will say so.
nlohmann::json parsed(const std::string& text) {
  if (is_too_much_json(text)) return nlohmann::json::object();
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  return value.is_discarded() ? nlohmann::json::object() : value;
}

class FunctionPlugin final : public Plugin {
 public:
  explicit FunctionPlugin(std::function<PluginResult(StepContext&)> run) : run_(std::move(run)) {}
  PluginResult run(StepContext& context) override { return run_(context); }

 private:
  std::function<PluginResult(StepContext&)> run_;
};

bool may_pass(const std::error_code& code) {
  static constexpr std::errc kWillNot[] = {std::errc::invalid_argument,        std::errc::permission_denied,
                                           std::errc::operation_not_permitted, std::errc::function_not_supported,
                                           std::errc::filename_too_long,       std::errc::not_a_directory,
                                           std::errc::is_a_directory};
  return std::ranges::none_of(kWillNot, [&](std::errc each) { return code == each; });
}

}  // namespace

PluginResult result_of_exception(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const std::system_error& error) {
    if (error.code().category() == std::generic_category() || error.code().category() == std::system_category()) {
      if (is_shortage(error.code().value())) return PluginResult::interrupted(error.what());
    }
    return may_pass(error.code()) ? PluginResult::retry(error.what()) : PluginResult::failure(error.what());
  } catch (const std::bad_alloc& error) {
    return PluginResult::interrupted(error.what());
  } catch (const std::exception& error) {
    return PluginResult::failure(error.what());
  } catch (...) {
    return PluginResult::failure("the plugin threw something that is not a std::exception");
  }
}

StepContext::StepContext(const ChainTask& task, std::filesystem::path local_file, std::stop_token stop,
                         std::filesystem::path work_folder)
    : task_id_(task.id()),
      group_(task.request.group),
      session_(task.request.session),
      tags_(task.request.tags),
      step_(task.step),
      attempt_(task.attempt),
      epoch_(task.epoch),
      resumed_after_crash_(!task.crashes.empty()),
      parameters_(parsed(task.current_step()->parameters)),
      payload_(parsed(task.request.payload)),
      context_(parsed(task.context)),
      local_file_(std::move(local_file)),
      work_folder_(std::move(work_folder)),
      idempotency_token_(task.id() + "/" + std::to_string(task.step)),
      stop_(std::move(stop)) {}

void StepContext::report_progress(double fraction, std::string_view note) {
  MutexLock lock(mutex_);
  report_.progress = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0;
  report_.note = note.substr(0, kMaxLogLineBytes);
  has_report_ = true;
}

void StepContext::log(std::string_view line) {
  MutexLock lock(mutex_);
  if (report_.lines.size() >= kMaxLogLines) report_.lines.erase(report_.lines.begin());
  report_.lines.emplace_back(line.substr(0, kMaxLogLineBytes));
  has_report_ = true;
}

std::optional<StepContext::Report> StepContext::take_report() {
  MutexLock lock(mutex_);
  if (!std::exchange(has_report_, false)) return std::nullopt;
  Report report = report_;
  report_.lines.clear();
  return report;
}

Result<void> Plugin::check(const nlohmann::json&) const { return {}; }

PluginResult Plugin::run(StepContext&) {
  COHORT_ASSERT(false, "a Plugin overrides run() or run_async()");
  return PluginResult::failure("");
}

Task<PluginResult> Plugin::run_async(StepContext& context) { co_return run(context); }

Result<void> PluginRegistry::add(std::string name, std::shared_ptr<Plugin> plugin) {
  if (name.empty()) return Error{ErrorCode::kInvalid, "a plugin needs a name"};
  const auto [place, is_new] = plugins_.try_emplace(std::move(name), std::move(plugin));
  if (is_new) return {};
  return Error{ErrorCode::kExists, "there is a plugin '" + place->first + "' already"};
}

Result<void> PluginRegistry::add(std::string name, std::function<PluginResult(StepContext&)> run) {
  return add(std::move(name), std::make_shared<FunctionPlugin>(std::move(run)));
}

Plugin* PluginRegistry::find(std::string_view name) const {
  const auto found = plugins_.find(name);
  return found == plugins_.end() ? nullptr : found->second.get();
}

std::vector<std::string> PluginRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, plugin] : plugins_) all.push_back(name);
  return all;
}

}  // namespace cohort

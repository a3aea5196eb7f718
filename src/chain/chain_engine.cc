#include "cohort/chain/chain_engine.h"

#include <utility>

#include "chain/chain_core.h"

namespace cohort {

template class ChainCore<NoChainFaults>;

class ChainEngine::Impl {
 public:
  Impl(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options, Broker* broker)
      : core(ChainCore<NoChainFaults>::make(store, executor, plugins, std::move(options), broker)) {}
  std::shared_ptr<ChainCore<NoChainFaults>> core;
};

ChainEngine::ChainEngine(TaskStore& store, Executor& executor, const PluginRegistry& plugins, ChainOptions options,
                         Broker* broker)
    : impl_(std::make_unique<Impl>(store, executor, plugins, std::move(options), broker)) {}
ChainEngine::~ChainEngine() { impl_->core->close(); }

TaskHandle<void> ChainEngine::start() { return impl_->core->start(); }
TaskHandle<void> ChainEngine::drain(Duration grace) { return impl_->core->drain(grace); }
TaskHandle<Submitted> ChainEngine::submit(NewTask task) { return impl_->core->tasks().submit(std::move(task)); }
TaskHandle<std::vector<Result<Submitted>>> ChainEngine::submit_all(std::vector<NewTask> tasks) {
  return impl_->core->tasks().submit_all(std::move(tasks));
}
TaskHandle<ChainRow> ChainEngine::cancel(std::string task_id, std::string reason) {
  return impl_->core->control().cancel(std::move(task_id), std::move(reason));
}
TaskHandle<ChainTask> ChainEngine::replay(ReplayRequest request) {
  return impl_->core->tasks().replay(std::move(request));
}
TaskHandle<ChainTask> ChainEngine::ready(std::string task_id) { return impl_->core->tasks().ready(std::move(task_id)); }
TaskHandle<ChainTask> ChainEngine::wait(const std::string& task_id) { return impl_->core->ends().wait(task_id); }
TaskHandle<void> ChainEngine::pause_group(std::string group) {
  return impl_->core->control().set_paused(std::move(group), true);
}
TaskHandle<void> ChainEngine::resize_group(std::string group, GroupLimits limits) {
  return impl_->core->control().resize(std::move(group), limits);
}
TaskHandle<void> ChainEngine::resume_group(std::string group) {
  return impl_->core->control().set_paused(std::move(group), false);
}
void ChainEngine::pause_intake() {
  if (impl_->core->intake() != nullptr) impl_->core->intake()->pause();
}
void ChainEngine::resume_intake() {
  if (impl_->core->intake() != nullptr) impl_->core->intake()->resume();
}
IntakeStatus ChainEngine::intake_status() const {
  IntakeStatus status;
  if (impl_->core->intake() != nullptr) status = impl_->core->intake()->status();
  status.active_executions = stats().running;
  return status;
}
GateStatus ChainEngine::gate() const { return impl_->core->gate_status(); }
std::optional<Duration> ChainEngine::estimated_wait(const std::string& group) const {
  return impl_->core->estimated_wait(group);
}
ChainStats ChainEngine::stats() const { return impl_->core->stats(); }

}  // namespace cohort

#include "graph/node_record.h"

namespace cohort::internal {

NodeRecord::NodeRecord(RunState& run, std::uint32_t index, bool is_timed)
    : NodeTask(run, index, *run.plan().nodes[index].label) {
  ask_for_end();
  if (node().takes_context) {
    stop_.emplace();
    context_.stop = stop_->get_token();
  }
  if (is_timed) {
    extras().options.deadline = run_->slot(index).attempts.deadline();
    special = timed = true;
    awaited = run_->awaited;
  } else if (node().is_coroutine) {
    extras();
    special = true;
  }
}

bool NodeRecord::run() {
  if (!begun_) {
    begun_ = true;
    if (!run_->engine().begin(*run_, *this)) {
      claim_by_body(TaskStatus::kSuccess);
      return true;
    }
    if (node().is_coroutine) set_context();
  }
  if (node().is_coroutine) return go_on();
  run_body();
  return true;
}

// Starts or resumes the coroutine; true when it has ended.
bool NodeRecord::go_on() {
  std::coroutine_handle<> next = std::exchange(extras().resume_point, nullptr);
  if (!next) {
    coroutine_ = body().run_async(*run_, context_, *this);
    next = coroutine_.coroutine();
  }
  next.resume();
  if (!coroutine_.coroutine().done()) {
    COHORT_ASSERT(extras().resume_point, "a Task awaits Tasks, handles, scopes and sleeps, nothing else");
    return false;
  }
  if (!claimed_by_body && !is_claimed()) {
    try {
      coroutine_.coroutine().promise().result();
      fail({ErrorCode::kInternal, "its coroutine ended without a result"});
    } catch (...) {
      fail(Error::from_exception(std::current_exception()));
    }
  }
  coroutine_ = Task<void>();
  return true;
}

void NodeRecord::on_end() { run_->engine().on_attempt_end(*run_, *this); }

}  // namespace cohort::internal

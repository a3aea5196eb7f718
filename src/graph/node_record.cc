#include "graph/node_record.h"

#include <utility>

namespace cohort::internal {

NodeRecord::NodeRecord(RunState& run, std::uint32_t index, Kind kind)
    : TaskRecord(*run.plan().nodes[index].label),
      kept_(kind == Kind::kInline ? Ref<RunState>() : Ref<RunState>(run)),
      run_(&run),
      index_(index) {
  ExecutorAccess::set_home(run.engine().executor(), *this);
  ask_for_end();
  if (node().takes_context) {
    stop_.emplace();
    context_.stop = stop_->get_token();
  }
  if (kind == Kind::kTimed) {
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
      fail({ErrorCode::kCancelled, "nobody needs it any more"});
      return true;
    }
    const Attempts& attempts = run_->slot(index_).attempts;
    context_.deadline = attempts.deadline();
    context_.attempt = attempts.number();
  }
  if (node().is_coroutine) return go_on();
  body().run(*run_, context_, *this);
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

void NodeRecord::not_made(Error error) {
  set_error(std::move(error));
  reclaim_by_body(TaskStatus::kFailed);
}

void NodeRecord::fail(Error error) {
  const bool cancelled = error.code == ErrorCode::kCancelled;
  if (claim_by_body(cancelled ? TaskStatus::kCancelled : TaskStatus::kFailed)) set_error(std::move(error));
}

}  // namespace cohort::internal

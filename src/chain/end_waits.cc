#include "chain/end_waits.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace cohort {
namespace {

constexpr std::uint32_t kPage = 200;
constexpr std::size_t kRowsOfLook = 100;

Error ended() { return {ErrorCode::kEnded, "the node stops; the task is kept, and goes on when a node runs it again"}; }

Error too_many() {
  return {ErrorCode::kRejected,
          std::to_string(EndWaits::kMostWaits) + " waits for tasks are open; cancel some, or wait for fewer at a time"};
}

}  // namespace

TaskHandle<ChainTask> EndWaits::wait(const std::string& task_id) {
  std::uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    number = ++last_number_;
  }
  const auto on_cancel = [self = weak_from_this(), task_id, number] {
    if (const auto waits = self.lock()) waits->cancel(task_id, number);
  };
  Promise<ChainTask> promise("wait", on_cancel, executor_.clock());
  TaskHandle<ChainTask> handle = promise.handle();
  std::optional<Error> refused;
  std::optional<Promise<ChainTask>> refusing;
  {
    MutexLock lock(mutex_);
    if (waits_.size() >= kMostWaits) refused = too_many();
    if (closed_) refused = ended();
    if (!refused) {
      waits_.emplace(task_id, Wait{number, std::move(promise)});
    } else {
      refusing.emplace(std::move(promise));
    }
  }
  if (refusing) {
    refusing->settle(*std::move(refused));
  } else {
    read_row(task_id);
  }
  return handle;
}

void EndWaits::read_row(const std::string& task_id) {
  store_.get(task_id, [self = shared_from_this(), hold = calls_.hold(), task_id](const Result<ChainTask>& task) {
    // What keeps the store from answering now may pass: look() asks again.
    const auto may_pass = [](ErrorCode code) {
      return code == ErrorCode::kUnavailable || code == ErrorCode::kRejected;
    };
    const bool is_over = task ? is_final(task->state) : !may_pass(task.error().code);
    if (is_over) self->settle(task_id, task);
  });
}

void EndWaits::skip_to(std::uint64_t last_event) {
  MutexLock lock(mutex_);
  read_to_ = std::max(read_to_, last_event);
}

void EndWaits::hear(std::uint64_t last_event) {
  {
    MutexLock lock(mutex_);
    last_event_ = std::max(last_event_, last_event);
    if (waits_.empty()) read_to_ = std::max(read_to_, last_event_);
  }
  read_events();
}

void EndWaits::read_events() {
  std::uint64_t after = 0;
  std::uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    if (closed_ || is_reading_ || read_to_ >= last_event_) return;
    is_reading_ = true;
    after = read_to_;
    last = last_event_;
  }
  const auto done = [self = shared_from_this(), hold = calls_.hold(),
                     last](const Result<std::vector<ChainEvent>>& events) {
    if (events) self->take(*events);
    {
      MutexLock lock(self->mutex_);
      self->is_reading_ = false;
      if (events && events->empty()) self->read_to_ = std::max(self->read_to_, last);  // The store has forgotten them.
    }
    if (events) self->read_events();  // Else with the next news, or look().
  };
  store_.events(after, kPage, done);
}

void EndWaits::take(const std::vector<ChainEvent>& events) {
  std::vector<std::string> touched;
  {
    MutexLock lock(mutex_);
    for (const ChainEvent& each : events) {
      read_to_ = std::max(read_to_, each.sequence);
      if (waits_.contains(each.task_id)) touched.push_back(each.task_id);
    }
  }
  std::ranges::sort(touched);
  const auto rest = std::ranges::unique(touched);
  touched.erase(rest.begin(), rest.end());
  for (const std::string& each : touched) read_row(each);
}

void EndWaits::look() {
  std::vector<std::string> some;
  {
    MutexLock lock(mutex_);
    if (closed_ || waits_.empty()) return;
    auto at = waits_.upper_bound(looked_at_);
    if (at == waits_.end()) at = waits_.begin();
    for (; at != waits_.end() && some.size() < kRowsOfLook; at = waits_.upper_bound(at->first))
      some.push_back(at->first);
    looked_at_ = some.back();
  }
  for (const std::string& each : some) read_row(each);
  read_events();
}

void EndWaits::settle(const std::string& task_id, const Result<ChainTask>& result) {
  std::vector<Promise<ChainTask>> promises;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = waits_.equal_range(task_id);
    for (auto each = begin; each != end; ++each) promises.push_back(std::move(each->second.promise));
    waits_.erase(begin, end);
  }
  for (Promise<ChainTask>& each : promises) each.settle(result);
}

void EndWaits::cancel(const std::string& task_id, std::uint64_t number) {
  std::optional<Promise<ChainTask>> cancelled;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = waits_.equal_range(task_id);
    const auto found = std::find_if(begin, end, [&](const auto& each) { return each.second.number == number; });
    if (found == end) return;
    cancelled.emplace(std::move(found->second.promise));
    waits_.erase(found);
  }
  cancelled->settle(Error{ErrorCode::kCancelled, "the wait was cancelled; the task goes on"});
}

void EndWaits::close() {
  Waits waits;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    waits.swap(waits_);
  }
  for (auto& [unused, wait] : waits) wait.promise.settle(ended());
}

}  // namespace cohort

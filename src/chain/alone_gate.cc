#include "chain/alone_gate.h"

#include <utility>

namespace cohort {

// When nobody else wants the node there is nobody to wait for.
bool AloneGate::suspect_is_next() const {
  if (suspects_.empty()) return false;
  return executor_.clock().now() >= others_until_ || (inside_ == 0 && waiting_.empty());
}

TaskHandle<void> AloneGate::enter(bool alone, std::string task_id) {
  Waiting in;
  TaskHandle<void> handle;
  {
    MutexLock lock(mutex_);
    if (is_closed_ || (!alone && !is_alone_ && !suspect_is_next())) {
      ++inside_;
      return handle;
    }
    Promise<void> place("gate", {}, executor_.clock());
    handle = place.handle();
    (alone ? suspects_ : waiting_).push_back({std::move(place), std::move(task_id)});
    in = admit();
  }
  let_in(std::move(in));
  return handle;
}

void AloneGate::leave(bool alone) {
  Waiting in;
  {
    MutexLock lock(mutex_);
    if (alone && std::exchange(is_alone_, false)) {
      const Time now = executor_.clock().now();
      others_until_ = now + (now - alone_since_);
      alone_task_.clear();
    } else {
      --inside_;
    }
    in = admit();
  }
  let_in(std::move(in));
}

auto AloneGate::admit() -> Waiting {
  Waiting in;
  if (is_alone_) return in;
  if (suspect_is_next()) {
    if (inside_ != 0) return in;
    is_alone_ = true;
    alone_since_ = executor_.clock().now();
    alone_task_ = suspects_.front().task_id;
    in.push_back(std::move(suspects_.front()));
    suspects_.pop_front();
    return in;
  }
  inside_ += static_cast<std::uint32_t>(waiting_.size());
  in = std::exchange(waiting_, {});
  return in;
}

void AloneGate::let_in(Waiting in) {
  for (Place& each : in) each.promise.settle({});
}

bool AloneGate::is_clear() const {
  MutexLock lock(mutex_);
  return !is_alone_ && !suspect_is_next();
}

std::string AloneGate::alone() const {
  MutexLock lock(mutex_);
  return alone_task_;
}

std::vector<std::string> AloneGate::suspects() const {
  MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const Place& each : suspects_) ids.push_back(each.task_id);
  return ids;
}

void AloneGate::look() {
  Waiting in;
  {
    MutexLock lock(mutex_);
    in = admit();
  }
  let_in(std::move(in));
}

void AloneGate::close() {
  Waiting in;
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
    inside_ += static_cast<std::uint32_t>(waiting_.size() + suspects_.size());
    in = std::exchange(waiting_, {});
    for (Place& each : suspects_) in.push_back(std::move(each));
    suspects_.clear();
  }
  let_in(std::move(in));
}

}  // namespace cohort

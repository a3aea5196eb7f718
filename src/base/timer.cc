#include "cohort/base/timer.h"

#include <utility>

namespace cohort {

bool TimerQueue::before(const Armed& a, const Armed& b) {
  return a.when != b.when ? a.when < b.when : a.sequence < b.sequence;
}

void TimerQueue::put(std::size_t place, const Armed& armed) {
  heap_[place] = armed;
  armed.timer->place_ = place;
}

// Moves what is at `place` to where it belongs.
void TimerQueue::settle(std::size_t place) {
  const Armed armed = heap_[place];
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (!before(armed, heap_[parent])) break;
    put(place, heap_[parent]);
    place = parent;
  }
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], armed)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, armed);
}

void TimerQueue::arm(Timer& timer, Time when) {
  if (!timer.armed()) {
    heap_.push_back({});
    timer.place_ = heap_.size() - 1;
  }
  timer.when_ = when;
  heap_[timer.place_] = {when, sequence_++, &timer};
  settle(timer.place_);
}

void TimerQueue::disarm(Timer& timer) {
  if (!timer.armed()) return;
  const std::size_t place = std::exchange(timer.place_, Timer::kNowhere);
  const Armed last = heap_.back();
  heap_.pop_back();
  if (last.timer == &timer) return;
  heap_[place] = last;
  settle(place);
}

Timer* TimerQueue::pop_due(Time now) {
  if (heap_.empty() || heap_.front().when > now) return nullptr;
  Timer* timer = heap_.front().timer;
  disarm(*timer);
  return timer;
}

}  // namespace cohort

#include "cohort/base/timer.h"

#include <utility>

namespace cohort {

bool TimerQueue::before(const Timer& a, const Timer& b) {
  return a.when_ != b.when_ ? a.when_ < b.when_ : a.sequence_ < b.sequence_;
}

void TimerQueue::put(std::size_t place, Timer& timer) {
  heap_[place] = &timer;
  timer.place_ = place;
}

void TimerQueue::move_up(std::size_t place) {
  Timer& timer = *heap_[place];
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (!before(timer, *heap_[parent])) break;
    put(place, *heap_[parent]);
    place = parent;
  }
  put(place, timer);
}

void TimerQueue::move_down(std::size_t place) {
  Timer& timer = *heap_[place];
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
    if (!before(*heap_[child], timer)) break;
    put(place, *heap_[child]);
    place = child;
  }
  put(place, timer);
}

void TimerQueue::arm(Timer& timer, Time when) {
  if (timer.armed()) disarm(timer);
  timer.when_ = when;
  timer.sequence_ = sequence_++;
  heap_.push_back(&timer);
  move_up(heap_.size() - 1);
}

void TimerQueue::disarm(Timer& timer) {
  if (!timer.armed()) return;
  const std::size_t place = std::exchange(timer.place_, Timer::kNowhere);
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == &timer) return;
  put(place, *last);
  move_down(place);
  move_up(last->place_);
}

std::optional<Time> TimerQueue::next() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front()->when_;
}

Timer* TimerQueue::pop_due(Time now) {
  if (heap_.empty() || heap_.front()->when_ > now) return nullptr;
  Timer* timer = heap_.front();
  disarm(*timer);
  return timer;
}

}  // namespace cohort

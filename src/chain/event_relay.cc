#include "chain/event_relay.h"

#include "cohort/chain/task_json.h"

namespace cohort {

namespace {

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool brings_letter(const ChainEvent& event) {
  return event.kind == EventKind::kFailed || event.kind == EventKind::kExpired || event.kind == EventKind::kPoison ||
         event.kind == EventKind::kRefused;
}

}  // namespace

void EventRelay::look() {
  {
    MutexLock lock(mutex_);
    if (busy_) is_asked_again_ = true;
    if (busy_ || stopped_) return;
    busy_ = true;
    has_failed_ = false;
  }
  store_.cursor(kCursor, [self = shared_from_this(), hold = hold_()](Result<std::uint64_t> after) {
    if (!after || self->is_stopped()) return self->end(false);
    self->read(*after);
  });
}

void EventRelay::tick() {
  {
    MutexLock lock(mutex_);
    if (!has_failed_) return;
  }
  look();
}

void EventRelay::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
}

bool EventRelay::is_stopped() {
  MutexLock lock(mutex_);
  return stopped_;
}

void EventRelay::read(std::uint64_t after) {
  store_.events(after, kBatch, [self = shared_from_this(), hold = hold_()](Result<std::vector<ChainEvent>> events) {
    if (!events || events->empty() || self->is_stopped()) return self->end(events.ok());
    self->publish(*std::move(events));
  });
}

void EventRelay::publish(std::vector<ChainEvent> events) {
  std::vector<OutMessage> messages;
  for (const ChainEvent& each : events) messages.push_back({each.task_id, text_of(to_json(each))});
  broker_.publish(
      Topic::kEvents, std::move(messages),
      [self = shared_from_this(), hold = hold_(), events = std::move(events)](Result<void> published) mutable {
        if (!published || self->is_stopped()) return self->end(false);  // The cursor has not moved: later once more.
        self->publish_letters(std::move(events), 0);
      });
}

void EventRelay::publish_letters(std::vector<ChainEvent> events, std::size_t from) {
  while (from < events.size() && !brings_letter(events[from])) ++from;
  if (from == events.size()) {
    const std::uint64_t last = events.back().sequence;
    const bool more = events.size() == kBatch;
    store_.set_cursor(kCursor, last, [self = shared_from_this(), hold = hold_(), more](Result<void> set) {
      self->end(set.ok(), more);
    });
    return;
  }
  const std::string id = events[from].task_id;
  store_.dead_letter(id, [self = shared_from_this(), hold = hold_(), events = std::move(events),
                          from](Result<DeadLetter> letter) mutable {
    if (!letter) return self->publish_letters(std::move(events), from + 1);  // Replayed or discarded meanwhile.
    self->broker_.publish(Topic::kDeadLetters, {{letter->task_id, text_of(to_json(*letter))}},
                          [self, hold, events = std::move(events), from](Result<void> published) mutable {
                            if (!published || self->is_stopped()) return self->end(false);
                            self->publish_letters(std::move(events), from + 1);
                          });
  });
}

void EventRelay::end(bool succeeded, bool more) {
  bool looks_again = false;
  {
    MutexLock lock(mutex_);
    busy_ = false;
    has_failed_ = !succeeded;
    looks_again = std::exchange(is_asked_again_, false) || more;
  }
  if (looks_again && succeeded) look();
}

}  // namespace cohort

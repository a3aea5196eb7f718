#include "admin/event_hub.h"

#include <algorithm>
#include <future>
#include <utility>

#include "cohort/chain/task_json.h"

namespace cohort {
namespace {

constexpr std::uint32_t kPage = 200;

std::string text_of(const ChainEvent& event) {
  return "id: " + std::to_string(event.sequence) + "\nevent: " + std::string(to_string(event.kind)) +
         "\ndata: " + to_json(event).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n\n";
}

// Where a reader is, so that it can come back there, though nothing was for it.
std::string id_line(std::uint64_t sequence) { return ": here\nid: " + std::to_string(sequence) + "\n\n"; }

std::string gap(std::uint64_t from, std::uint64_t to) {
  return "event: gap\ndata: {\"from\":" + std::to_string(from) + ",\"to\":" + std::to_string(to) + "}\n\n";
}

}  // namespace

class EventHub::Stream final : public BodyStream, public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<EventHub> hub, EventFilter filter, std::uint64_t after, std::string first)
      : hub_(std::move(hub)),
        filter_(std::move(filter)),
        after_(after),
        first_(std::move(first)),
        skips_(!filter_.after) {}

  void next(Function<void(std::optional<std::string>)> ready) override {
    bool is_closed = false;
    {
      MutexLock lock(mutex_);
      is_closed = closed_;
      if (!is_closed) ready_ = std::move(ready);
    }
    if (is_closed) return ready(std::nullopt);  // NOLINT(bugprone-use-after-move): then it was not moved.
    if (!first_.empty() && !skips_) return give(std::exchange(first_, {}));
    read();
  }

  void close() override {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    give(std::nullopt);
    hub_->forget(this);
  }

  // There is something new; or it is time to say that nothing is.
  void wake(bool ping) {
    std::uint64_t after = 0;
    {
      MutexLock lock(mutex_);
      if (!waits_) return;
      waits_ = false;
      after = after_;
    }
    if (ping) return give(id_line(after));
    read();
  }

 private:
  void read() {
    const std::uint64_t latest = hub_->latest_.load();  // Before the look: so much there was.
    std::uint64_t after = 0;
    {
      MutexLock lock(mutex_);
      if (closed_) return;
      after = after_;
    }
    hub_->store_.events(after, kPage, [self = shared_from_this(), latest](Result<std::vector<ChainEvent>> events) {
      if (!events) return self->give(std::nullopt);
      self->take(*events, latest);
    });
  }

  void take(const std::vector<ChainEvent>& events, std::uint64_t latest) {
    if (skips_) return skip(events);
    if (events.empty()) return wait(latest);
    std::string text;
    {
      MutexLock lock(mutex_);
      if (events.front().sequence > after_ + 1) text = gap(after_ + 1, events.front().sequence - 1);
      after_ = events.back().sequence;
    }
    hub_->found(events.back().sequence);
    for (const ChainEvent& each : events) {
      if (!filter_.group.empty() && each.group != filter_.group) continue;
      if (!filter_.task.empty() && each.task_id != filter_.task) continue;
      text += text_of(each);
    }
    if (text.empty()) return read();
    give(std::move(text));
  }

  // Who wants what is new begins where there is nothing more; then it is greeted.
  void skip(const std::vector<ChainEvent>& events) {
    std::uint64_t after = 0;
    {
      MutexLock lock(mutex_);
      if (!events.empty()) after_ = events.back().sequence;
      after = after_;
    }
    if (events.empty()) {
      skips_ = false;
      return give(std::exchange(first_, {}) + id_line(after));
    }
    hub_->found(events.back().sequence);
    read();
  }

  // What came between the look and this is seen here, what comes later wakes it.
  void wait(std::uint64_t latest) {
    std::string forgotten;
    bool more = false;
    {
      MutexLock lock(mutex_);
      if (latest > after_) {  // They are gone, all of them.
        forgotten = gap(after_ + 1, latest) + id_line(latest);
        after_ = latest;
      } else {
        waits_ = true;
        more = hub_->latest_.load() > after_;
      }
    }
    if (!forgotten.empty()) return give(std::move(forgotten));
    if (more) wake(false);
  }

  void give(std::optional<std::string> piece) {
    Function<void(std::optional<std::string>)> ready;
    {
      MutexLock lock(mutex_);
      waits_ = false;
      ready = std::exchange(ready_, nullptr);
    }
    if (ready) ready(std::move(piece));
  }

  const std::shared_ptr<EventHub> hub_;
  const EventFilter filter_;
  Mutex mutex_;
  bool closed_ COHORT_GUARDED_BY(mutex_) = false;
  bool waits_ COHORT_GUARDED_BY(mutex_) = false;
  std::uint64_t after_ COHORT_GUARDED_BY(mutex_);
  Function<void(std::optional<std::string>)> ready_ COHORT_GUARDED_BY(mutex_);
  // Only of next(), and of the answer to the read that it began.
  std::string first_;
  bool skips_;
};

EventHub::~EventHub() { close(); }

void EventHub::start() {
  std::promise<std::uint64_t> known;
  store_.stats([&](Result<StoreStats> stats) { known.set_value(stats ? stats->last_event : 0); });
  latest_ = known.get_future().get();
  watch_ = store_.watch([hub = weak_from_this()](const StoreNews& news) {
    if (const auto self = hub.lock()) self->hear(news);
  });
  read_new();  // What came between the two.
  thread_ = std::jthread([this](const std::stop_token& stop) { ping_readers(stop); });
}

void EventHub::close() {
  std::vector<std::weak_ptr<Stream>> streams;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    streams.swap(streams_);
    changed_.notify_all();
  }
  watch_.reset();
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  for (const auto& each : streams) {
    if (const auto stream = each.lock()) stream->close();
  }
}

Result<std::shared_ptr<BodyStream>> EventHub::subscribe(EventFilter filter) {
  const std::uint64_t latest = latest_.load();
  std::uint64_t after = filter.after.value_or(latest);
  std::string first = ": hello\n\n";
  if (after > latest) {  // From another store, or another time of this one.
    first += gap(latest + 1, after);
    after = latest;
  }
  MutexLock lock(mutex_);
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  if (closed_ || streams_.size() >= max_streams_) {
    return Error{ErrorCode::kRejected, "there are " + std::to_string(max_streams_) +
                                           " readers of events already; end one, or raise admin.max_event_streams"};
  }
  auto stream = std::make_shared<Stream>(shared_from_this(), std::move(filter), after, std::move(first));
  streams_.push_back(stream);
  return std::shared_ptr<BodyStream>(std::move(stream));
}

void EventHub::hear(const StoreNews& news) {
  if (news.everything) return read_new();
  if (news.last_event == 0) return;
  found(news.last_event);
  wake_all(false);
}

void EventHub::ping_readers(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      const auto due = std::chrono::steady_clock::now() + ping_every_;
      while (!closed_ && std::chrono::steady_clock::now() < due) changed_.wait_until(mutex_, due);
      if (closed_) return;
    }
    read_new();
    wake_all(true);
  }
}

void EventHub::read_new() {
  store_.events(latest_.load(), kPage, [self = shared_from_this()](const Result<std::vector<ChainEvent>>& events) {
    if (!events || events->empty()) return;
    self->found(events->back().sequence);
    self->wake_all(false);
  });
}

void EventHub::found(std::uint64_t last) {
  std::uint64_t seen = latest_.load();
  while (seen < last && !latest_.compare_exchange_weak(seen, last)) {
  }
}

void EventHub::wake_all(bool ping) {
  std::vector<std::weak_ptr<Stream>> streams;
  {
    MutexLock lock(mutex_);
    streams = streams_;
  }
  for (const auto& each : streams) {
    if (const auto stream = each.lock()) stream->wake(ping);
  }
}

void EventHub::forget(const Stream* stream) {
  MutexLock lock(mutex_);
  std::erase_if(streams_, [&](const auto& each) {
    const auto there = each.lock();
    return !there || there.get() == stream;
  });
}

}  // namespace cohort

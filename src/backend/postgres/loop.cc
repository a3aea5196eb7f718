#include "backend/postgres/loop.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

namespace cohort::postgres {

// --- Link

void Link::open() {
  loop_.connect(connect_, [this](Result<ConnectionRef> connection) { connected(std::move(connection)); });
}

void Link::connected(Result<ConnectionRef> connection) {
  if (is_closed_) return;
  if (!connection) {
    hooks_.down({"", connection.error().message});
    return try_again();
  }
  session_ = std::make_unique<Session>(*std::move(connection));
  pause_ = kFirstPause;
  hooks_.up();
}

// A pause of between a half and one and a half: the nodes of a cluster do not come back all at once.
void Link::try_again() {
  const Duration pause = std::chrono::duration_cast<Duration>(pause_ * (0.5 + loop_.random().unit()));
  pause_ = std::min(2 * pause_, kLongestPause);
  loop_.call_in(pause, [this] {
    if (!is_closed_) open();
  });
}

void Link::pump() {
  if (!session_) return;
  const std::optional<Failure> lost = session_->pump();
  if (lost) return reset(*lost);
  if (session_ && session_->silence() > kLongestSilence) {
    return reset(
        {"", "the server has not answered for " + std::to_string(kLongestSilence / std::chrono::seconds(1)) + " s"});
  }
  while (session_) {
    const std::optional<std::string> notification = session_->notification();
    if (!notification) return;
    hooks_.notified(*notification);
  }
}

void Link::reset(const Failure& failure) {
  const std::unique_ptr<Session> lost = std::move(session_);
  if (!lost) return;
  hooks_.down(failure);
  lost->lose(failure);
  if (!is_closed_) try_again();
}

void Link::close() {
  is_closed_ = true;
  const std::unique_ptr<Session> last = std::move(session_);
  if (last) last->lose({"", "the store has been closed"});
}

// --- Loop

Loop::Loop() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), random_(std::random_device()()) {}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "cohort-postgres");
  connector_ = std::thread([this] { run_connector(); });
  pthread_setname_np(connector_.native_handle(), "cohort-connect");
}

void Loop::stop() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(ended_, true)) return;
    wanted_.notify_all();
  }
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_, &one, sizeof(one)));
  if (thread_.joinable()) thread_.join();
  if (connector_.joinable()) connector_.join();
  ::close(wake_);
}

void Loop::post(Function<void()> call) {
  bool wakes = false;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    posted_.push_back(std::move(call));
    wakes = std::exchange(sleeps_, false);
  }
  const std::uint64_t one = 1;
  if (wakes) static_cast<void>(::write(wake_, &one, sizeof(one)));
}

void Loop::call_in(Duration delay, Function<void()> call) {
  timers_.emplace(std::chrono::steady_clock::now() + delay, std::move(call));
}

void Loop::run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (ended_) return;
    }
    run_posted();
    run_timers();
    poll();
    for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->pump();
  }
}

void Loop::run_posted() {
  std::vector<Function<void()>> calls;
  {
    MutexLock lock(mutex_);
    calls.swap(posted_);
  }
  for (Function<void()>& each : calls) each();
}

void Loop::run_timers() {
  const Time now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Function<void()> call = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    call();
  }
}

void Loop::call_all_timers() {
  for (auto& [due, call] : std::exchange(timers_, {})) call();
}

void Loop::poll() {
  std::vector<pollfd> files = {{wake_, POLLIN, 0}};
  for (Link* const link : links_) {
    if (Session* const session = link->session()) {
      files.push_back({session->socket(), static_cast<short>(POLLIN | (session->wants_to_write() ? POLLOUT : 0)), 0});
    }
  }
  int wait = 1000;
  if (!timers_.empty()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - std::chrono::steady_clock::now());
    wait = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, wait));
  }
  {
    MutexLock lock(mutex_);
    if (!posted_.empty() || ended_) wait = 0;
    sleeps_ = wait != 0;
  }
  ::poll(files.data(), files.size(), wait);
  {
    MutexLock lock(mutex_);
    sleeps_ = false;
  }
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_, &count, sizeof(count)));
}

// --- the connector

void Loop::connect(const Connect& connect, Connected done) {
  MutexLock lock(mutex_);
  connects_.emplace_back(connect, std::move(done));
  wanted_.notify_one();
}

void Loop::run_connector() {
  for (;;) {
    std::pair<Connect, Connected> next;
    {
      MutexLock lock(mutex_);
      while (connects_.empty() && !ended_) wanted_.wait(mutex_);
      if (ended_) return;
      next = std::move(connects_.front());
      connects_.pop_front();
    }
    Result<ConnectionRef> connection = next.first();
    post(
        [done = std::move(next.second), connection = std::move(connection)]() mutable { done(std::move(connection)); });
  }
}

}  // namespace cohort::postgres

#include "provider/http/http_loop.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace cohort {

using internal::Easy;
using internal::HttpTransfer;
using State = HttpTransfer::State;

HttpClient::Loop::Loop(HttpClientOptions options) : options_(std::move(options)), multi_(curl_multi_init()) {
  // It counts the busy ones too.
  const long most = static_cast<long>(options_.max_idle_connections) + static_cast<long>(options_.max_in_flight);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most);
}

HttpClient::Loop::~Loop() {
  spare_.clear();
  curl_multi_cleanup(multi_);
}

Result<void> HttpClient::Loop::start() {
  if (multi_ == nullptr || curl_multi_wakeup(multi_) != CURLM_OK) {
    return Error{ErrorCode::kUnavailable, "there are no descriptors or no memory left for an HTTP client"};
  }
  // Signals are for the program's own threads; and a connection that breaks must not kill it by SIGPIPE.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> started;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    started = Error::from_exception(std::current_exception());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void HttpClient::Loop::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_);
  thread_.join();
}

bool HttpClient::Loop::give(Order order) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return false;
    orders_.push_back(std::move(order));
  }
  curl_multi_wakeup(multi_);
  return true;
}

HttpClient::Loop::Transfer HttpClient::Loop::send(HttpRequest request, std::shared_ptr<internal::StreamPipe> pipe) {
  const Result<void> checked = HttpTransfer::check(request);
  // The way back, for cancel(): filled in when there is something to come back to.
  struct Way {
    std::weak_ptr<Loop> loop;
    std::weak_ptr<HttpTransfer> transfer;
  };
  auto way = std::make_shared<Way>();
  auto transfer = std::make_shared<HttpTransfer>(std::move(request), options_, std::move(pipe), [way] {
    const auto loop = way->loop.lock();
    auto to_cancel = way->transfer.lock();
    if (loop && to_cancel) loop->cancel(std::move(to_cancel));
  });
  *way = {weak_from_this(), transfer};
  if (!checked) {
    transfer->fail(FailureType::kHttp4xx, ErrorCode::kInvalid, checked.error().message);
    return transfer;
  }
  if (open_.fetch_add(1, std::memory_order_relaxed) >= options_.max_in_flight + options_.max_waiting) {
    open_.fetch_sub(1, std::memory_order_relaxed);
    // Our own limit says nothing about the provider.
    transfer->fail(FailureType::kLocal, ErrorCode::kRejected, "too many calls wait for their turn already");
  } else if (!give({What::kSend, transfer})) {
    open_.fetch_sub(1, std::memory_order_relaxed);
    transfer->give_up({ErrorCode::kEnded, "the client has ended"});
  }
  return transfer;
}

void HttpClient::Loop::cancel(Transfer transfer) { give({What::kCancel, std::move(transfer)}); }
void HttpClient::Loop::go_on(Transfer transfer) { give({What::kGoOn, std::move(transfer)}); }

HttpClient::Stats HttpClient::Loop::stats() const {
  const std::uint32_t open = open_.load(std::memory_order_relaxed);
  const std::uint32_t in_flight = std::min(open, in_flight_.load(std::memory_order_relaxed));
  return {ended_.load(std::memory_order_relaxed), connections_.load(std::memory_order_relaxed), in_flight,
          open - in_flight};
}

void HttpClient::Loop::run() {
  while (take_orders()) {
    expire_waiting();
    start_waiting();
    int running = 0;
    curl_multi_perform(multi_, &running);
    finish_done();
    end_silent();
    if (!waiting_.empty() && active_.size() < options_.max_in_flight) continue;
    if (curl_multi_poll(multi_, nullptr, 0, longest_sleep(), nullptr) != CURLM_OK) std::this_thread::yield();
  }
  const Error ended{ErrorCode::kEnded, "the client has ended"};
  for (const Transfer& each : waiting_) {
    each->give_up(ended);
    count_end();
  }
  for (auto& [transfer, alive] : active_) {
    curl_multi_remove_handle(multi_, transfer->easy());
    keep(transfer->give_up(ended));
    count_end();
  }
  waiting_.clear();
  active_.clear();
}

bool HttpClient::Loop::take_orders() {
  std::vector<Order> orders;
  bool go_on = true;
  {
    MutexLock lock(mutex_);
    orders.swap(orders_);
    go_on = !stopping_;
  }
  for (Order& order : orders) obey(order);
  return go_on;
}

void HttpClient::Loop::obey(Order& order) {
  HttpTransfer& transfer = *order.transfer;
  switch (order.what) {
    case What::kSend:
      transfer.state = State::kWaiting;
      waiting_limits_.insert(transfer.limit());
      waiting_.push_back(std::move(order.transfer));
      break;
    case What::kCancel:
      if (transfer.state == State::kWaiting) {
        waiting_limits_.erase(waiting_limits_.find(transfer.limit()));
        std::erase(waiting_, order.transfer);
      } else if (transfer.state == State::kActive) {
        forget_active(transfer);
      } else {
        return;
      }
      count_end();
      keep(transfer.give_up({ErrorCode::kCancelled, "cancelled by its caller"}));
      break;
    case What::kGoOn:
      transfer.go_on();
      next_silence_ = std::min(next_silence_, transfer.silent_at());
      break;
  }
}

void HttpClient::Loop::forget_active(HttpTransfer& transfer) {
  curl_multi_remove_handle(multi_, transfer.easy());
  active_.erase(&transfer);
  in_flight_.store(static_cast<std::uint32_t>(active_.size()), std::memory_order_relaxed);
}

Easy HttpClient::Loop::blank_handle() {
  if (spare_.empty()) return Easy(curl_easy_init());
  Easy easy = std::move(spare_.back());
  spare_.pop_back();
  curl_easy_reset(easy.get());
  return easy;
}

void HttpClient::Loop::start_waiting() {
  while (!waiting_.empty() && active_.size() < options_.max_in_flight) {
    Transfer transfer = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_limits_.erase(waiting_limits_.find(transfer->limit()));
    Easy easy = blank_handle();
    if (!easy) {
      refuse_for_lack_of_memory(*transfer);
      continue;
    }
    HttpTransfer* const started = transfer.get();
    started->start(std::move(easy), options_, system_clock().now());
    next_silence_ = std::min(next_silence_, started->silent_at());
    if (curl_multi_add_handle(multi_, started->easy()) == CURLM_OK) {
      active_.emplace(started, std::move(transfer));
    } else {
      refuse_for_lack_of_memory(*started);
    }
  }
  in_flight_.store(static_cast<std::uint32_t>(active_.size()), std::memory_order_relaxed);
}

void HttpClient::Loop::refuse_for_lack_of_memory(HttpTransfer& transfer) {
  count_end();
  transfer.fail(FailureType::kLocal, ErrorCode::kRejected, "there is no memory for another call");
}

// Those under way libcurl looks after.
void HttpClient::Loop::expire_waiting() {
  const Time now = system_clock().now();
  if (waiting_limits_.empty() || *waiting_limits_.begin() > now) return;
  std::erase_if(waiting_, [&](const Transfer& each) {
    if (each->limit() > now) return false;
    // It has not been sent, so nobody is to blame.
    count_end();
    each->fail(FailureType::kLocal, ErrorCode::kTimedOut, "its time ran out while it waited for its turn");
    return true;
  });
  waiting_limits_.erase(waiting_limits_.begin(), waiting_limits_.upper_bound(now));
}

void HttpClient::Loop::end_silent() {
  const Time now = system_clock().now();
  if (now < next_silence_) return;
  std::vector<HttpTransfer*> silent;
  next_silence_ = Time::max();
  for (const auto& [transfer, alive] : active_) {
    if (transfer->silent_at() <= now) {
      silent.push_back(transfer);
    } else {
      next_silence_ = std::min(next_silence_, transfer->silent_at());
    }
  }
  for (HttpTransfer* const each : silent) {
    each->note_silence();
    end(*each, CURLE_OPERATION_TIMEDOUT);
  }
}

void HttpClient::Loop::finish_done() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    void* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    end(*static_cast<HttpTransfer*>(transfer), code);
  }
}

void HttpClient::Loop::end(HttpTransfer& transfer, CURLcode code) {
  const Transfer alive = active_.at(&transfer);
  connections_.fetch_add(transfer.connections_made(), std::memory_order_relaxed);
  count_end();
  forget_active(transfer);
  keep(transfer.finish(code, system_clock().now()));
}

void HttpClient::Loop::keep(Easy easy) {
  if (easy && spare_.size() < options_.max_idle_connections) spare_.push_back(std::move(easy));
}

int HttpClient::Loop::longest_sleep() const {
  constexpr int kMost = 60'000;
  const Time next = waiting_limits_.empty() ? next_silence_ : std::min(next_silence_, *waiting_limits_.begin());
  if (next == Time::max()) return kMost;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - system_clock().now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kMost));
}

}  // namespace cohort

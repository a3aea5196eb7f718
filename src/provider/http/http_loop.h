#pragma once

// The client's thread, and the way to it.

#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "provider/http/http_transfer.h"

namespace cohort {

/// One thread drives all transfers. Others only put something into `orders_` and wake it; whatever a transfer holds,
/// its libcurl handle included, is touched by this thread alone from then on.
///
/// Shared by the client and, weakly, by the handles of its calls, which may outlive it.
class HttpClient::Loop : public std::enable_shared_from_this<HttpClient::Loop> {
 public:
  explicit Loop(HttpClientOptions options);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  using Transfer = std::shared_ptr<internal::HttpTransfer>;

  /// Why it cannot work.
  Result<void> start();
  /// Ends all calls, and the thread.
  void stop() COHORT_EXCLUDES(mutex_);

  Transfer send(HttpRequest request, std::shared_ptr<internal::StreamPipe> pipe) COHORT_EXCLUDES(mutex_);
  void cancel(Transfer transfer) COHORT_EXCLUDES(mutex_);
  /// There is room in its pipe again.
  void go_on(Transfer transfer) COHORT_EXCLUDES(mutex_);
  [[nodiscard]] Stats stats() const;

 private:
  enum class What { kSend, kCancel, kGoOn };
  struct Order {
    What what;
    Transfer transfer;
  };

  bool give(Order order) COHORT_EXCLUDES(mutex_);
  void run();
  /// False: it is time to stop.
  bool take_orders() COHORT_EXCLUDES(mutex_);
  void obey(Order& order);
  void start_waiting();
  void expire_waiting();
  /// Ends streams that have fallen silent.
  void end_silent();
  void finish_done();
  void end(internal::HttpTransfer& transfer, CURLcode code);
  void refuse_for_lack_of_memory(internal::HttpTransfer& transfer);
  void forget_active(internal::HttpTransfer& transfer);
  [[nodiscard]] internal::Easy blank_handle();
  void keep(internal::Easy easy);
  void count_end() {
    open_.fetch_sub(1, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] int longest_sleep() const;

  const HttpClientOptions options_;
  CURLM* const multi_;
  std::thread thread_;

  Mutex mutex_;
  std::vector<Order> orders_ COHORT_GUARDED_BY(mutex_);
  bool stopping_ COHORT_GUARDED_BY(mutex_) = false;

  // The thread's.
  std::deque<Transfer> waiting_;
  std::multiset<Time> waiting_limits_;
  std::unordered_map<internal::HttpTransfer*, Transfer> active_;
  std::vector<internal::Easy> spare_;
  Time next_silence_ = Time::max();  // No stream has been silent for too long before that.

  std::atomic<std::uint32_t> open_{0};  // Taken in and not ended.
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<std::uint32_t> in_flight_{0};
};

}  // namespace cohort

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// Collects the news of one change to a store, until it is committed.
///
/// Thread-safety: thread-compatible.
class NewsOfChange {
 public:
  void add_ready(const std::string& group, Duration next_in) {
    const auto [place, is_new] = (next_in > Duration::zero() ? later_ : now_).try_emplace(group, 1U, next_in);
    if (is_new) return;
    ++place->second.first;
    place->second.second = std::min(place->second.second, next_in);
  }
  void add_control() { news_.control = true; }
  void add_event(std::uint64_t sequence) { news_.last_event = std::max(news_.last_event, sequence); }
  void clear() { *this = NewsOfChange(); }

  /// What was collected; nothing is left.
  [[nodiscard]] StoreNews take() {
    for (auto* groups : {&now_, &later_}) {
      for (auto& [group, ready] : *groups) news_.ready.push_back({group, ready.first, ready.second});
    }
    StoreNews news = std::move(news_);
    clear();
    return news;
  }

 private:
  using Groups = std::unordered_map<std::string, std::pair<std::uint64_t, Duration>>;  // How many; in how long.

  StoreNews news_;
  Groups now_;
  Groups later_;
};

[[nodiscard]] inline bool is_empty(const StoreNews& news) {
  return news.ready.empty() && !news.control && news.last_event == 0 && !news.everything;
}

/// Who watches a store.
///
/// Thread-safety: thread-safe. The lock guards the list; watchers are called without it.
class Watchers {
 public:
  /// Until the returned object is dropped.
  [[nodiscard]] std::shared_ptr<void> add(StoreWatch watch) {
    auto watcher = std::make_shared<StoreWatch>(std::move(watch));
    MutexLock lock(mutex_);
    std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
    watchers_.push_back(watcher);
    return watcher;
  }
  void tell(const StoreNews& news) {
    if (is_empty(news)) return;
    std::vector<std::weak_ptr<StoreWatch>> watchers;
    {
      MutexLock lock(mutex_);
      watchers = watchers_;
    }
    for (const auto& each : watchers) {
      if (const auto watcher = each.lock()) (*watcher)(news);
    }
  }

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<StoreWatch>> watchers_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort

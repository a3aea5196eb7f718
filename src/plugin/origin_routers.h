#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "cohort/provider/router.h"

namespace cohort {

/// A circuit breaker for each place that tasks name, made when it is first called. Of more than `most` the one that has
/// not been called for longest is forgotten.
///
/// Thread-safety: thread-safe.
class OriginRouters {
 public:
  explicit OriginRouters(RouterOptions options, std::size_t most = 1000) : options_(std::move(options)), most_(most) {}

  [[nodiscard]] Result<std::shared_ptr<Router>> find(const std::string& origin) COHORT_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t size() COHORT_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::string origin;
    std::shared_ptr<Router> router;
  };

  const RouterOptions options_;
  const std::size_t most_;
  Mutex mutex_;
  std::list<Entry> entries_ COHORT_GUARDED_BY(mutex_);  // The last used first.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort

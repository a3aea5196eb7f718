#include "plugin/origin_routers.h"

#include <utility>
#include <vector>

#include "plugin/breaker_log.h"

namespace cohort {

Result<std::shared_ptr<Router>> OriginRouters::find(const std::string& origin) {
  MutexLock lock(mutex_);
  if (const auto found = places_.find(origin); found != places_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().router;
  }
  std::vector<ProviderOptions> one = {{.name = origin}};
  Result<std::shared_ptr<Router>> made = Router::make(one, options_);
  if (!made) return made.error();
  log_breakers(**made, "");
  entries_.push_front({origin, *std::move(made)});
  places_.emplace(entries_.front().origin, entries_.begin());
  if (entries_.size() > most_) {
    places_.erase(entries_.back().origin);
    entries_.pop_back();
  }
  return entries_.front().router;
}

std::size_t OriginRouters::size() {
  MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace cohort

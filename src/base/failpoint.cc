#include "cohort/base/failpoint.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"

namespace cohort {
namespace {

struct Entry {
  std::string name;
  Function<bool()> action;
};

struct Registry {
  Mutex mutex;
  std::vector<std::shared_ptr<Entry>> entries COHORT_GUARDED_BY(mutex);
};

Registry& registry() {
  static auto* instance = new Registry;  // Never freed: a place may be passed while statics are destroyed.
  return *instance;
}

}  // namespace

std::atomic<int> Failpoint::armed_{0};

Failpoint::Failpoint(std::string_view name, Function<bool()> action) {
  auto entry = std::make_shared<Entry>(Entry{std::string(name), std::move(action)});
  entry_ = entry.get();
  Registry& all = registry();
  MutexLock lock(all.mutex);
  all.entries.push_back(std::move(entry));
  armed_.fetch_add(1, std::memory_order_relaxed);
}

Failpoint::~Failpoint() {
  Registry& all = registry();
  MutexLock lock(all.mutex);
  armed_.fetch_sub(1, std::memory_order_relaxed);
  std::erase_if(all.entries, [this](const auto& entry) { return entry.get() == entry_; });
}

bool Failpoint::passes(std::string_view name) {
  std::shared_ptr<Entry> found;
  {
    Registry& all = registry();
    MutexLock lock(all.mutex);
    const auto entry = std::ranges::find_if(all.entries, [&](const auto& each) { return each->name == name; });
    if (entry != all.entries.end()) found = *entry;
  }
  return found != nullptr && found->action();
}

}  // namespace cohort

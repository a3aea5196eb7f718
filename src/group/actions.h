#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/task/internal/task_record.h"
#include "group/chore.h"

namespace cohort::internal {

/// What the scheduler wants its driver to do, with no lock held. Users' code is in it only where the event was a
/// caller's own call (see Chore); what it drops is memory.
struct Actions {
  Actions() = default;
  Actions(Actions&& other) noexcept { *this = std::move(other); }
  Actions& operator=(Actions&& other) noexcept {
    own.swap(other.own);
    let_go.swap(other.let_go);
    admit.swap(other.admit);
    forgotten.swap(other.forgotten);
    std::swap(wake, other.wake);
    at = other.at;
    return *this;
  }
  ~Actions() {
    for (TaskRecord* record : forgotten) record->drop_executors_reference(at);
    if (forgotten.capacity() == 0 || forgotten.capacity() > kMostSpare || Spare::is_gone) return;
    if (forgotten.capacity() <= spare.forgotten.capacity()) return;
    forgotten.clear();
    forgotten.swap(spare.forgotten);
  }

  std::vector<Chore> own;  ///< What the caller is to do himself, whose own call this was.
  int wake = 0;            ///< So many idle workers are to call take().
  // To be looked at before anything else, for they may not be there afterwards.
  std::vector<TaskRecord*> let_go;  ///< Unblock their threads without permits: they have run out of time.
  std::vector<TaskRecord*> admit;   ///< Unblock their submitters: they stand at the door no more.

  // Records that the scheduler no longer needs, and since when.
  Time at{};
  std::vector<TaskRecord*> forgotten;
  // Most turns end with something to forget: its memory is used again by the thread that forgets. A thread may use an
  // executor when its thread-local objects are destroyed, and the main thread may when static ones are: then it is
  // gone.
  static constexpr std::size_t kMostSpare = 256;
  struct Spare {
    ~Spare() { is_gone = true; }
    std::vector<TaskRecord*> forgotten;
    static inline thread_local constinit bool is_gone = false;
  };
  static inline thread_local Spare spare;

  /// Adds what another one asks for; its `wake` has been seen to.
  void append(Actions other) {
    own.insert(own.end(), other.own.begin(), other.own.end());
    other.own.clear();
    forgotten.insert(forgotten.end(), other.forgotten.begin(), other.forgotten.end());
    other.forgotten.clear();
    at = std::max(at, other.at);
  }

  [[nodiscard]] bool empty() const {
    return own.empty() && let_go.empty() && admit.empty() && wake == 0 && forgotten.empty();
  }
};

}  // namespace cohort::internal

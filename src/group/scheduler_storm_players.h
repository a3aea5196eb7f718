#pragma once

// What takes part in a storm, see scheduler_storm.h. Test code only.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"
#include "group/turn.h"

namespace cohort::internal {

inline std::string storm_key(int group) { return "g" + std::to_string(group); }

/// A body that is played, not run.
class StormTask final : public TaskRecord {
 public:
  enum class Step { kSpend, kSleep, kAwaitOne, kAwaitAll, kAwaitAny, kAwaitFor, kSubmitAndAwait, kSubmit };
  enum class Where { kOutside, kWaiting, kOnWorker, kAsleep, kParked, kLetGo, kGone };

  StormTask(int number, int group_number)
      : TaskRecord(storm_key(group_number), "t" + std::to_string(number)), in_group(group_number) {}
  bool run() override { return true; }
  [[nodiscard]] bool is_coroutine() const override { return !blocks; }

  int in_group;
  std::vector<Step> steps;
  std::size_t next_step = 0;
  bool blocks = false;  ///< Parks a thread instead of suspending.

  // The model.
  Where where = Where::kOutside;
  int settled = 0;
  bool started = false;
  bool own = false;
  bool was_awaited = false;
  bool stop_asked = false;
  bool run_by_caller = false;
  std::uint64_t order = 0;
  Ref<AwaitState> waits_for;
};

/// A worker, or a caller's thread.
struct StormWorker {
  enum State { kLooking, kIdle, kInTurn } state = kLooking;
  bool guest = false;  ///< A caller's thread, which takes only what it brings.
  Turn turn;
  StormTask* body = nullptr;
  StormTask* brought = nullptr;  ///< By a guest.
  Time busy_until{};
};
/// What the model knows of a group.
struct StormModel {
  std::uint32_t concurrency = 1;
  std::uint32_t still_out = 0;  ///< After shrinking: so many permits had been given out before.
  std::uint32_t in_flight = kUnlimited;
  bool paused = false;
  bool stopped = false;  ///< By a concurrency of 0.
  bool rated = false;
  bool serial = true;  ///< Never had a concurrency above 1: then starts are in order to the letter.
  std::array<std::uint64_t, kPriorityCount> last_started{};
};

}  // namespace cohort::internal

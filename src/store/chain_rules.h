#pragma once

// What may become of a durable task, as functions of its row and the time: no storage, no clock. Every store loads a
// row, asks here what becomes of it, and writes row and effects back in one transaction. So all stores agree.

#include <functional>
#include <string>
#include <vector>

#include "cohort/store/task_store.h"
#include "store/store_time.h"

namespace cohort::chain_rules {

/// What a transition leaves behind besides the row.
struct Effects {
  std::vector<ChainEvent> events;
  std::optional<DeadLetter> dead_letter;
  bool drops_dead_letter = false;
  std::vector<AttemptRecord> attempts;
  Duration held{};  ///< Everybody waited so long for a suspect that ran alone.
};

/// A row as submitted: ready, pending, or completed when it has no steps. `held` is what pauses of its group and
/// suspects have added up to so far.
[[nodiscard]] ChainTask make(NewTask request, std::uint64_t sequence, StoreTime now, Duration held, Effects& effects);

/// Whether nothing of it may be started any more, by what pauses have added up to by now.
[[nodiscard]] bool is_expired(const ChainTask& task, StoreTime now, Duration held);
void expire(ChainTask& task, StoreTime now, Effects& effects);
/// The start time of a delayed task is reached: a deadline given as a length counts from that time.
void reach_start(ChainTask& task, StoreTime now);

/// The message readies a pending row, or expires it.
[[nodiscard]] IntakeOutcome take_in(ChainTask& task, const TakenIn& message, StoreTime now, Duration held,
                                    Effects& effects);
/// Makes all texts of the message, but those of a task that it carries, texts that a store can keep. Every store calls
/// it first; a task is checked as one that is submitted.
void clean(TakenIn& message);
[[nodiscard]] ChainEvent refusal_of(const DeadLetter& letter, WallTime now);
/// A pending row becomes ready, or expires. kConflict: it is not pending.
[[nodiscard]] Result<void> ready(ChainTask& task, StoreTime now, Duration held, Effects& effects);
[[nodiscard]] DeadLetter letter_of(const TakenIn& message, const std::string& reason, WallTime now);

/// Whether this boot may claim it now. Not whether its plugin is wanted.
[[nodiscard]] bool is_claimable(const ChainTask& task, const std::string& boot, StoreTime now);
/// When is_claimable() turns true by time alone, from now; zero: it is due. At most a day, so that a sleeper looks
/// again.
[[nodiscard]] Duration time_until_due(const ChainTask& task, StoreTime now);
/// When the boot that keeps it may claim it; else as time_until_due().
[[nodiscard]] Duration time_until_due_for_owner(const ChainTask& task, StoreTime now);
/// Two boots died with this step running in their process, or the task was replayed as poison.
[[nodiscard]] bool is_suspect(const ChainTask& task, const ClaimRequest& request,
                              const std::function<bool(const std::string& boot)>& came_back);
void claim(ChainTask& task, const ClaimRequest& request, std::uint64_t epoch, bool suspect, StoreTime now);
/// kStale unless the claim is the current one.
[[nodiscard]] Result<ChainRow> write(ChainTask& task, const Claim& claim, std::uint64_t number,
                                     const RunnerWrite& write, StoreTime now, Duration held, Effects& effects);
/// Why a claim is taken from its owner.
enum class Death : std::uint8_t {
  kLeft,      ///< It gave up by itself.
  kPresumed,  ///< Its lease ran out: it may only have been cut off.
  kProven,    ///< Whoever says so knows.
};
/// Ready again; or poison, if it is proven that its node died while it ran alone.
void take_over(ChainTask& task, Death death, StoreTime now, Effects& effects);
/// Decides at a claim whether the task is poison, and then ends it: the boot that died while it ran the step alone has
/// not come back, or the step ran in a process of its own and `request.poison_after` boots died with it.
[[nodiscard]] bool convict(ChainTask& task, const ClaimRequest& request,
                           const std::function<bool(const std::string& boot)>& came_back, StoreTime now,
                           Effects& effects);

/// How long ago; zero for a time that is still to come, as in a damaged row.
[[nodiscard]] Duration time_since(WallTime since, WallTime now);
/// How long until then; at most a day, so that who waits for it looks again in between.
[[nodiscard]] Duration time_until(WallTime due, WallTime now);

[[nodiscard]] Result<ChainRow> cancel(ChainTask& task, const std::string& reason, StoreTime now, Effects& effects);
[[nodiscard]] Result<void> replay(ChainTask& task, const ReplayRequest& request, StoreTime now, Duration held,
                                  Effects& effects);

}  // namespace cohort::chain_rules

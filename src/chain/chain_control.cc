#include "chain/chain_control.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chain/store_call.h"
#include "cohort/base/log.h"

namespace cohort {

void ChainControl::begin(bool is_first_boot, Completion<void> done) {
  if (!is_first_boot) return take_pauses(std::move(done));
  take_sizes([this, hold = calls_.hold(), done = std::move(done)](Result<void> taken) mutable {
    if (!taken) return done(std::move(taken));
    take_pauses(std::move(done));
  });
}

// Pauses stand in the store, and what was cancelled has been. Only sizes still hold.
void ChainControl::take_sizes(Completion<void> done) {
  constexpr std::uint32_t kAtOnce = 1000;
  store_.commands(followed(), kAtOnce,
                  [this, hold = calls_.hold(), done = std::move(done)](Result<std::vector<Command>> commands) mutable {
                    if (!commands) return done(commands.error());
                    for (const Command& each : *commands) {
                      if (note_followed(each.sequence) && each.kind == CommandKind::kResizeGroup) apply_size(each);
                    }
                    if (commands->size() < kAtOnce) return done({});
                    take_sizes(std::move(done));
                  });
}

void ChainControl::take_pauses(Completion<void> done) {
  store_.paused_groups([this, hold = calls_.hold(), done = std::move(done)](auto paused) mutable {
    if (!paused) return done(paused.error());
    for (const std::string& group : *paused) static_cast<void>(executor_.pause_group(group));
    done({});
  });
}

bool ChainControl::note_followed(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  if (sequence <= followed_) return false;
  followed_ = sequence;
  return true;
}

void ChainControl::follow() {
  constexpr std::uint32_t kAtOnce = 100;
  store_.commands(followed(), kAtOnce, [this, hold = calls_.hold()](Result<std::vector<Command>> commands) {
    if (!commands) return callbacks_.look_again();
    for (const Command& each : *commands) {
      if (note_followed(each.sequence)) apply(each);
    }
    if (commands->size() == kAtOnce) follow();
  });
}

void ChainControl::apply(const Command& command) {
  switch (command.kind) {
    case CommandKind::kPauseGroup: static_cast<void>(executor_.pause_group(command.target)); return;
    case CommandKind::kResumeGroup: static_cast<void>(executor_.resume_group(command.target)); break;
    case CommandKind::kResizeGroup: apply_size(command); break;
    case CommandKind::kCancel:
      if (!callbacks_.has_run(command.target)) return;
      // The row decides: by now the task may have been cancelled, and replayed.
      store_.get(command.target, [this, hold = calls_.hold(), id = command.target](const Result<ChainTask>& row) {
        if (row && row->cancel_requested && row->state == ChainState::kProcessing) callbacks_.stop_run(id);
      });
      return;
  }
  callbacks_.wake(command.target);
}

void ChainControl::apply_size(const Command& command) {
  const auto json = nlohmann::json::parse(command.arguments, nullptr, false);
  if (!json.is_object()) return;
  GroupLimits limits;
  if (const auto at = json.find("max_concurrency"); at != json.end() && at->is_number_unsigned()) {
    limits.max_concurrency = at->get<std::uint32_t>();
  }
  if (const auto at = json.find("max_in_flight"); at != json.end() && at->is_number_unsigned()) {
    limits.max_in_flight = at->get<std::uint32_t>();
  }
  if (const auto at = json.find("weight"); at != json.end() && at->is_number()) limits.weight = at->get<double>();
  static_cast<void>(executor_.set_limits(command.target, limits));
}

// The node that was asked follows at once; the others when they hear of the command.
void ChainControl::put(Command command, Completion<void> done) {
  apply(command);
  store_.command(std::move(command), [done = std::move(done)](Result<std::uint64_t> put) mutable {
    done(put ? Result<void>() : Result<void>(put.error()));
  });
}

TaskHandle<void> ChainControl::set_paused(std::string group, bool paused) {
  return as_handle<void>(executor_, "pause", [&](Completion<void> done) {
    store_.pause_group(
        group, paused, [this, hold = calls_.hold(), group, paused, done = std::move(done)](Result<void> set) mutable {
          if (!set) return done(std::move(set));
          COHORT_LOG(kInfo, "chain", paused ? "the group is paused" : "the group goes on", {"group", group});
          put({.kind = paused ? CommandKind::kPauseGroup : CommandKind::kResumeGroup, .target = std::move(group)},
              std::move(done));
        });
  });
}

// Written whole, so that the last one of a group is all that a node which starts later needs.
TaskHandle<void> ChainControl::resize(std::string group, const GroupLimits& limits) {
  return as_handle<void>(executor_, "resize", [&](Completion<void> done) {
    const auto stats = executor_.group_stats(group);
    const ResolvedLimits before = stats ? stats->limits : executor_.resolve(group);
    const nlohmann::json whole = {
        {"max_concurrency", std::uint32_t{limits.max_concurrency.value_or(before.max_concurrency)}},
        {"max_in_flight", std::uint32_t{limits.max_in_flight.value_or(before.max_in_flight)}},
        {"weight", limits.weight.value_or(before.weight)}};
    const Command command{.kind = CommandKind::kResizeGroup, .target = group, .arguments = whole.dump()};
    store_.command(command,
                   [this, hold = calls_.hold(), command, done = std::move(done)](Result<std::uint64_t> put) mutable {
                     if (!put) return done(put.error());
                     COHORT_LOG(kInfo, "chain", "the limits of the group were changed", {"group", command.target},
                                {"limits", command.arguments});
                     apply(command);
                     done({});
                   });
  });
}

TaskHandle<ChainRow> ChainControl::cancel(std::string task_id, std::string reason) {
  return as_handle<ChainRow>(executor_, "cancel", [&](Completion<ChainRow> done) {
    store_.cancel(task_id, std::move(reason),
                  [this, hold = calls_.hold(), task_id, done = std::move(done)](Result<ChainRow> row) mutable {
                    if (!row || row->state != ChainState::kProcessing) return done(std::move(row));
                    callbacks_.stop_run(task_id);
                    store_.command({.kind = CommandKind::kCancel, .target = std::move(task_id)},
                                   [done = std::move(done), row = *std::move(row)](Result<std::uint64_t>) mutable {
                                     done(std::move(row));
                                   });
                  });
  });
}

}  // namespace cohort

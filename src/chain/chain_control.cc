#include "chain/chain_control.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chain/store_call.h"
#include "cohort/base/log.h"

namespace cohort {

namespace {

constexpr std::uint32_t kPage = 1000;

GroupLimits limits_from(const std::string& text) {
  GroupLimits limits;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return limits;
  if (const auto at = json.find("max_concurrency"); at != json.end() && at->is_number_unsigned()) {
    limits.max_concurrency = at->get<std::uint32_t>();
  }
  if (const auto at = json.find("max_in_flight"); at != json.end() && at->is_number_unsigned()) {
    limits.max_in_flight = at->get<std::uint32_t>();
  }
  if (const auto at = json.find("weight"); at != json.end() && at->is_number()) limits.weight = at->get<double>();
  return limits;
}

}  // namespace

// --- comparing

void ChainControl::compare(Completion<void> done) {
  RoundRef round;
  {
    MutexLock lock(mutex_);
    if (const RoundRef current = round_.lock()) return current->next.push_back(std::move(done));
    round = std::make_shared<Round>();
    round->waiting.push_back(std::move(done));
    round_ = round;
  }
  read_controls(round, "", {});
}

void ChainControl::read_controls(const RoundRef& round, std::string after, Controls found) {
  store_.controls(
      std::move(after), kPage,
      [this, hold = calls_.hold(), round, found = std::move(found)](Result<std::vector<GroupControl>> page) mutable {
        if (!page) return end_round(round, page.error());
        for (GroupControl& each : *page) {
          std::string group = each.group;
          found.insert_or_assign(std::move(group), std::move(each));
        }
        if (page->size() == kPage) {
          std::string last = found.rbegin()->first;
          return read_controls(round, std::move(last), std::move(found));
        }
        apply(std::move(found));
        read_claims(round);
      });
}

void ChainControl::read_claims(const RoundRef& round) {
  const std::string boot = callbacks_.boot();
  if (boot.empty()) return end_round(round, {});
  store_.claims_of(boot, [this, hold = calls_.hold(), round, boot](const Result<std::vector<HeldClaim>>& claims) {
    if (!claims) return end_round(round, claims.error());
    apply_claims(*claims, boot);
    end_round(round, {});
  });
}

void ChainControl::end_round(const RoundRef& round, const Result<void>& outcome) {
  std::vector<Completion<void>> ended;
  RoundRef next;
  {
    MutexLock lock(mutex_);
    ended = std::move(round->waiting);
    if (!round->next.empty()) {
      next = std::make_shared<Round>();
      next->waiting = std::move(round->next);
    }
    round_ = next;
  }
  if (!outcome) callbacks_.look_again();
  for (Completion<void>& each : ended) each(outcome);
  if (next) read_controls(next, "", {});
}

void ChainControl::apply(Controls wanted) {
  Controls before;
  {
    MutexLock lock(mutex_);
    before = std::exchange(applied_, wanted);
  }
  for (const auto& [group, control] : wanted) {
    const auto known = before.find(group);
    const GroupControl was = known != before.end() ? known->second : GroupControl{.group = group};
    if (control != was) apply(control, was);
  }
  for (const auto& [group, control] : before) {
    if (!wanted.contains(group)) apply(GroupControl{.group = group}, control);
  }
}

void ChainControl::apply(const GroupControl& wanted, const GroupControl& before) {
  if (wanted.limits.empty() && !before.limits.empty()) static_cast<void>(executor_.clear_limits(wanted.group));
  if (!wanted.limits.empty() && wanted.limits != before.limits) {
    static_cast<void>(executor_.set_limits(wanted.group, limits_from(wanted.limits)));
  }
  if (wanted.paused && !before.paused) static_cast<void>(executor_.pause_group(wanted.group));
  if (!wanted.paused && before.paused) static_cast<void>(executor_.resume_group(wanted.group));
  if (!wanted.paused) callbacks_.wake(wanted.group);
}

void ChainControl::apply_claims(const std::vector<HeldClaim>& claims, const std::string& boot) {
  std::set<std::pair<std::string, std::uint64_t>> ownerless;
  for (const HeldClaim& each : claims) {
    if (!callbacks_.has_run(each)) ownerless.emplace(each.task_id, each.epoch);
  }
  std::set<std::pair<std::string, std::uint64_t>> before;
  {
    MutexLock lock(mutex_);
    before = std::exchange(ownerless_, ownerless);
  }
  std::vector<const HeldClaim*> lost;
  for (const HeldClaim& each : claims) {
    const std::pair claim{each.task_id, each.epoch};
    if (ownerless.contains(claim) && before.contains(claim)) lost.push_back(&each);
  }
  for (const HeldClaim& each : claims) {
    if (each.cancel_requested) callbacks_.stop_run(each.task_id);
  }
  for (const HeldClaim* each : lost) give_back(*each, boot);
}

void ChainControl::give_back(const HeldClaim& claim, const std::string& boot) {
  COHORT_LOG(kWarning, "chain", "a claim that nothing here runs is given back", {"task", claim.task_id},
             {"node", boot});
  store_.write({claim.task_id, boot, claim.epoch}, claim.writes + 1, AttemptEnded{.failed = false, .give_back = true},
               [hold = calls_.hold()](const Result<ChainRow>&) {});
}

// --- what operators ask of this node

TaskHandle<void> ChainControl::set_paused(std::string group, bool paused) {
  return as_handle<void>(executor_, "pause", [&](Completion<void> done) {
    store_.pause_group(
        group, paused, [this, hold = calls_.hold(), group, paused, done = std::move(done)](Result<void> set) mutable {
          if (!set) return done(std::move(set));
          COHORT_LOG(kInfo, "chain", paused ? "the group is paused" : "the group goes on", {"group", group});
          compare(std::move(done));
        });
  });
}

// The limits are written whole, so a node needs nothing but the row.
TaskHandle<void> ChainControl::resize(std::string group, const GroupLimits& limits) {
  return as_handle<void>(executor_, "resize", [&](Completion<void> done) {
    const auto stats = executor_.group_stats(group);
    const ResolvedLimits before = stats ? stats->limits : executor_.resolve(group);
    const nlohmann::json whole = {
        {"max_concurrency", std::uint32_t{limits.max_concurrency.value_or(before.max_concurrency)}},
        {"max_in_flight", std::uint32_t{limits.max_in_flight.value_or(before.max_in_flight)}},
        {"weight", limits.weight.value_or(before.weight)}};
    store_.set_limits(
        group, whole.dump(),
        [this, hold = calls_.hold(), group, text = whole.dump(), done = std::move(done)](Result<void> set) mutable {
          if (!set) return done(std::move(set));
          COHORT_LOG(kInfo, "chain", "the limits of the group were changed", {"group", group}, {"limits", text});
          compare(std::move(done));
        });
  });
}

TaskHandle<ChainRow> ChainControl::cancel(std::string task_id, std::string reason) {
  return as_handle<ChainRow>(executor_, "cancel", [&](Completion<ChainRow> done) {
    store_.cancel(task_id, std::move(reason),
                  [this, hold = calls_.hold(), task_id, done = std::move(done)](Result<ChainRow> row) mutable {
                    if (row && row->state == ChainState::kProcessing) callbacks_.stop_run(task_id);
                    done(std::move(row));
                  });
  });
}

}  // namespace cohort

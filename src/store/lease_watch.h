#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/clock.h"

namespace cohort {

/// Decides which boots are dead on a store that nodes share.
///
/// The store's clock may jump, for example when another server takes over, and then all leases would end together. So
/// an observer counts renewals: a boot is dead if the observer saw the same count for a whole lease, and could renew
/// its own lease in that time. Time is the observer's own clock.
///
/// Thread-safety: thread-compatible.
class LeaseWatch {
 public:
  struct Lease {
    std::string boot;
    std::uint64_t renewals = 0;
    Duration length{};
  };

  /// The observer has joined, or renewed its lease.
  void note_renewal(const std::string& observer, Time now) { observers_[observer].renewed = now; }
  void forget(const std::string& observer) { observers_.erase(observer); }

  /// Gives the boots among `leases` that the observer now knows to be dead. `leases` are all that are not marked dead.
  [[nodiscard]] std::vector<std::string> dead(const std::string& observer, std::span<const Lease> leases, Time now) {
    Observer& own = observers_[observer];
    std::map<std::string, Seen> seen;
    std::vector<std::string> found;
    for (const Lease& each : leases) {
      if (each.boot == observer) continue;
      const auto before = own.seen.find(each.boot);
      const bool is_same = before != own.seen.end() && before->second.renewals == each.renewals;
      const Seen entry = is_same ? before->second : Seen{each.renewals, now};
      if (now - entry.since >= each.length && own.renewed > entry.since) found.push_back(each.boot);
      seen.emplace(each.boot, entry);
    }
    own.seen = std::move(seen);
    return found;
  }

 private:
  struct Seen {
    std::uint64_t renewals = 0;
    Time since{};  // When the count was seen first.
  };
  struct Observer {
    Time renewed{};
    std::map<std::string, Seen> seen;
  };

  std::map<std::string, Observer> observers_;
};

}  // namespace cohort

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/postgres/session.h"
#include "backend/postgres/task_columns.h"
#include "backend/task_text.h"
#include "cohort/store/task_store.h"
#include "store/chain_rules.h"
#include "store/store_time.h"
#include "store/watchers.h"

namespace cohort::postgres {

/// A row of `boots`.
struct BootRow {
  std::string boot;
  std::uint64_t renewals = 0;
  Duration lease{};
  bool is_dead = false;
  bool came_back = false;
  bool is_locked = false;  ///< This transaction has locked the row, so it stays as it is.
};

/// A row of `groups`.
struct GroupRow {
  std::optional<WallTime> paused_since = {};
  Duration paused_total{};
  std::string limits = {};
  std::uint64_t version = 0;
  std::int64_t format = 0;
};

/// The answer to the look for candidates of claims.
struct GroupLook {
  std::uint64_t ready = 0;                ///< Ready tasks, counted without locks, up to one more than were asked for.
  std::uint64_t taken = 0;                ///< Of these, by calls of this transaction.
  std::optional<WallTime> next_due = {};  ///< Of those that wait for a time.
};

/// What one transaction reads and writes. The calls of a batch say which rows they need; the rows are read together,
/// changed in memory, one call after the other, and what has changed is written together.
///
/// Order of locks: boots, groups, tasks by their sequence. Candidates of claims are taken with SKIP LOCKED, so a claim
/// waits for no other. A deadlock with a writer that locks in another order is repeated.
///
/// Thread-safety: confined to the loop's thread.
class Transaction {
 public:
  Transaction(std::int64_t format, Duration offset) : format_(format), offset_(offset) {}

  // --- what the calls need; before read_queries()
  void want_task(const std::string& id) { task_ids_.insert(id); }
  void want_existing(const NewTask& request);
  void want_existing_id(const std::string& id) { existing_ids_.insert(id); }
  void want_refused(const std::string& message_id) { message_ids_.insert(message_id); }
  void want_group(const std::string& group) { groups_wanted_.insert(group); }
  /// To change it.
  void want_group_locked(const std::string& group) { groups_locked_.insert(group); }
  /// `locked`: as a claim locks it, so that nobody can take the boot over meanwhile.
  void want_boot(const std::string& boot) { boots_wanted_.insert(boot); }
  /// `count`: how many candidates it looks at.
  void want_claim(const ClaimRequest& request, std::uint32_t count);
  /// Locks the row of a boot that gives up, or is dead, and `limit` of the tasks that it owns.
  void want_end_of(const std::string& boot) { ended_boots_.insert(boot); }
  /// Tasks whose owner is dead or not known.
  void want_ownerless(std::uint32_t limit) { ownerless_limit_ = std::max(ownerless_limit_, limit); }
  void want_letter(const std::string& task_id) { letter_ids_.insert(task_id); }
  void want_late_pending(std::uint32_t limit) { late_limit_ = std::max(late_limit_, limit); }

  [[nodiscard]] std::vector<Query> read_queries();
  void load(const std::vector<ResultRef>& results);
  /// What the loaded rows make necessary to read besides; empty: nothing.
  [[nodiscard]] std::vector<Query> more_queries();
  void load_more(const std::vector<ResultRef>& results);

  // --- the rows
  [[nodiscard]] StoreTime now() const { return {now_, now_}; }
  [[nodiscard]] std::int64_t format() const { return format_; }
  /// Null: there is no such task, or it cannot be read or changed by this program (see no_such_task()).
  [[nodiscard]] ChainTask* task(const std::string& id);
  [[nodiscard]] Error no_such_task(const std::string& id) const;
  struct Existing {
    std::string id;
    ChainState state;
    std::string hash;
    std::string group;
    std::string key;
  };
  [[nodiscard]] const Existing* existing_key(const std::string& group, const std::string& key) const;
  [[nodiscard]] const Existing* existing_id(const std::string& id) const;
  [[nodiscard]] bool was_refused(const std::string& message_id) const { return refused_.contains(message_id); }
  [[nodiscard]] bool has_letter(const std::string& task_id) const { return letters_there_.contains(task_id); }
  [[nodiscard]] const BootRow* boot(const std::string& boot) const;
  [[nodiscard]] bool came_back(const std::string& boot) const;
  [[nodiscard]] GroupRow& group(const std::string& group) { return groups_[group]; }
  /// How long pauses of the group and suspects have held its tasks so far.
  [[nodiscard]] Duration held(const std::string& group);
  [[nodiscard]] ChainTask* claimed_by(const std::string& claim_id);
  /// Candidates of the group that no call of this transaction has taken, in the order in which they are claimed.
  [[nodiscard]] std::vector<std::string>& candidates(const std::string& group, const std::string& without) {
    return candidates_[{group, without}];
  }
  [[nodiscard]] GroupLook& look(const std::string& group) { return looks_[group]; }
  [[nodiscard]] std::vector<std::string> owned_by(const std::string& boot) const;
  [[nodiscard]] std::vector<std::string> ownerless() const { return ownerless_; }
  [[nodiscard]] std::vector<std::string> late_pending() const { return late_pending_; }

  // --- what becomes of them
  void insert(ChainTask task, std::shared_ptr<const backend::PreparedTask> prepared, chain_rules::Effects& effects);
  /// Keeps a row after chain_rules have changed it. `body`: context and log have changed too.
  void save(ChainTask& task, bool body, chain_rules::Effects& effects);
  void put_letter(DeadLetter letter);
  void remove_letter(const std::string& task_id) { letters_removed_.insert(task_id); }
  void put_event(ChainEvent event) { events_.push_back(std::move(event)); }
  void put_refused(const std::string& message_id) {
    refused_.insert(message_id);
    refused_new_.insert(message_id);
  }
  void put_group(const std::string& group) { groups_changed_.insert(group); }
  void put_boot(const NodeLease& node, Duration lease);
  void mark_dead(const std::string& boot) { boots_dead_.insert(boot); }
  void mark_back(const std::string& boot) { boots_back_.insert(boot); }
  void put_number(const std::string& name, std::int64_t value) { numbers_set_[name] = value; }
  [[nodiscard]] NewsOfChange& news() { return news_; }
  [[nodiscard]] bool has_events() const { return !events_.empty(); }

  /// The statements that write all of it; empty: nothing has changed.
  [[nodiscard]] std::vector<Query> write_queries();
  /// Only reports were written, which may be lost: the commit need not wait for the disk.
  [[nodiscard]] bool is_unimportant() const { return only_reports_; }
  void note_important() { only_reports_ = false; }
  /// Rows that could not be read, for the log, once the transaction is committed.
  [[nodiscard]] const std::vector<std::pair<std::uint64_t, std::string>>& damaged() const { return damaged_; }

 private:
  struct Entry {
    ChainTask task;
    std::uint64_t epoch_before = 0;
    std::string owner_before;
    ChainState state_before{};
    bool is_new = false;
    bool is_changed = false;
    bool has_new_body = false;
    bool is_newer = false;
    bool is_damaged = false;
    bool may_have_old_body = false;
    std::shared_ptr<const backend::PreparedTask> prepared;  // Of a new one.
  };
  using Loader = void (Transaction::*)(const PGresult* result);

  void add(std::vector<Query>& queries, const Statement& statement, Parameters parameters, Loader loader);
  Entry* keep(const PGresult* result, int row);
  void poison(Entry& entry, const std::string& damage, std::string original);

  void load_now(const PGresult* result);
  void load_held(const PGresult* result);
  void load_boots(const PGresult* result);
  void load_locked_boots(const PGresult* result);
  void load_groups(const PGresult* result);
  void load_tasks(const PGresult* result);
  void load_existing(const PGresult* result);
  void load_bodies(const PGresult* result);
  void keep_existing(Existing found);
  void load_refused(const PGresult* result);
  void load_letters(const PGresult* result);
  void load_claimed(const PGresult* result);
  void load_candidates(const PGresult* result);
  void load_due(const PGresult* result);
  void load_looks(const PGresult* result);
  void load_ownerless(const PGresult* result);
  void load_late(const PGresult* result);
  void sort_candidates();
  void add_task_writes(std::vector<Query>& queries);
  void add_other_writes(std::vector<Query>& queries);

  const std::int64_t format_;
  const Duration offset_;  // Of the store's time, for tests.
  WallTime now_{};
  Duration held_{};
  bool only_reports_ = true;

  std::set<std::string> task_ids_;
  std::set<std::string> existing_ids_;
  std::set<std::pair<std::string, std::string>> existing_keys_;
  std::set<std::string> message_ids_;
  std::set<std::string> groups_wanted_;
  std::set<std::string> groups_locked_;
  std::set<std::string> boots_wanted_;
  std::set<std::string> boots_claiming_;
  std::set<std::string> ended_boots_;
  std::set<std::string> letter_ids_;
  std::set<std::string> claim_ids_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> claims_;  // By group and plugins to leave out.
  std::map<std::string, std::string> claim_boots_;                       // By group: a boot that claims there.
  std::uint32_t ownerless_limit_ = 0;
  std::uint32_t late_limit_ = 0;
  std::vector<Loader> loaders_;
  std::vector<Loader> more_loaders_;

  std::unordered_map<std::string, Entry> tasks_;        // By id. (References stay when others are added.)
  std::unordered_map<std::string, Existing> existing_;  // By id.
  std::map<std::pair<std::string, std::string>, std::string> existing_keys_there_;  // Ids, by group and key.
  std::set<std::string> refused_;
  std::set<std::string> letters_there_;
  std::map<std::string, BootRow> boots_;
  std::map<std::string, GroupRow> groups_;
  std::map<std::string, std::string> claimed_;  // Task ids, by claim id.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> candidates_;
  std::map<std::string, GroupLook> looks_;
  std::vector<std::string> ownerless_;
  std::vector<std::string> late_pending_;

  NewsOfChange news_;
  std::vector<std::string> new_order_;  // Ids of new tasks, as they came.
  std::vector<ChainEvent> events_;
  std::vector<std::pair<std::uint64_t, AttemptRecord>> attempts_;
  std::map<std::string, DeadLetter> letters_;
  std::set<std::string> letters_removed_;
  std::set<std::string> refused_new_;
  std::set<std::string> groups_changed_;
  std::vector<std::pair<NodeLease, Duration>> boots_new_;
  std::set<std::string> boots_dead_;
  std::set<std::string> boots_back_;
  std::map<std::string, std::int64_t> numbers_set_;
  Duration held_more_{};
  std::vector<std::pair<std::uint64_t, std::string>> damaged_;
  std::vector<std::uint64_t> damaged_bodies_;
};

}  // namespace cohort::postgres

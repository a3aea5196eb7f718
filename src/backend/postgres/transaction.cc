#include "backend/postgres/transaction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "backend/postgres/statements.h"

namespace cohort::postgres {

namespace {

Column texts(const std::set<std::string>& values) {
  Column column(Type::kText);
  for (const std::string& each : values) column.add(each);
  return column;
}

BootRow boot_in(Row row) {
  BootRow boot;
  boot.boot = row.text();
  boot.renewals = row.number();
  boot.lease = row.duration();
  boot.is_dead = row.flag();
  boot.came_back = row.flag();
  return boot;
}

}  // namespace

void Transaction::want_existing(const NewTask& request) {
  existing_ids_.insert(request.id);
  if (!request.idempotency_key.empty()) existing_keys_.insert({request.group, request.idempotency_key});
  groups_wanted_.insert(request.group);
}

void Transaction::want_claim(const ClaimRequest& request, std::uint32_t count) {
  claim_ids_.insert(request.id);
  boots_claiming_.insert(request.boot);
  groups_wanted_.insert(request.group);
  claims_[{request.group, backend::lines_text(request.without_plugins)}] += count;
  claim_boots_[request.group] = request.boot;
}

// --- reads

void Transaction::add(std::vector<Query>& queries, const Statement& statement, Parameters parameters, Loader loader) {
  queries.push_back({&statement, std::move(parameters)});
  loaders_.push_back(loader);
}

std::vector<Query> Transaction::read_queries() {
  std::vector<Query> queries;
  queries.push_back({&kBegin});
  loaders_ = {nullptr};
  const std::int64_t offset = std::chrono::duration_cast<std::chrono::microseconds>(offset_).count();
  add(queries, kNow, std::move(Parameters().add(offset)), &Transaction::load_now);
  if (!boots_claiming_.empty()) {
    add(queries, kBootsOfClaims,
        std::move(Parameters()
                      .add(texts(boots_claiming_))
                      .add([&] {
                        Column groups(Type::kText);
                        for (const auto& [group, boot] : claim_boots_) groups.add(group);
                        return groups;
                      }())
                      .add(format_)
                      .add(offset)),
        &Transaction::load_locked_boots);
  }
  if (!ended_boots_.empty()) {
    add(queries, kBootsForUpdate, std::move(Parameters().add(texts(ended_boots_))), &Transaction::load_locked_boots);
  }
  boots_wanted_.insert(boots_claiming_.begin(), boots_claiming_.end());
  if (!boots_wanted_.empty()) {
    add(queries, kBoots, std::move(Parameters().add(texts(boots_wanted_))), &Transaction::load_boots);
  }
  if (!groups_locked_.empty()) {
    add(queries, kMakeGroups, std::move(Parameters().add(texts(groups_locked_)).add(format_)), nullptr);
    add(queries, kGroupsForUpdate, std::move(Parameters().add(texts(groups_locked_))), &Transaction::load_groups);
  }
  add(queries, kHeld, {}, &Transaction::load_held);
  if (!existing_ids_.empty()) {
    Column groups(Type::kText);
    Column keys(Type::kText);
    for (const auto& [group, key] : existing_keys_) {
      groups.add(group);
      keys.add(key);
    }
    add(queries, kExisting, std::move(Parameters().add(texts(existing_ids_)).add(groups).add(keys)),
        &Transaction::load_existing);
  }
  if (!message_ids_.empty()) {
    add(queries, kRefused, std::move(Parameters().add(texts(message_ids_))), &Transaction::load_refused);
  }
  if (!letter_ids_.empty()) {
    add(queries, kLettersThere, std::move(Parameters().add(texts(letter_ids_)).add(format_)),
        &Transaction::load_letters);
  }
  if (!task_ids_.empty()) {
    add(queries, kLockTasks, std::move(Parameters().add(texts(task_ids_))), nullptr);
    add(queries, kTasksForUpdate, std::move(Parameters().add(texts(task_ids_))), &Transaction::load_tasks);
    add(queries, kGroupsOfTasks, std::move(Parameters().add(texts(task_ids_))), &Transaction::load_groups);
  }
  if (!ended_boots_.empty()) {
    add(queries, kLockTasksOfBoots, std::move(Parameters().add(texts(ended_boots_)).add(format_)), nullptr);
    add(queries, kTasksOfBoots, std::move(Parameters().add(texts(ended_boots_)).add(format_)),
        &Transaction::load_tasks);
  }
  if (ownerless_limit_ != 0) {
    add(queries, kOwnerless, std::move(Parameters().add(format_).add(std::uint64_t{ownerless_limit_})),
        &Transaction::load_ownerless);
  }
  if (late_limit_ != 0) {
    add(queries, kLatePending, std::move(Parameters().add(format_).add(std::uint64_t{late_limit_}).add(offset)),
        &Transaction::load_late);
  }
  if (!claim_ids_.empty()) {
    add(queries, kClaimed, std::move(Parameters().add(texts(claim_ids_))), &Transaction::load_claimed);
    Column groups(Type::kText);
    Column without(Type::kText);
    Column counts(Type::kInteger);
    Column boots(Type::kText);
    for (const auto& [of, count] : claims_) {
      groups.add(of.first);
      without.add(of.second);
      counts.add(count);
      boots.add(claim_boots_.at(of.first));
      groups_wanted_.insert(of.first);
    }
    add(queries, kDue, std::move(Parameters().add(groups).add(without).add(boots).add(format_).add(offset)),
        &Transaction::load_due);
    add(queries, kCandidates, std::move(Parameters().add(groups).add(without).add(counts).add(format_)),
        &Transaction::load_candidates);
    add(queries, kLooks, std::move(Parameters().add(groups).add(without).add(counts).add(format_).add(offset)),
        &Transaction::load_looks);
  }
  if (!groups_wanted_.empty()) {
    add(queries, kGroups, std::move(Parameters().add(texts(groups_wanted_))), &Transaction::load_groups);
  }
  return queries;
}

void Transaction::load(const std::vector<ResultRef>& results) {
  for (std::size_t i = 0; i < results.size() && i < loaders_.size(); ++i) {
    if (loaders_[i] != nullptr) (this->*loaders_[i])(results[i].get());
  }
  sort_candidates();
}

// By priority and age; but what the claiming boot has kept goes first.
void Transaction::sort_candidates() {
  for (auto& [of, ids] : candidates_) {
    const std::string& boot = claim_boots_[of.first];
    std::ranges::stable_sort(ids, {}, [&](const std::string& id) {
      const ChainTask& task = tasks_.at(id).task;
      const bool is_kept = task.kept_until && task.owner == boot;
      return std::tuple(!is_kept, task.request.priority, task.sequence);
    });
  }
}

// What the rows that were read make necessary: the boots that tasks have crashed with; and the bodies of tasks that
// were locked by the statement that read them, and may have changed while that began.
std::vector<Query> Transaction::more_queries() {
  std::set<std::string> boots;
  for (const auto& [id, entry] : tasks_) {
    for (const std::string& each : entry.task.crashes) boots.insert(each);
    if (!entry.task.died_alone_with.empty()) boots.insert(entry.task.died_alone_with);
  }
  for (const auto& [name, boot] : boots_) boots.erase(name);
  Column bodies(Type::kInteger);
  for (const auto& [id, entry] : tasks_) {
    if (entry.may_have_old_body && entry.epoch_before > 0) bodies.add(entry.task.sequence);
  }
  std::vector<Query> queries;
  more_loaders_.clear();
  if (bodies.size() != 0) {
    queries.push_back({&kBodies, std::move(Parameters().add(bodies))});
    more_loaders_.push_back(&Transaction::load_bodies);
  }
  if (!boots.empty()) {
    queries.push_back({&kBoots, std::move(Parameters().add(texts(boots)))});
    more_loaders_.push_back(&Transaction::load_boots);
  }
  return queries;
}

void Transaction::load_more(const std::vector<ResultRef>& results) {
  for (std::size_t i = 0; i < results.size() && i < more_loaders_.size(); ++i) {
    (this->*more_loaders_[i])(results[i].get());
  }
}

void Transaction::load_bodies(const PGresult* result) {
  std::unordered_map<std::uint64_t, Entry*> by_sequence;
  for (auto& [id, entry] : tasks_) by_sequence[entry.task.sequence] = &entry;
  for (int i = 0; i < PQntuples(result); ++i) {
    Row row(result, i);
    Entry& entry = *by_sequence.at(row.number());
    entry.task.context = row.text();
    try {
      entry.task.log = backend::read_lines(row.text());
    } catch (const backend::Damaged& damage) {
      poison(entry, damage.what(), "");
    }
  }
}

void Transaction::load_now(const PGresult* result) { now_ = Row(result, 0).time(); }

void Transaction::load_held(const PGresult* result) {
  if (PQntuples(result) != 0) held_ = Row(result, 0).duration();
}

void Transaction::load_boots(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    BootRow boot = boot_in(Row(result, i));
    std::string name = boot.boot;
    boots_.try_emplace(std::move(name), std::move(boot));
  }
}

void Transaction::load_locked_boots(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    BootRow boot = boot_in(Row(result, i));
    boot.is_locked = true;
    std::string name = boot.boot;
    boots_.insert_or_assign(std::move(name), std::move(boot));
  }
}

void Transaction::load_groups(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    Row row(result, i);
    std::string name = row.text();
    GroupRow group;
    group.paused_since = row.time_or_null();
    group.paused_total = row.duration();
    group.limits = row.text();
    group.version = row.number();
    group.format = row.integer();
    groups_.try_emplace(std::move(name), std::move(group));
  }
}

auto Transaction::keep(const PGresult* result, int number) -> Entry* {
  Row row(result, number);
  TaskRow read = read_task(row, format_);
  if (read.is_newer) {
    Row again(result, number);
    again.skip();
    again.skip();
    const std::string id = again.text();
    Entry& entry = tasks_[id];
    entry.is_newer = true;
    return nullptr;
  }
  const std::string id = read.task.id();
  const auto [place, is_new] = tasks_.try_emplace(id);
  Entry& entry = place->second;
  if (!is_new) return &entry;
  entry.task = std::move(read.task);
  entry.epoch_before = entry.task.epoch;
  entry.owner_before = entry.task.owner;
  entry.state_before = entry.task.state;
  if (read.damage.empty()) return &entry;
  nlohmann::json raw = nlohmann::json::object();
  for (int column = 0; column < PQnfields(result); ++column) {
    if (PQgetisnull(result, number, column) != 0 || PQftype(result, column) != static_cast<Oid>(Type::kText)) continue;
    raw[PQfname(result, column)] = PQgetvalue(result, number, column);
  }
  poison(entry, read.damage, raw.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return nullptr;
}

// A row that cannot be read ends its own task and no other.
void Transaction::poison(Entry& entry, const std::string& damage, std::string original) {
  ChainTask bare;
  bare.request.id = entry.task.id();
  bare.request.group = entry.task.request.group;
  bare.sequence = entry.task.sequence;
  bare.state = ChainState::kPoison;
  bare.epoch = entry.epoch_before + 1;
  bare.created_at = bare.deadline_at = now_;
  bare.ended_at = now_;
  bare.error = "its row cannot be read: " + damage;
  entry.task = bare;
  entry.is_changed = entry.is_damaged = true;
  only_reports_ = false;
  damaged_.emplace_back(bare.sequence, damage);
  damaged_bodies_.push_back(bare.sequence);
  put_letter({.task_id = bare.id(),
              .group = bare.request.group,
              .state = ChainState::kPoison,
              .reason = bare.error,
              .failed_at = now_,
              .original = std::move(original)});
  put_event({.at = now_,
             .kind = EventKind::kPoison,
             .task_id = bare.id(),
             .group = bare.request.group,
             .detail = bare.error});
}

void Transaction::load_tasks(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) static_cast<void>(keep(result, i));
}

void Transaction::load_existing(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    Row row(result, i);
    Existing found;
    found.id = row.text();
    found.state = static_cast<ChainState>(row.integer());
    found.hash = row.text();
    found.group = row.text();
    found.key = row.text_or_null();
    if (found.hash.empty()) {  // A row of cohort.submit(): the hash is made of what was asked for.
      NewTask request{.id = found.id, .group = found.group};
      request.priority = static_cast<Priority>(row.integer());
      try {
        request.tags = backend::read_lines(row.text());
        backend::read_request(row.text(), request);
        request.payload = row.text();
        found.hash = request_hash(request);
      } catch (const backend::Damaged&) {
        found.hash.assign(1, '-');
      }
    }
    keep_existing(std::move(found));
  }
}

void Transaction::keep_existing(Existing found) {
  if (!found.key.empty()) existing_keys_there_.insert_or_assign({found.group, found.key}, found.id);
  std::string id = found.id;
  existing_.insert_or_assign(std::move(id), std::move(found));
}

void Transaction::load_refused(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) refused_.insert(Row(result, i).text());
}

void Transaction::load_letters(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) letters_there_.insert(Row(result, i).text());
}

void Transaction::load_claimed(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    if (const Entry* const entry = keep(result, i)) claimed_[entry->task.claim_id] = entry->task.id();
  }
}

// The columns behind those of a task: the group of the claim, and the plugins it leaves out.
void Transaction::load_candidates(const PGresult* result) {
  const int columns = PQnfields(result);
  for (int i = 0; i < PQntuples(result); ++i) {
    const std::string without(PQgetvalue(result, i, columns - 1));
    Entry* const entry = keep(result, i);
    if (entry == nullptr || entry->task.state != ChainState::kReady) continue;
    entry->may_have_old_body = true;
    candidates_[{entry->task.request.group, without}].push_back(entry->task.id());
  }
}

// Tasks whose time has come. Those that this boot keeps go first; the others are put among the ready ones.
void Transaction::load_due(const PGresult* result) {
  const int columns = PQnfields(result);
  for (int i = 0; i < PQntuples(result); ++i) {
    const std::string without(PQgetvalue(result, i, columns - 2));
    const std::string boot(PQgetvalue(result, i, columns - 1));
    Entry* const entry = keep(result, i);
    if (entry == nullptr || entry->task.state != ChainState::kReady) continue;
    entry->may_have_old_body = true;
    ChainTask& task = entry->task;
    std::vector<std::string>& candidates = candidates_[{task.request.group, without}];
    if (std::ranges::find(candidates, task.id()) != candidates.end()) continue;
    if (task.kept_until && task.owner == boot) {
      candidates.push_back(task.id());
      continue;
    }
    chain_rules::reach_start(task, now());
    task.due_at.reset();
    task.due_after.reset();
    task.kept_until.reset();
    task.owner.clear();
    entry->is_changed = true;
    only_reports_ = false;
    candidates.push_back(task.id());
  }
}

void Transaction::load_looks(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    Row row(result, i);
    const std::string group = row.text();
    GroupLook& look = looks_[group];
    look.ready = std::max(look.ready, row.number());
    look.next_due = row.time_or_null();
  }
}

void Transaction::load_ownerless(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    Entry* const entry = keep(result, i);
    if (entry == nullptr) continue;
    entry->may_have_old_body = true;
    ownerless_.push_back(entry->task.id());
  }
}

void Transaction::load_late(const PGresult* result) {
  for (int i = 0; i < PQntuples(result); ++i) {
    if (const Entry* const entry = keep(result, i)) late_pending_.push_back(entry->task.id());
  }
}

}  // namespace cohort::postgres

// Part of Transaction: the statements that write what has changed.

#include "backend/postgres/statements.h"
#include "backend/postgres/transaction.h"

namespace cohort::postgres {

namespace {

std::vector<Column> columns_for(bool all) {
  std::vector<Column> columns;
  for (const TaskColumn& each : task_columns()) {
    if (all || each.changes) columns.emplace_back(each.type);
  }
  return columns;
}

void add_values(std::vector<Column>& columns, const ChainTask& task, bool all) {
  std::size_t i = 0;
  for (const TaskColumn& each : task_columns()) {
    if (all || each.changes) each.write(columns[i++], task);
  }
}

}  // namespace

std::vector<Query> Transaction::write_queries() {
  std::vector<Query> queries;
  if (!boots_new_.empty()) {
    Column boots(Type::kText);
    Column nodes(Type::kText);
    Column addresses(Type::kText);
    Column leases(Type::kInteger);
    for (const auto& [node, lease] : boots_new_) {
      boots.add(node.boot);
      nodes.add(node.node);
      addresses.add(node.address);
      leases.add(lease);
    }
    queries.push_back(
        {&kInsertBoots, std::move(Parameters().add(boots).add(nodes).add(addresses).add(leases).add(now_))});
  }
  const auto add_boots = [&](const Statement& statement, const std::set<std::string>& boots, bool with_time) {
    if (boots.empty()) return;
    Column names(Type::kText);
    for (const std::string& each : boots) names.add(each);
    Parameters parameters;
    parameters.add(names);
    if (with_time) parameters.add(now_);
    queries.push_back({&statement, std::move(parameters)});
  };
  add_boots(kMarkDead, boots_dead_, true);
  add_boots(kMarkBack, boots_back_, false);
  add_task_writes(queries);
  add_other_writes(queries);
  return queries;
}

void Transaction::add_task_writes(std::vector<Query>& queries) {
  if (!new_order_.empty()) {
    std::vector<Column> columns = columns_for(true);
    std::vector<Column> texts(6, Column(Type::kText));  // Hash, outline, request, payload, context, log.
    for (const std::string& id : new_order_) {
      const Entry& entry = tasks_.at(id);
      add_values(columns, entry.task, true);
      texts[0].add(entry.prepared->hash);
      texts[1].add(entry.prepared->outline);
      texts[2].add(entry.prepared->text);
      texts[3].add(entry.task.request.payload);
      texts[4].add(entry.task.context);
      texts[5].add(backend::lines_text(entry.task.log));
    }
    Parameters parameters;
    for (const Column& each : columns) parameters.add(each);
    for (const Column& each : texts) parameters.add(each);
    parameters.add(format_);
    queries.push_back({&kInsertTasks, std::move(parameters)});
  }
  std::map<std::uint64_t, const Entry*> changed;  // By sequence: rows are written in the order of their locks.
  for (const auto& [id, entry] : tasks_) {
    if (entry.is_changed && !entry.is_new) changed.emplace(entry.task.sequence, &entry);
  }
  if (changed.empty()) return;
  Column sequences(Type::kInteger);
  Column epochs(Type::kInteger);
  Column owners(Type::kText);
  std::vector<Column> columns = columns_for(false);
  Column bodies(Type::kInteger);
  Column contexts(Type::kText);
  Column logs(Type::kText);
  for (const auto& [sequence, entry] : changed) {
    sequences.add(sequence);
    epochs.add(entry->epoch_before);
    owners.add_text_or_null(entry->owner_before);
    add_values(columns, entry->task, false);
    if (!entry->has_new_body) continue;
    bodies.add(sequence);
    contexts.add(entry->task.context);
    logs.add(backend::lines_text(entry->task.log));
  }
  Parameters parameters;
  parameters.add(sequences).add(epochs).add(owners);
  for (const Column& each : columns) parameters.add(each);
  parameters.add(format_);
  queries.push_back({&kUpdateTasks, std::move(parameters)});
  if (bodies.size() != 0) {
    queries.push_back({&kUpdateBodies, std::move(Parameters().add(bodies).add(contexts).add(logs))});
  }
  if (damaged_bodies_.empty()) return;
  Column damaged(Type::kInteger);
  for (const std::uint64_t each : damaged_bodies_) damaged.add(each);
  queries.push_back({&kPoisonBodies, std::move(Parameters().add(damaged).add(backend::kTextOfDamaged))});
}

void Transaction::add_other_writes(std::vector<Query>& queries) {
  if (!attempts_.empty()) {
    std::vector<Column> columns;
    for (const Type type : {Type::kInteger, Type::kInteger, Type::kInteger, Type::kInteger, Type::kText, Type::kText,
                            Type::kInteger, Type::kInteger, Type::kText, Type::kText, Type::kText}) {
      columns.emplace_back(type);
    }
    Column trimmed(Type::kInteger);
    Column up_to(Type::kInteger);
    for (const auto& [sequence, each] : attempts_) {
      columns[0].add(sequence);
      columns[1].add(each.number);
      columns[2].add(each.step);
      columns[3].add(each.attempt);
      columns[4].add(each.plugin);
      columns[5].add(each.node);
      columns[6].add(each.began_at);
      columns[7].add(each.ended_at);
      columns[8].add(each.outcome);
      columns[9].add(each.error);
      columns[10].add(backend::lines_text(each.log));
      if (each.number <= kMaxAttempts) continue;
      trimmed.add(sequence);
      up_to.add(each.number - kMaxAttempts);
    }
    Parameters parameters;
    for (const Column& each : columns) parameters.add(each);
    parameters.add(format_);
    queries.push_back({&kInsertAttempts, std::move(parameters)});
    if (trimmed.size() != 0) queries.push_back({&kTrimAttempts, std::move(Parameters().add(trimmed).add(up_to))});
  }
  if (!letters_removed_.empty()) {
    Column ids(Type::kText);
    for (const std::string& each : letters_removed_) ids.add(each);
    queries.push_back({&kRemoveLetters, std::move(Parameters().add(ids).add(format_))});
  }
  if (!letters_.empty()) {
    std::vector<Column> columns;
    for (const Type type :
         {Type::kText, Type::kText, Type::kText, Type::kInteger, Type::kText, Type::kText, Type::kInteger,
          Type::kInteger, Type::kInteger, Type::kText, Type::kReal, Type::kText, Type::kText}) {
      columns.emplace_back(type);
    }
    for (const auto& [id, letter] : letters_) {
      columns[0].add(id);
      columns[1].add(letter.group);
      columns[2].add(letter.message_id);
      columns[3].add(static_cast<std::int64_t>(letter.state));
      columns[4].add(letter.reason);
      columns[5].add(letter.plugin);
      columns[6].add(letter.step);
      columns[7].add(letter.attempts);
      columns[8].add(letter.failed_at);
      columns[9].add(letter.node);
      columns[10].add(letter.progress);
      columns[11].add(backend::lines_text(letter.log));
      columns[12].add(letter.original);
    }
    Parameters parameters;
    for (const Column& each : columns) parameters.add(each);
    parameters.add(format_);
    queries.push_back({&kInsertLetters, std::move(parameters)});
  }
  if (!events_.empty()) {
    std::vector<Column> columns;
    for (const Type type :
         {Type::kInteger, Type::kText, Type::kText, Type::kText, Type::kInteger, Type::kText, Type::kInteger}) {
      columns.emplace_back(type);
    }
    for (const ChainEvent& each : events_) {
      columns[0].add(each.at);
      columns[1].add(to_string(each.kind));
      columns[2].add(each.task_id);
      columns[3].add(each.group);
      columns[4].add(each.step);
      columns[5].add(each.detail);
      columns[6].add(each.ordinal);
    }
    Parameters parameters;
    for (const Column& each : columns) parameters.add(each);
    parameters.add(format_);
    queries.push_back({&kInsertEvents, std::move(parameters)});
  }
  if (!refused_new_.empty()) {
    Column ids(Type::kText);
    for (const std::string& each : refused_new_) ids.add(each);
    queries.push_back({&kInsertRefused, std::move(Parameters().add(ids).add(now_))});
  }
  if (!groups_changed_.empty()) {
    Column names(Type::kText);
    Column since(Type::kInteger);
    Column totals(Type::kInteger);
    Column limits(Type::kText);
    Column versions(Type::kInteger);
    for (const std::string& each : groups_changed_) {
      const GroupRow& group = groups_.at(each);
      names.add(each);
      since.add(group.paused_since);
      totals.add(group.paused_total);
      limits.add(group.limits);
      versions.add(group.version);
    }
    queries.push_back(
        {&kPutGroups,
         std::move(Parameters().add(names).add(since).add(totals).add(limits).add(versions).add(format_))});
  }
  if (!numbers_set_.empty()) {
    Column names(Type::kText);
    Column values(Type::kInteger);
    for (const auto& [name, value] : numbers_set_) {
      names.add(name);
      values.add(value);
    }
    queries.push_back({&kPutNumbers, std::move(Parameters().add(names).add(values))});
  }
  if (held_more_ > Duration::zero()) {
    queries.push_back({&kAddHeld, std::move(Parameters().add(std::int64_t{held_more_.count()}))});
  }
}

}  // namespace cohort::postgres

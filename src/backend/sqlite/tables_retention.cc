// Part of Tables: what is forgotten, in small steps.

#include <algorithm>

#include "backend/sqlite/schema.h"
#include "backend/sqlite/tables.h"

namespace cohort::sqlite {

void Tables::expire_pending(std::uint32_t limit) {
  const StoreTime time = now();
  std::vector<std::int64_t> late;
  {
    StatementLease rows = database_.prepare(
        "SELECT seq FROM tasks WHERE state = 0 AND deadline_at <= ? AND format <= ? AND NOT EXISTS (SELECT 1 FROM "
        "groups g WHERE "
        "g.grp = tasks.grp AND typeof(g.paused_since) = 'integer') ORDER BY deadline_at LIMIT ?");
    rows->bind(std::max(time.wall, time.steady)).bind(row_format()).bind(limit);
    while (rows->step()) late.push_back(rows->integer(0));
  }
  for (const std::int64_t seq : late) {
    std::optional<ChainTask> task = read(static_cast<std::uint64_t>(seq));
    if (!task) continue;
    LoadedTask loaded(*std::move(task));
    if (!chain_rules::is_expired(loaded.task, time, held(loaded.task.request.group))) continue;
    chain_rules::Effects effects;
    chain_rules::expire(loaded.task, time, effects);
    save(loaded, false, effects);
  }
}

std::uint64_t Tables::remove_ended(Duration older_than, std::uint32_t limit) {
  const WallTime before = now().wall - std::chrono::duration_cast<std::chrono::microseconds>(older_than);
  struct Ended {
    std::uint64_t sequence;
    std::string id;
    ChainState state;
    std::string group;
  };
  std::vector<Ended> ended;
  {
    StatementLease rows = database_.prepare(
        "SELECT seq, id, state, grp FROM tasks WHERE ended_at IS NOT NULL AND ended_at <= ? AND state BETWEEN 3 AND 7 "
        "AND format <= ? ORDER BY ended_at LIMIT ?");
    rows->bind(before).bind(row_format()).bind(limit);
    while (rows->step()) {
      ended.push_back({static_cast<std::uint64_t>(rows->integer(0)), rows->text(1),
                       static_cast<ChainState>(rows->integer(2)), rows->text(3)});
    }
  }
  for (const Ended& each : ended) rows_.remove(each.sequence, each.id, each.state, each.group);
  database_
      .prepare(
          "DELETE FROM events WHERE format <= ?4 AND (at <= ?1 OR typeof(at) <> 'integer' OR at > ?3) AND seq < "
          "(SELECT "
          "coalesce(min(seq), 0) FROM events) + ?2 AND seq <= coalesce((SELECT value FROM numbers WHERE name = "
          "'cursor:relay' AND typeof(value) = 'integer'), 1 << 62)")
      ->bind(before)
      .bind(limit)
      .bind(saturating_add(now().wall, std::chrono::hours(24)))
      .bind(row_format())
      .run();
  const auto events = static_cast<std::uint64_t>(database_.changes());
  for (const char* sql :
       {"DELETE FROM refused_messages WHERE message_id IN (SELECT message_id FROM refused_messages WHERE at <= ?1 "
        "LIMIT "
        "?2)",
        "DELETE FROM boots WHERE boot IN (SELECT boot FROM boots WHERE dead = 1 AND lease_until <= ?1 LIMIT ?2)"}) {
    StatementLease row = database_.prepare(sql);
    row->bind(before).bind(limit).run();
  }
  boots_.clear();
  database_.prepare("DELETE FROM counts WHERE n = 0 AND grp <> ''")->run();
  std::vector<std::string> orphans;
  {
    StatementLease rows = database_.prepare(
        "SELECT d.task_id FROM (SELECT task_id FROM dead_letters INDEXED BY dead_letters_failed WHERE failed_at <= ? "
        "AND format <= ? ORDER BY failed_at LIMIT ?) d WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = "
        "d.task_id)");
    rows->bind(before).bind(row_format()).bind(limit);
    while (rows->step()) orphans.push_back(rows->text(0));
  }
  for (const std::string& id : orphans) rows_.remove_letter(id);
  expire_pending(limit);
  return std::max<std::uint64_t>(ended.size(), events);
}

}  // namespace cohort::sqlite

#include "backend/sqlite/tables.h"

namespace cohort::sqlite {

Result<ChainRow> Tables::cancel(const std::string& id, const std::string& reason) {
  LoadedTask* const loaded = find(id);
  if (loaded == nullptr) return no_such_task(id);
  chain_rules::Effects effects;
  Result<ChainRow> answer = chain_rules::cancel(loaded->task, reason, now(), effects);
  if (!answer) return answer;
  if (answer->state == ChainState::kProcessing) rows_.news().add_control();
  save(*loaded, false, effects);
  return answer;
}

Result<ChainTask> Tables::ready(const std::string& id) {
  LoadedTask* const loaded = find(id);
  if (loaded == nullptr) return no_such_task(id);
  chain_rules::Effects effects;
  const Result<void> good = chain_rules::ready(loaded->task, now(), held(loaded->task.request.group), effects);
  if (!good) return good.error();
  ChainTask copy = loaded->task;
  save(*loaded, false, effects);
  return copy;
}

Result<ChainTask> Tables::replay(const ReplayRequest& request) {
  LoadedTask* const loaded = find(request.task_id);
  if (loaded == nullptr) return no_such_task(request.task_id);
  chain_rules::Effects effects;
  const Result<void> good =
      chain_rules::replay(loaded->task, request, now(), held(loaded->task.request.group), effects);
  if (!good) return good.error();
  ChainTask copy = loaded->task;
  save(*loaded, false, effects);
  return copy;
}

Result<void> Tables::discard_dead_letter(const std::string& id) {
  if (!rows_.remove_letter(id)) return Error{ErrorCode::kNotFound, "task '" + id + "' has no dead letter"};
  return {};
}

}  // namespace cohort::sqlite

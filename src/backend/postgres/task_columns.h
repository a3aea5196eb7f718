#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/postgres/wire.h"
#include "backend/task_text.h"
#include "cohort/base/result.h"
#include "cohort/store/chain_task.h"

namespace cohort::postgres {

/// A column of `tasks`, and the member that it keeps. Statements that read, insert and update tasks are made of the
/// list of columns.
struct TaskColumn {
  const char* name;
  Type type;
  void (*write)(Column& column, const ChainTask& task);
  void (*read)(Row& row, ChainTask& task);
  bool changes = true;    ///< False: it stays as it was inserted.
  const char* cast = "";  ///< From the array's type to the column's.
};

[[nodiscard]] std::span<const TaskColumn> task_columns();

/// "t.seq, t.format, t.id, …": what read_task() reads. `with_payload`: claims and readers need it, writes do not.
[[nodiscard]] std::string task_columns_sql(bool with_payload);
/// The same without texts that lists do not show.
[[nodiscard]] std::string summary_columns_sql();

/// What `read` gives, or kInternal if a row cannot be read.
template <class Read>
auto guarded(Read&& read) -> decltype(read()) {
  try {
    return read();
  } catch (const backend::Damaged& damage) {
    return Error{ErrorCode::kInternal, std::string("a row of the PostgreSQL store cannot be read: ") + damage.what()};
  }
}

struct TaskRow {
  std::uint64_t sequence = 0;
  bool is_newer = false;    ///< A newer program wrote the row; `task` has id and group only.
  std::string damage = {};  ///< Not empty: what cannot be read.
  ChainTask task = {};
};
/// `format` is the newest that this program reads.
[[nodiscard]] TaskRow read_task(Row& row, std::int64_t format);

}  // namespace cohort::postgres

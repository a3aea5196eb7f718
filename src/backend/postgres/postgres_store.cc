#include "cohort/backend/postgres/postgres_store.h"

#include <charconv>
#include <map>
#include <utility>

#include "backend/postgres/postgres_store_impl.h"

namespace cohort {

using postgres::ChangeRef;
using postgres::ResultRef;

PostgresStore::PostgresStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PostgresStore::~PostgresStore() = default;

Result<std::unique_ptr<PostgresStore>> PostgresStore::open(PostgresOptions options) {
  if (options.url.empty()) return Error{ErrorCode::kInvalid, "the URL of the PostgreSQL store is missing"};
  auto impl = std::make_unique<Impl>(std::move(options));
  if (auto good = impl->open(); !good) return good.error();
  return std::unique_ptr<PostgresStore>(new PostgresStore(std::move(impl)));
}

// --- changes

void PostgresStore::submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) {
  using Answers = std::vector<Result<Submitted>>;
  std::vector<postgres::PreparedRef> prepared;
  prepared.reserve(tasks.size());
  for (NewTask& task : tasks) prepared.push_back(std::make_shared<const backend::PreparedTask>(std::move(task)));
  const std::string name = prepared.empty() ? "" : prepared.front()->request.id;
  impl_->change<Answers>(name, std::move(done), [prepared = std::move(prepared)](Completion<Answers> counted) mutable {
    return postgres::submit_change(std::move(prepared), std::move(counted));
  });
}

void PostgresStore::take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) {
  using Answers = std::vector<IntakeAnswer>;
  const std::string name = messages.empty() ? "" : messages.front().message_id;
  impl_->change<Answers>(name, std::move(done), [messages = std::move(messages)](Completion<Answers> counted) mutable {
    return postgres::take_in_change(std::move(messages), std::move(counted));
  });
}

void PostgresStore::join(NodeLease node, Duration lease, Completion<void> done) {
  const std::string boot = node.boot;
  impl_->change<void>(
      boot,
      [this, boot, done = std::move(done)](Result<void> joined) mutable {
        if (joined) impl_->note_joined(boot);  // (On the loop's thread.)
        done(std::move(joined));
      },
      [node = std::move(node), lease](Completion<void> counted) mutable {
        return postgres::join_change(std::move(node), lease, std::move(counted));
      });
}

void PostgresStore::renew(std::string boot, Duration lease, Completion<void> done) {
  impl_->renew(std::move(boot), lease, std::move(done));
}

void PostgresStore::leave(std::string boot, Completion<void> done) {
  const std::string name = boot;
  impl_->change<void>(name, std::move(done), [boot = std::move(boot)](Completion<void> counted) mutable {
    return postgres::leave_change(std::move(boot), std::move(counted));
  });
}

void PostgresStore::take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) {
  if (all_others) {
    return done(Error{ErrorCode::kInvalid, "other nodes may use this store: there is no proof that they are dead"});
  }
  impl_->take_over(std::move(boot), std::move(done));
}

// The claims of a group go through one writer, so they share its transactions.
void PostgresStore::claim(ClaimRequest request, Completion<ClaimAnswer> done) {
  const std::string group = request.group;
  impl_->change<ClaimAnswer>(group, std::move(done),
                             [request = std::move(request)](Completion<ClaimAnswer> counted) mutable {
                               return postgres::claim_change(std::move(request), std::move(counted));
                             });
}

void PostgresStore::write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) {
  const std::string id = claim.task_id;
  impl_->change<ChainRow>(
      id, std::move(done),
      [claim = std::move(claim), number, write = std::move(write)](Completion<ChainRow> counted) mutable {
        return postgres::write_change(std::move(claim), number, std::move(write), std::move(counted));
      });
}

void PostgresStore::ready(std::string task_id, Completion<ChainTask> done) {
  impl_->change<ChainTask>(task_id, std::move(done), [task_id](Completion<ChainTask> counted) {
    return postgres::ready_change(task_id, std::move(counted));
  });
}

void PostgresStore::cancel(std::string task_id, std::string reason, Completion<ChainRow> done) {
  impl_->change<ChainRow>(task_id, std::move(done),
                          [task_id, reason = std::move(reason)](Completion<ChainRow> counted) mutable {
                            return postgres::cancel_change(task_id, std::move(reason), std::move(counted));
                          });
}

void PostgresStore::replay(ReplayRequest request, Completion<ChainTask> done) {
  const std::string id = request.task_id;
  impl_->change<ChainTask>(id, std::move(done), [request = std::move(request)](Completion<ChainTask> counted) mutable {
    return postgres::replay_change(std::move(request), std::move(counted));
  });
}

void PostgresStore::pause_group(std::string group, bool paused, Completion<void> done) {
  impl_->change<void>(group, std::move(done), [group, paused](Completion<void> counted) {
    return postgres::pause_change(group, paused, std::move(counted));
  });
}

void PostgresStore::set_limits(std::string group, std::string limits, Completion<void> done) {
  impl_->change<void>(group, std::move(done), [group, limits = std::move(limits)](Completion<void> counted) mutable {
    return postgres::limits_change(group, std::move(limits), std::move(counted));
  });
}

void PostgresStore::discard_dead_letter(std::string task_id, Completion<void> done) {
  impl_->change<void>(task_id, std::move(done), [task_id](Completion<void> counted) {
    return postgres::discard_change(task_id, std::move(counted));
  });
}

void PostgresStore::set_cursor(std::string name, std::uint64_t value, Completion<void> done) {
  impl_->change<void>(name, std::move(done), [name, value](Completion<void> counted) {
    return postgres::cursor_change(name, value, std::move(counted));
  });
}

void PostgresStore::remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) {
  impl_->remove_ended(older_than, limit, std::move(done));
}

std::shared_ptr<void> PostgresStore::watch(StoreWatch watch) { return impl_->watchers().add(std::move(watch)); }
std::optional<Error> PostgresStore::trouble() const { return impl_->trouble(); }

}  // namespace cohort

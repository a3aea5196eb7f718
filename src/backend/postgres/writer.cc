#include "backend/postgres/writer.h"

#include <algorithm>
#include <utility>

#include "backend/postgres/statements.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/log.h"

namespace cohort::postgres {

Writer::Writer(Loop& loop, Connect connect, const Settings& settings)
    : loop_(loop),
      settings_(settings),
      link_(loop, std::move(connect),
            {.up = [this] { go_on(); }, .down = [this](const Failure& failure) { give_up_old(failure); }}) {
  loop_.add(link_);
}

void Writer::add(ChangeRef change) {
  queue_.push_back(std::move(change));
  go_on();
}

void Writer::look() {
  if (link_.session() == nullptr) give_up_old({"", "there is no connection to the server"});
}

void Writer::close() {
  link_.close();
  const Error ended{ErrorCode::kEnded, "the store has been closed"};
  for (ChangeRef& each : batch_) each->complete(&ended);
  for (ChangeRef& each : queue_) each->complete(&ended);
  batch_.clear();
  queue_.clear();
}

void Writer::go_on() {
  if (batch_.empty() && !queue_.empty() && link_.session() != nullptr && !is_pausing_) begin();
}

void Writer::begin() {
  const std::size_t most = limit_ != 0 ? limit_ : settings_.max_batch;
  std::size_t rows = 0;
  while (!queue_.empty() && batch_.size() < most && rows < kMostRows) {
    rows += queue_.front()->rows();
    batch_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  is_committing_ = false;
  transaction_ = std::make_unique<Transaction>(settings_.format, settings_.offset());
  for (const ChangeRef& each : batch_) each->ask(*transaction_);
  link_.session()->exchange(transaction_->read_queries(), [this](Answers answers) { read(std::move(answers)); });
}

void Writer::read(Answers answers) {
  if (answers.failure) return fail(*answers.failure);
  transaction_->load(answers.results);
  std::vector<Query> more = transaction_->more_queries();
  if (more.empty()) return decide();
  link_.session()->exchange(std::move(more), [this](Answers next) { read_more(std::move(next)); });
}

void Writer::read_more(Answers answers) {
  if (answers.failure) return fail(*answers.failure);
  transaction_->load_more(answers.results);
  decide();
}

void Writer::decide() {
  for (const ChangeRef& each : batch_) each->decide(*transaction_);
  std::vector<Query> queries = transaction_->write_queries();
  if (COHORT_FAILPOINT("store.commit")) return fail({"53100", "a test says that the disk is full"});
  news_ = transaction_->news().take();
  has_events_ = transaction_->has_events();
  // (A transaction that only looked may have locked rows: others are to find them free when its calls are answered.)
  if (queries.empty() || transaction_->is_unimportant()) queries.insert(queries.begin(), {&kCommitLater});
  queries.push_back({&kCommit});
  is_committing_ = true;
  Session& session = *link_.session();
  session.exchange(std::move(queries), [this](Answers written) { this->written(std::move(written)); });
  // A statement of its own behind the commit: inside it, NOTIFY would keep all commits of the server apart.
  const std::string notification = settings_.notification(news_, has_events_);
  if (notification.empty()) return;
  session.exchange({{&kNotify, std::move(Parameters().add(settings_.channel).add(notification))}}, [](Answers) {});
}

void Writer::written(Answers answers) {
  if (answers.failure) return fail(*answers.failure);
  static_cast<void>(COHORT_FAILPOINT("store.committed"));
  if (answers.was_warned) {
    return end(
        Error{ErrorCode::kUnavailable, "the PostgreSQL store: the commit is not known to have reached the standby"});
  }
  for (const auto& [sequence, damage] : transaction_->damaged()) {
    COHORT_LOG(kError, "store", "a row cannot be read; its task is poison", {"row", sequence}, {"error", damage});
  }
  end(std::nullopt);
}

// Watchers are told before the callers: what was submitted starts the sooner.
void Writer::end(const std::optional<Error>& error) {
  Batch done = std::exchange(batch_, {});
  tries_ = 0;
  if (limited_ > 0) limited_ -= std::min(limited_, done.size());
  limit_ = limited_ == 0 ? 0 : 2 * limit_;  // The call to blame may be behind; the others need not go alone.
  if (!error) settings_.worked();
  if (!error) settings_.committed(std::exchange(news_, {}), has_events_);
  std::vector<ChangeRef> complete;
  for (ChangeRef& each : done) {
    if (!error && each->goes_on()) {
      queue_.push_back(std::move(each));
    } else {
      complete.push_back(std::move(each));
    }
  }
  go_on();  // The next transaction is on its way while callers are told.
  for (ChangeRef& each : complete) each->complete(error ? &*error : nullptr);
}

void Writer::fail(const Failure& failure) {
  settings_.failed(failure);
  if (batch_.empty()) return;
  if (failure.is_lost() && is_committing_) {
    for (const ChangeRef& each : batch_) each->was_uncertain = true;
  }
  roll_back();
  ++tries_;
  if (failure.state ==
      "25006") {  // The server takes no writes any more: perhaps another does. (Not within a callback of it.)
    loop_.call_in(Duration::zero(), [this, failure] { link_.reset(failure); });
  }
  const bool is_blocked = failure.state == "55P03" || failure.state == "57014";
  if (is_blocked && batch_.size() == 1) return wait_apart(failure);
  if (failure.may_pass() && !is_blocked && tries_ < kTries) return try_again(failure);
  if (failure.may_pass() && !is_blocked && failure.state != "23505") return end(failure.to_error());
  if (batch_.size() == 1) return end(failure.to_error());
  limited_ = std::max(limited_, batch_.size());
  limit_ = std::max<std::size_t>(batch_.size() / 2, 1);
  try_again(failure);
}

// What another program has locked keeps this call waiting, and no other.
void Writer::wait_apart(const Failure& failure) {
  if (std::chrono::steady_clock::now() - batch_.front()->since >= settings_.patience) return end(failure.to_error());
  auto apart = std::make_shared<ChangeRef>(std::move(batch_.front()));
  batch_.clear();
  tries_ = 0;
  ++apart_;
  loop_.call_in(std::chrono::milliseconds(100), [this, apart] {
    --apart_;
    queue_.push_back(std::move(*apart));
    go_on();
  });
  go_on();
}

void Writer::roll_back() {
  if (Session* const session = link_.session()) session->exchange({{&kRollback}}, [](Answers) {});
}

// The calls of the batch go to the front of the queue again, in their order.
void Writer::try_again(const Failure& failure) {
  for (auto each = batch_.rbegin(); each != batch_.rend(); ++each) queue_.push_front(std::move(*each));
  batch_.clear();
  give_up_old(failure);
  if (link_.session() == nullptr) return;  // up() goes on.
  is_pausing_ = true;
  const Duration pause = std::chrono::duration_cast<Duration>(std::chrono::milliseconds(1 << std::min(tries_, 6)) *
                                                              (0.5 + loop_.random().unit()));
  loop_.call_in(pause, [this] {
    is_pausing_ = false;
    go_on();
  });
}

// Calls that have waited longer than `patience` fail with kUnavailable.
void Writer::give_up_old(const Failure& failure) {
  settings_.failed(failure);
  const Time oldest = std::chrono::steady_clock::now() - settings_.patience;
  std::vector<ChangeRef> old;
  for (ChangeRef& each : queue_) {
    if (each->since < oldest) old.push_back(std::move(each));
  }
  std::erase(queue_, nullptr);
  const Error error = Failure{"", failure.message}.to_error();
  for (ChangeRef& each : old) each->complete(&error);
}

}  // namespace cohort::postgres

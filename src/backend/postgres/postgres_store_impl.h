#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/postgres/changes.h"
#include "backend/postgres/connecting.h"
#include "backend/postgres/leader.h"
#include "backend/postgres/loop.h"
#include "backend/postgres/writer.h"
#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/base/mutex.h"
#include "store/lease_watch.h"
#include "store/watchers.h"

namespace cohort {

/// Calls come in on any thread and go to the loop's thread, which owns everything but what is marked.
class PostgresStore::Impl {
 public:
  explicit Impl(PostgresOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> open();

  /// A change for the writer that serves this name. `done` is told if there is no room for it.
  template <class T>
  void change(std::string name, Completion<T> done, Function<postgres::ChangeRef(Completion<T>)> make) {
    if (!enter()) return done(refusal());
    Completion<T> counted = [this, done = std::move(done)](Result<T> result) mutable {
      leave();
      done(std::move(result));
    };
    postgres::ChangeRef change = make(std::move(counted));
    auto shared = std::make_shared<postgres::ChangeRef>(std::move(change));
    loop_.post([this, name = std::move(name), shared] { writer_for(name).add(std::move(*shared)); });
  }

  /// The connections for single statements: for those that look up few rows, for those that go over many, and for
  /// leases, which wait behind no other.
  enum class Line : std::uint8_t { kRows, kScans, kLeases };

  /// A single statement. `read` makes the answer of it.
  template <class T>
  void read(Line line, postgres::Query query, Completion<T> done,
            Function<Result<T>(const postgres::ResultRef&)> read) {
    if (!enter()) return done(refusal());
    auto asked = std::make_shared<Asked>();
    asked->query = std::move(query);
    asked->told = [this, done = std::move(done), read = std::move(read)](postgres::Answers answers) mutable {
      leave();
      if (answers.failure) return done(answers.failure->to_error());
      done(postgres::guarded([&] { return read(answers.results.front()); }));
    };
    loop_.post([this, line, asked] { ask(readers_.at(static_cast<std::size_t>(line)), asked); });
  }

  void renew(std::string boot, Duration lease, Completion<void> done);
  void take_over(std::string boot, Completion<std::vector<std::string>> done);
  void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done);
  void note_joined(const std::string& boot);
  /// Calls `then` on the loop's thread.
  void post(Function<void()> then) { loop_.post(std::move(then)); }

  [[nodiscard]] Watchers& watchers() { return watchers_; }
  [[nodiscard]] std::int64_t format() const { return version_; }
  [[nodiscard]] std::int64_t offset_us() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(options_.offset()).count();
  }
  [[nodiscard]] std::optional<Error> trouble() const {
    MutexLock lock(mutex_);
    return trouble_;
  }

 private:
  struct Asked {
    postgres::Query query;
    Function<void(postgres::Answers)> told;
    Time since = std::chrono::steady_clock::now();
  };
  using AskedRef = std::shared_ptr<Asked>;
  /// A connection for single statements, and those that wait for it.
  struct Reader {
    std::unique_ptr<postgres::Link> link;
    std::vector<AskedRef> waiting;
  };

  [[nodiscard]] bool enter();
  void leave() { open_calls_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] Error refusal() const;
  [[nodiscard]] postgres::Writer& writer_for(const std::string& name);
  [[nodiscard]] Reader& rows() { return readers_[static_cast<std::size_t>(Line::kRows)]; }
  [[nodiscard]] postgres::Connect connector(postgres::Purpose purpose);
  void make_links();
  void ask(Reader& reader, const AskedRef& asked);
  void go_on(Reader& reader);
  void give_up_old(Reader& reader, const postgres::Failure& failure);
  void note_timeline(const std::string& timeline);
  [[nodiscard]] bool has_changed_server(const std::string& boot);
  [[nodiscard]] std::string notification_of(const StoreNews& news, bool has_events) const;
  void committed(const StoreNews& news, bool has_events);
  void numbered(std::uint64_t last);
  void hear(const std::string& notification);
  void remove_as_leader(Duration older_than, std::uint32_t limit, Time since, Completion<std::uint64_t> done);
  void look_for_submitted();
  void note_failure(const postgres::Failure& failure);
  void note_success();

  const PostgresOptions options_;
  const std::int64_t version_;
  const std::string instance_;
  const std::string channel_;
  Clock& lease_clock_;
  Watchers watchers_;
  std::atomic<std::uint32_t> open_calls_{0};
  std::atomic<bool> is_closing_{false};

  mutable Mutex mutex_;
  std::optional<Error> trouble_ COHORT_GUARDED_BY(mutex_);
  std::string timeline_ COHORT_GUARDED_BY(mutex_);  // Of the server that the last connection leads to.
  std::map<std::string, std::string> timelines_ COHORT_GUARDED_BY(mutex_);  // By boot: when it joined.

  postgres::Loop loop_;
  postgres::Writer::Settings settings_;
  std::vector<std::unique_ptr<postgres::Writer>> writers_;
  std::array<Reader, 3> readers_;  // By Line.
  std::unique_ptr<postgres::Link> listener_;
  std::unique_ptr<postgres::Leader> leader_;
  LeaseWatch leases_;
  std::set<std::uint64_t> submitted_;  // Tasks of other programs that this node has seen, of the last minute.
};

}  // namespace cohort

#pragma once

// The way from one node to the store they share, with all that can happen on it.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/store/task_store.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// What is to happen at a time in virtual time, in the order of times and then of planning.
class Schedule {
 public:
  explicit Schedule(VirtualClock& clock) : clock_(clock) {}
  void after(Duration delay, Function<void()> call) {
    plans_.push_back({clock_.now() + delay, ++sequence_, std::move(call)});
    std::push_heap(plans_.begin(), plans_.end(), later);
  }
  [[nodiscard]] Time next() const { return plans_.empty() ? Time::max() : plans_.front().at; }
  void run_due() {
    while (!plans_.empty() && plans_.front().at <= clock_.now()) {
      std::pop_heap(plans_.begin(), plans_.end(), later);
      Function<void()> call = std::move(plans_.back().call);
      plans_.pop_back();
      call();
    }
  }

 private:
  struct Plan {
    Time at;
    std::uint64_t sequence;
    Function<void()> call;
  };
  static bool later(const Plan& a, const Plan& b) { return std::pair(a.at, a.sequence) > std::pair(b.at, b.sequence); }

  VirtualClock& clock_;
  std::vector<Plan> plans_;
  std::uint64_t sequence_ = 0;
};

/// Which faults there are at the moment.
struct Weather {
  bool forgets_news = false;  ///< A planted bug: news are lost, and nobody knows.
  double loses_request = 0;
  double loses_answer = 0;
  Duration slowest = std::chrono::milliseconds(5);
};

/// Told of every call that takes effect, at that moment.
class StoreWitness {
 public:
  virtual ~StoreWitness() = default;
  virtual void saw_claim(const ClaimAnswer& answer) = 0;
  virtual void saw_write(const Claim& claim, const RunnerWrite& write, const Result<ChainRow>& written) = 0;
};

/// A TaskStore that reaches the real one late, or not at all, or whose answer does not come back.
class FaultyStore final : public TaskStore {
 public:
  FaultyStore(TaskStore& store, Schedule& schedule, const Weather& weather, StoreWitness& witness, std::uint64_t seed)
      : store_(store), schedule_(schedule), weather_(weather), witness_(witness), random_(seed) {}

  /// Nothing gets through any more in either direction, for good: the node is dead.
  void cut() { *is_cut_ = true; }
  void cut_off_for(Duration duration) {
    *is_unreachable_ = true;
    schedule_.after(duration, [flag = is_unreachable_, news = news_] {
      *flag = false;
      news->tell_missed();
    });
  }
  void reconnect() {
    *is_unreachable_ = false;
    news_->tell_missed();
  }

  // News come late; what was told while the node was cut off is replaced by one "look at everything".
  [[nodiscard]] std::shared_ptr<void> watch(StoreWatch watch) override {
    const auto watcher = std::make_shared<StoreWatch>(std::move(watch));
    news_->watcher = watcher;
    const auto deliver = [news = news_, is_cut = is_cut_, is_unreachable = is_unreachable_](const StoreNews& what) {
      if (*is_cut) return;
      if (*is_unreachable) {
        news->has_missed = true;
      } else if (const auto there = news->watcher.lock()) {
        (*there)(what);
      }
    };
    auto source = store_.watch([this, is_cut = is_cut_, deliver](const StoreNews& what) {
      if (weather_.forgets_news && random_.chance(0.3)) return;
      if (!*is_cut) schedule_.after(some_delay(), [deliver, what] { deliver(what); });
    });
    return std::make_shared<std::pair<std::shared_ptr<StoreWatch>, std::shared_ptr<void>>>(watcher, std::move(source));
  }

  [[nodiscard]] bool is_shared() const override { return store_.is_shared(); }
  void submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) override {
    send<std::vector<Result<Submitted>>>(std::move(done), [this, tasks = std::move(tasks)](auto answer) mutable {
      store_.submit(std::move(tasks), std::move(answer));
    });
  }
  void take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) override {
    send<std::vector<IntakeAnswer>>(std::move(done), [this, messages = std::move(messages)](auto answer) mutable {
      store_.take_in(std::move(messages), std::move(answer));
    });
  }
  void join(NodeLease node, Duration lease, Completion<void> done) override {
    send<void>(std::move(done), [this, node, lease](auto answer) { store_.join(node, lease, std::move(answer)); });
  }
  void renew(std::string boot, Duration lease, Completion<void> done) override {
    send<void>(std::move(done), [this, boot, lease](auto answer) { store_.renew(boot, lease, std::move(answer)); });
  }
  void leave(std::string boot, Completion<void> done) override {
    send<void>(std::move(done), [this, boot](auto answer) { store_.leave(boot, std::move(answer)); });
  }
  void take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) override {
    send<std::vector<std::string>>(std::move(done), [this, boot, all_others](auto answer) {
      store_.take_over(boot, all_others, std::move(answer));
    });
  }
  void claim(ClaimRequest request, Completion<ClaimAnswer> done) override {
    send<ClaimAnswer>(std::move(done), [this, request](Completion<ClaimAnswer> answer) {
      store_.claim(request, [this, answer = std::move(answer)](Result<ClaimAnswer> claimed) mutable {
        if (claimed && claimed->task) witness_.saw_claim(*claimed);
        answer(std::move(claimed));
      });
    });
  }
  void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) override {
    send<ChainRow>(std::move(done), [this, claim, number, write](Completion<ChainRow> answer) {
      store_.write(claim, number, write, [&, answer = std::move(answer)](Result<ChainRow> written) mutable {
        if (number != 0) witness_.saw_write(claim, write, written);
        answer(std::move(written));
      });
    });
  }
  void groups_with_work(Completion<std::vector<GroupWork>> done) override {
    send<std::vector<GroupWork>>(std::move(done), [this](auto answer) { store_.groups_with_work(std::move(answer)); });
  }
  void ready(std::string id, Completion<ChainTask> done) override {
    send<ChainTask>(std::move(done), [this, id](auto answer) { store_.ready(id, std::move(answer)); });
  }
  void cancel(std::string id, std::string reason, Completion<ChainRow> done) override {
    send<ChainRow>(std::move(done), [this, id, reason](auto answer) { store_.cancel(id, reason, std::move(answer)); });
  }
  void replay(ReplayRequest request, Completion<ChainTask> done) override {
    send<ChainTask>(std::move(done), [this, request](auto answer) { store_.replay(request, std::move(answer)); });
  }
  void pause_group(std::string group, bool paused, Completion<void> done) override {
    send<void>(std::move(done),
               [this, group, paused](auto answer) { store_.pause_group(group, paused, std::move(answer)); });
  }
  void set_limits(std::string group, std::string limits, Completion<void> done) override {
    send<void>(std::move(done),
               [this, group, limits](auto answer) { store_.set_limits(group, limits, std::move(answer)); });
  }
  void controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) override {
    send<std::vector<GroupControl>>(
        std::move(done), [this, after, limit](auto answer) { store_.controls(after, limit, std::move(answer)); });
  }
  void claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) override {
    send<std::vector<HeldClaim>>(std::move(done),
                                 [this, boot](auto answer) { store_.claims_of(boot, std::move(answer)); });
  }
  void get(std::string id, Completion<ChainTask> done) override {
    send<ChainTask>(std::move(done), [this, id](auto answer) { store_.get(id, std::move(answer)); });
  }
  void attempts(std::string id, Completion<std::vector<AttemptRecord>> done) override {
    send<std::vector<AttemptRecord>>(std::move(done),
                                     [this, id](auto answer) { store_.attempts(id, std::move(answer)); });
  }
  void list(TaskFilter filter, Completion<TaskPage> done) override {
    send<TaskPage>(std::move(done), [this, filter](auto answer) { store_.list(filter, std::move(answer)); });
  }
  void dead_letters(std::string after, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) override {
    send<std::vector<DeadLetter>>(
        std::move(done), [this, after, limit](auto answer) { store_.dead_letters(after, limit, std::move(answer)); });
  }
  void dead_letter(std::string id, Completion<DeadLetter> done) override {
    send<DeadLetter>(std::move(done), [this, id](auto answer) { store_.dead_letter(id, std::move(answer)); });
  }
  void discard_dead_letter(std::string id, Completion<void> done) override {
    send<void>(std::move(done), [this, id](auto answer) { store_.discard_dead_letter(id, std::move(answer)); });
  }
  void events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) override {
    send<std::vector<ChainEvent>>(
        std::move(done), [this, after, limit](auto answer) { store_.events(after, limit, std::move(answer)); });
  }
  void group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) override {
    send<std::vector<GroupCounts>>(
        std::move(done), [this, after, limit](auto answer) { store_.group_counts(after, limit, std::move(answer)); });
  }
  void group_count(std::string group, Completion<GroupCounts> done) override {
    send<GroupCounts>(std::move(done), [this, group](auto answer) { store_.group_count(group, std::move(answer)); });
  }
  void stats(Completion<StoreStats> done) override {
    send<StoreStats>(std::move(done), [this](auto answer) { store_.stats(std::move(answer)); });
  }
  void set_cursor(std::string name, std::uint64_t value, Completion<void> done) override {
    send<void>(std::move(done),
               [this, name, value](auto answer) { store_.set_cursor(name, value, std::move(answer)); });
  }
  void cursor(std::string name, Completion<std::uint64_t> done) override {
    send<std::uint64_t>(std::move(done), [this, name](auto answer) { store_.cursor(name, std::move(answer)); });
  }
  void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) override {
    send<std::uint64_t>(std::move(done), [this, older_than, limit](auto answer) {
      store_.remove_ended(older_than, limit, std::move(answer));
    });
  }

 private:
  static constexpr Duration kGivesUpAfter = std::chrono::seconds(2);

  struct News {
    std::weak_ptr<StoreWatch> watcher;
    bool has_missed = false;

    void tell_missed() {
      const auto there = watcher.lock();
      if (std::exchange(has_missed, false) && there) (*there)({.everything = true});
    }
  };

  Duration some_delay() {
    return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(weather_.slowest.count()) + 1)));
  }

  template <class T>
  void send(Completion<T> done, Function<void(Completion<T>)> apply) {
    const bool request_lost = *is_unreachable_ || random_.chance(weather_.loses_request);
    const bool answer_lost = random_.chance(weather_.loses_answer);
    // Whoever is answered first, by the store or by giving up.
    struct Waiting {
      Completion<T> done;
    };
    const auto waiting = std::make_shared<Waiting>(Waiting{std::move(done)});
    const auto answer = [waiting, is_cut = is_cut_](Result<T> result) {
      if (*is_cut) waiting->done = nullptr;
      if (!waiting->done) return;
      std::exchange(waiting->done, nullptr)(std::move(result));
    };
    if (!request_lost) {
      schedule_.after(some_delay(), [this, apply = std::move(apply), answer, answer_lost, is_cut = is_cut_,
                                     is_unreachable = is_unreachable_]() mutable {
        if (*is_cut) return;  // It died before this left the machine.
        apply(Completion<T>([this, answer, answer_lost, is_unreachable](Result<T> result) mutable {
          if (answer_lost || *is_unreachable) return;
          schedule_.after(some_delay(), [answer, result = std::move(result)]() mutable { answer(std::move(result)); });
        }));
      });
    }
    schedule_.after(kGivesUpAfter, [answer] { answer(Error{ErrorCode::kUnavailable, "no answer came"}); });
  }

  TaskStore& store_;
  Schedule& schedule_;
  const Weather& weather_;
  StoreWitness& witness_;
  Random random_;
  std::shared_ptr<bool> is_cut_ = std::make_shared<bool>(false);
  std::shared_ptr<bool> is_unreachable_ = std::make_shared<bool>(false);
  std::shared_ptr<News> news_ = std::make_shared<News>();
};

}  // namespace cohort

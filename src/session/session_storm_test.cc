// The session table against a model of it, in random histories on one thread; and many threads at once, where only what
// holds in any order can be checked. A failure prints its seed.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "cohort/base/random.h"
#include "cohort/group/group_executor.h"
#include "cohort/session/session_registry.h"
#include "cohort/testing/virtual_clock.h"
#include "session/session_table_parts.h"
#include "testing/seed_test_fixture.h"

namespace cohort::internal {
namespace {

using namespace std::chrono_literals;

SessionId session(std::uint64_t number) { return SessionId::parse("session/" + std::to_string(number)).value(); }
GroupName name(std::uint64_t number) { return GroupName::parse("group " + std::to_string(number)).value(); }

// One random history. What is known of every session is kept in a map that any child understands.
template <class Faults>
class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed), table_(options(), [this](Ended ended) { ended_by_itself(std::move(ended)); }) {}

  std::string run() {
    for (int i = 0; i < 400 && broken_.empty(); ++i) {
      event();
      if (broken_.empty()) compare();
    }
    return broken_;
  }

 private:
  static constexpr std::uint64_t kSessions = 6;
  static constexpr std::uint64_t kNames = 5;

  struct Model {
    std::map<std::uint64_t, GroupId> groups;  // By the number of its name.
    GroupId active;
    Time last;
    bool ended = false;
    Time forget_at;
  };

  SessionOptions options() {
    SessionOptions options;
    options.clock = &clock_;
    options.sweeps_itself = false;
    options.shards = random_.chance(0.5) ? 1 : 8;
    options.ttl = ttl_ = random_.chance(0.2) ? 0ms : std::chrono::milliseconds(1 + random_.below(200));
    options.remember_ended = remember_ = std::chrono::milliseconds(random_.below(100));
    options.max_groups_per_session = max_groups_ = 1 + random_.below(kNames);
    return options;
  }

  void event() {
    const std::uint64_t of = random_.below(kSessions);
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: ensure(of, random_.below(kNames)); break;
      case 4:
      case 5: remove(); break;
      case 6: end(of); break;
      case 7: touch(of); break;
      case 8: set_active(); break;
      case 9: find(of, random_.below(kNames)); break;
      case 10: visit(); break;
      default: pass_time(); break;
    }
  }

  Ref<GroupEntry> make(std::string_view key, Ref<Activity> owner, std::size_t name_size) {
    if (during_make_) std::exchange(during_make_, nullptr)();
    return make_lease<GroupEntry>(key, std::move(owner), name_size);
  }

  void ensure(std::uint64_t of, std::uint64_t called) {
    // Sometimes something else happens between the two looks.
    if (random_.chance(0.2)) {
      switch (random_.below(3)) {
        case 0: during_make_ = [this, of] { end(of); }; break;
        case 1: during_make_ = [this, of, called] { ensure(of, called); }; break;
        default: during_make_ = [this] { remove(); }; break;
      }
    }
    const auto ensured =
        table_.ensure(session(of), name(called), [this](std::string_view key, Ref<Activity> owner, std::size_t size) {
          return make(key, std::move(owner), size);
        });
    during_make_ = nullptr;
    Model& model = models_[of];
    const bool there = model.groups.contains(called);
    if (model.ended) {
      expect(!ensured && ensured.error().code == ErrorCode::kEnded, "an ended session took a group");
      return;
    }
    if (there) {
      expect(ensured && !ensured->created && ensured->id == model.groups[called], "a group was not found");
    } else if (model.groups.size() >= max_groups_) {
      expect(!ensured && ensured.error().code == ErrorCode::kRejected, "a session has more groups than it may");
      if (model.groups.empty()) models_.erase(of);
      return;
    } else {
      expect(ensured && ensured->created && all_ids_.insert(ensured->id).second, "a group was not made anew");
      if (ensured) model.groups[called] = ensured->id;
    }
    model.last = clock_.now();
  }

  void remove() {
    const GroupId id = some_id();
    const auto removed = table_.remove(id);
    auto [model, called] = owner_of(id);
    if (model == nullptr)
      return expect(!removed && removed.error().code == ErrorCode::kNotFound, "a ghost was removed");
    expect(removed && (*removed)->id() == id && (*removed)->name() == name(called).str(), "another group was removed");
    expect(removed && (*removed)->is_closed(), "a removed group's token is open");
    model->groups.erase(called);
    if (model->active == id) model->active = {};
    forget_empty();
  }

  void end(std::uint64_t of) {
    const auto ended = table_.end(session(of), "test");
    Model& model = models_[of];
    if (model.ended) return expect(!ended && ended.error().code == ErrorCode::kEnded, "a session ended twice");
    expect(ended && ended->groups.size() == model.groups.size(), "an end returned something else than there was");
    end_model(model);
  }

  void end_model(Model& model) {
    model = {};
    model.ended = true;
    model.forget_at = clock_.now() + remember_;
  }

  void ended_by_itself(Ended ended) {
    for (auto& [number, model] : models_) {
      if (session(number).str() != ended.session) continue;
      expect(!model.ended && clock_.now() - model.last >= ttl_ && ttl_ != 0ms, "a session ended that was not idle");
      expect(ended.reason == "idle" && ended.groups.size() == model.groups.size(), "an idle end lost something");
      return end_model(model);
    }
    expect(false, "an unknown session ended");
  }

  void touch(std::uint64_t of) {
    const auto touched = table_.touch(session(of));
    const auto model = models_.find(of);
    const bool lives = model != models_.end() && !model->second.ended;
    expect(touched.ok() == lives, "touch is wrong about who lives");
    if (lives) model->second.last = clock_.now();
  }

  void set_active() {
    const GroupId id = some_id();
    const auto set = table_.set_active(id);
    auto [model, called] = owner_of(id);
    expect(set.ok() == (model != nullptr), "a ghost became active");
    if (model == nullptr) return;
    model->active = id;
    model->last = clock_.now();
  }

  void find(std::uint64_t of, std::uint64_t called) {
    const auto found = table_.find(session(of), name(called));
    const auto model = models_.find(of);
    const bool there = model != models_.end() && model->second.groups.contains(called);
    expect(found.ok() == there, "find is wrong");
    if (there) model->second.last = clock_.now();
  }

  void visit() {
    const GroupId id = some_id();
    int visited = 0;
    const auto seen = table_.visit(
        id, [](void* count, GroupEntry&) { ++*static_cast<int*>(count); }, &visited);
    auto [model, called] = owner_of(id);
    expect(seen.ok() == (model != nullptr) && visited == (model != nullptr ? 1 : 0), "a ghost was visited");
    if (model != nullptr) model->last = clock_.now();
  }

  void pass_time() {
    clock_.advance(std::chrono::milliseconds(random_.below(60)));
    table_.sweep();
    for (const auto& [number, model] : models_) {
      if (model.ended || ttl_ == 0ms) continue;
      expect(clock_.now() - model.last < ttl_, "an idle session did not end");
    }
    std::erase_if(models_,
                  [&](const auto& each) { return each.second.ended && each.second.forget_at <= clock_.now(); });
  }

  // Everything that can be asked, against the model.
  void compare() {
    forget_empty();
    if (const std::string disagreement = table_.check(); !disagreement.empty()) return fail(disagreement);
    std::size_t groups = 0;
    std::size_t living = 0;
    for (std::uint64_t of = 0; of < kSessions; ++of) {
      const auto model = models_.find(of);
      const bool known = model != models_.end();
      const auto listed = table_.groups_of(session(of));
      const auto active = table_.active(session(of));
      if (!known || model->second.ended) {
        const ErrorCode wanted = known ? ErrorCode::kEnded : ErrorCode::kNotFound;
        expect(!listed && listed.error().code == wanted, "a session that does not live lists groups");
        expect(!active && active.error().code == wanted, "a session that does not live has an active group");
        continue;
      }
      ++living;
      groups += model->second.groups.size();
      expect(listed && listed->size() == model->second.groups.size(), "a session lists other groups than it has");
      const bool has_active = model->second.active.generation != 0;
      expect(active.ok() == has_active && (!has_active || *active == model->second.active), "another group is active");
    }
    const auto counts = table_.counts();
    expect(counts.groups == groups && counts.sessions == living && counts.ended == models_.size() - living,
           "the counts are wrong");
  }

  void forget_empty() {
    std::erase_if(models_, [](const auto& each) { return !each.second.ended && each.second.groups.empty(); });
  }

  GroupId some_id() {
    if (all_ids_.empty() || random_.chance(0.05)) return {.shard = 0, .hash = 1, .generation = 1'000'000};
    auto id = all_ids_.begin();
    std::advance(id, static_cast<std::ptrdiff_t>(random_.below(all_ids_.size())));
    return *id;
  }
  std::pair<Model*, std::uint64_t> owner_of(const GroupId& id) {
    for (auto& [number, model] : models_) {
      for (const auto& [called, group] : model.groups) {
        if (group == id) return {&model, called};
      }
    }
    return {nullptr, 0};
  }

  void expect(bool holds, const char* otherwise) {
    if (!holds) fail(otherwise);
  }
  void fail(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  Random random_;
  VirtualClock clock_;
  Duration ttl_{};
  Duration remember_{};
  std::size_t max_groups_ = 0;
  std::map<std::uint64_t, Model> models_;
  std::set<GroupId> all_ids_;
  Function<void()> during_make_;
  std::string broken_;
  ShardedSessionTable<Faults> table_;
};

// Sanitizers make the storms many times as slow; the release build runs them all.
#ifdef COHORT_SANITIZED
constexpr std::uint64_t kHistories = 300;
constexpr std::uint64_t kThreadStorms = 4;
#else
constexpr std::uint64_t kHistories = 3000;
constexpr std::uint64_t kThreadStorms = 30;
#endif

TEST(SessionStormTest, TheTableDoesWhatItsModelDoes) {
  const Seeds seeds(kHistories);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(History<NoSessionFaults>(seed).run(), "") << "replay with ./dev sim " << seed;
  }
}

// A test that cannot fail proves nothing.
template <class Faults>
class PlantedSessionBugTest : public ::testing::Test {};

struct ForgetIndex : NoSessionFaults {
  static constexpr bool kForgetIndex = true;
};
struct KeepActive : NoSessionFaults {
  static constexpr bool kKeepActive = true;
};
struct ForgetMark : NoSessionFaults {
  static constexpr bool kForgetMark = true;
};
using PlantedBugs = ::testing::Types<ForgetIndex, KeepActive, ForgetMark>;
TYPED_TEST_SUITE(PlantedSessionBugTest, PlantedBugs);

TYPED_TEST(PlantedSessionBugTest, IsFound) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const std::string broken = History<TypeParam>(seed).run();
    if (broken.empty()) continue;
    std::cout << "seed " << seed << ": " << broken << "\n";
    return;
  }
  FAIL() << "100 histories did not find it";
}

// ---- many threads

// Counts how many of its kind exist.
struct Counted {
  explicit Counted(std::atomic<int>& live) : count(&live) { ++*count; }
  Counted(Counted&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (count != nullptr) --*count;
  }
  std::atomic<int>* count;
  int changes = 0;
};

TEST(SessionStormTest, ThreadsDoEverythingToTheSameSessionsAtOnce) {
  const Seeds seeds(kThreadStorms);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    std::atomic<int> payloads{0};
    std::atomic<int> created{0};
    std::atomic<int> removed{0};
    std::atomic<int> told_created{0};
    std::atomic<int> told_removed{0};
    std::atomic<int> ran{0};
    {
      GroupExecutor executor({.threads = 2, .evict_after = 1ms});
      SessionRegistry<Counted> registry(
          {.executor = &executor,
           .ttl = seed % 2 == 0 ? 0ms : 2ms,
           .remember_ended = std::chrono::milliseconds(seed % 3),
           .shards = seed % 2 == 0 ? 1U : 16U,
           .listener =
               [&](const SessionEvent& event) {
                 if (event.kind == SessionEvent::Kind::kGroupCreated) ++told_created;
                 if (event.kind == SessionEvent::Kind::kGroupRemoved) ++told_removed;
                 if (event.kind == SessionEvent::Kind::kSessionEnded) told_removed += static_cast<int>(event.groups);
               }},
          [&](const EndedSession<Counted>& ended) { removed += static_cast<int>(ended.groups.size()); });
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          Random random(seed * 100 + t);
          std::vector<GroupId> ids(1);
          for (int i = 0; i < 300; ++i) {
            const SessionId of = session(random.below(4));
            const GroupId id = ids[random.below(ids.size())];
            switch (random.below(8)) {
              case 0:
              case 1:
              case 2: {
                const auto group = registry.ensure_group(of, name(random.below(4)), [&] { return Counted(payloads); });
                if (!group) break;
                created += group->created ? 1 : 0;
                ids.push_back(group->id);
                executor.submit(group->token, "t", [&] { ++ran; });
                break;
              }
              case 3: removed += registry.remove_group(id) ? 1 : 0; break;
              case 4: {
                const auto ended = registry.end_session(of, "test");
                if (ended) removed += static_cast<int>(ended->groups.size());
                break;
              }
              case 5: static_cast<void>(registry.with_group(id, [](Counted& payload) { ++payload.changes; })); break;
              case 6:
                static_cast<void>(registry.set_active_group(id));
                static_cast<void>(registry.active_group(of));
                break;
              default:
                static_cast<void>(registry.groups_of(of));
                static_cast<void>(registry.counts());
                break;
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (std::uint64_t of = 0; of < 4; ++of) {
        const auto ended = registry.end_session(session(of), "the end");
        if (ended) removed += static_cast<int>(ended->groups.size());
      }
      while (registry.counts().ended != 0) std::this_thread::yield();  // All take-outs are through.
      ASSERT_EQ(registry.check(), "") << "seed " << seed;
      const auto counts = registry.counts();
      ASSERT_EQ(counts.groups + counts.sessions, 0U) << "seed " << seed;
      ASSERT_EQ(created, removed) << "seed " << seed;
      ASSERT_EQ(told_created, created) << "seed " << seed;
      ASSERT_EQ(told_removed, removed) << "seed " << seed;
      ASSERT_TRUE(executor.shutdown(600s)) << "seed " << seed;
      const ExecutorStats stats = executor.stats();
      ASSERT_EQ(stats.counters.submitted, stats.counters.settled_total()) << "seed " << seed;
      ASSERT_EQ(stats.counters.count(TaskStatus::kSuccess), static_cast<std::uint64_t>(ran)) << "seed " << seed;
    }
    ASSERT_EQ(payloads, 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cohort::internal

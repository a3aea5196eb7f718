// Writes the database of a release to a file: make_database FILE. Run it with the last commit of a release, put the
// file to tests/upgrade/VERSION/cohort.db, and never change it afterwards.

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "backend/sqlite/store_test_fixture.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"
#include "upgrade/release_tasks.h"

namespace {

using namespace cohort;
using namespace std::chrono_literals;

void expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "make_database: %s\n", what);
  std::exit(1);
}

class Maker {
 public:
  Maker() {
    for (ReleaseTask& each : release_tasks(wall_.now())) requests_.push_back(each.request);
    join();
  }

  void make() {
    for (const char* id :
         {"completed", "failed", "cancelled", "expired", "poison", "pending", "processing", "delayed", "scheduled"}) {
      submit(id);
    }
    ChainTask task = claim("a");
    write(task, 1, StepReport{.progress = 0.5, .note = "half", .log = {"a line", "and another"}}, 0);
    write(task, 1, Checkpoint{.step = 0, .context = R"({"a":1})", .ran = 2s, .begin_next = true});
    write(task, 2, AttemptEnded{.error = "once", .ran = 1s});
    write(task, 3, AttemptBegun{});
    write(task, 4, Checkpoint{.step = 1, .context = R"({"a":1,"b":"two"})", .ran = 3s});
    task = claim("a");
    write(task, 1, Checkpoint{.step = 0, .context = R"({"a":1})", .ran = 2s, .begin_next = true});
    write(task, 2, ChainFailed{.reason = "the second step said no", .ran = 1s});
    expect(bool(wait<ChainRow>([&](auto done) { store_->cancel("cancelled", "no longer wanted", std::move(done)); })),
           "cancel");
    task = claim("late");
    write(task, 1, AttemptEnded{.error = "busy", .ran = 1s, .give_back = true, .delay = 20min});
    clock_.advance(2s);
    expect(!try_claim("expired").task, "an expired task is not claimed");
    for (int crash = 0; crash < 2; ++crash) {
      claim("poison");
      join();
      take_over();
    }
    task = claim("poison");
    write(task, 1, AttemptBegun{.alone = true});
    join();
    take_over();
    expect(bool(wait<void>([&](auto done) { store_->set_limits("a", R"({"max_concurrency":2})", std::move(done)); })),
           "limits");
    expect(bool(wait<void>([&](auto done) { store_->pause_group("paused", true, std::move(done)); })), "pause");
    for (const char* id : {"paused", "full", "large"}) submit(id);
    expect(bool(wait<std::vector<IntakeAnswer>>([&](auto done) {
             store_->take_in({{.message_id = "m-1",
                               .refused = DeadLetter{.task_id = "message:m-1",
                                                     .message_id = "m-1",
                                                     .reason = "it is no JSON",
                                                     .failed_at = wall_.now(),
                                                     .original = "{"}}},
                             std::move(done));
           })),
           "a refused message");
    expect(bool(wait<void>([&](auto done) { store_->set_cursor("relay", 3, std::move(done)); })), "cursor");
    task = claim("busy");
    write(task, 1, Checkpoint{.step = 0, .context = R"({"a":1})", .ran = 2s, .begin_next = true});
  }

  void save(const char* file) {
    expect(bool(wait<void>([&](auto done) { store_->backup(file, std::move(done)); })), "backup");
  }

 private:
  void submit(const std::string& id) {
    for (const NewTask& each : requests_) {
      if (each.id != id) continue;
      const auto answer =
          wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({each}, std::move(done)); });
      expect(answer && answer->at(0), "submit");
    }
  }
  void join() {
    boot_ = "node/boot-" + std::to_string(++boots_);
    expect(bool(wait<void>([&](auto done) { store_->join({"node", boot_}, 15s, std::move(done)); })), "join");
  }
  void take_over() {
    expect(bool(wait<std::vector<std::string>>([&](auto done) { store_->take_over(boot_, true, std::move(done)); })),
           "take over");
  }
  ClaimAnswer try_claim(const std::string& group) {
    const ClaimRequest request{.id = "claim-" + std::to_string(++claims_), .boot = boot_, .group = group};
    return *wait<ClaimAnswer>([&](auto done) { store_->claim(request, std::move(done)); });
  }
  ChainTask claim(const std::string& group) {
    const ClaimAnswer answer = try_claim(group);
    expect(answer.task.has_value(), "claim");
    return *answer.task;
  }
  void write(const ChainTask& task, std::uint64_t number, RunnerWrite what, int count = 1) {
    const auto answer = wait<ChainRow>([&](auto done) {
      store_->write({task.id(), task.owner, task.epoch}, count == 0 ? 0 : number, what, std::move(done));
    });
    expect(bool(answer), "write");
  }

  TemporaryFolder folder_;
  VirtualClock clock_;
  VirtualWallClock wall_{clock_};
  std::unique_ptr<SqliteStore> store_ =
      std::move(*SqliteStore::open({.folder = folder_.path(), .clock = &wall_, .steady_clock = &clock_}));
  std::vector<NewTask> requests_;
  std::string boot_;
  int boots_ = 0;
  int claims_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  expect(count == 2, "usage: make_database FILE");
  Maker maker;
  maker.make();
  maker.save(arguments[1]);
}

#pragma once

// What processes that are killed write down, and how it is held against what they promised.
//
//   acks*     "id steps .": a submit that was acknowledged.
//   ledger*   "B|E id step epoch .": a step began or ended. A line without its "." is half a line.
//   wrong*    what a process saw that must not be.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "backend/sqlite/store_test_fixture.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// A file of lines. A process may be killed in the middle of a line.
class Ledger {
 public:
  /// `is_synced`: lines are on the disk when add() returns, as needed where the loss of power is played.
  explicit Ledger(const std::string& path, bool is_synced = true)
      : file_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)), is_synced_(is_synced) {
    add("");  // The process before may have died in the middle of a line.
  }
  void add(const std::string& line) const {
    const std::string text = line + "\n";
    if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        (is_synced_ && ::fdatasync(file_) != 0)) {
      std::perror("ledger");
      std::abort();
    }
  }

 private:
  int file_;
  bool is_synced_;
};

class LedgerCheck {
 public:
  explicit LedgerCheck(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The first thing that is wrong; empty: nothing is.
  std::string check(TaskStore& store) {
    std::string wrong;
    each_line("wrong", [&](const std::string& line) { wrong = wrong.empty() ? line : wrong; });
    if (!wrong.empty()) return wrong;
    read_ledger();
    if (wrong = check_order(); !wrong.empty()) return wrong;
    each_line("acks", [&](const std::string& line) {
      if (wrong.empty()) wrong = check_task(store, line);
    });
    return wrong;
  }
  /// In which states the acknowledged tasks have ended.
  [[nodiscard]] int ended_as(ChainState state) { return ends_[state]; }

 private:
  struct Step {
    std::uint64_t first_epoch = 0;
    std::uint64_t last_epoch = 0;
    bool ended = false;
  };

  template <class Use>
  void each_line(const std::string& begin, Use&& use) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!entry.path().filename().string().starts_with(begin)) continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (!line.empty()) use(line);
      }
    }
  }

  void read_ledger() {
    each_line("ledger", [&](const std::string& line) {
      std::istringstream words(line);
      std::string kind;
      std::string id;
      std::uint32_t step = 0;
      std::uint64_t epoch = 0;
      std::string end;
      if (!(words >> kind >> id >> step >> epoch >> end) || end != ".") return;  // Half a line: it died in it.
      Step& of = steps_[id][step];
      of.first_epoch = of.first_epoch == 0 ? epoch : std::min(of.first_epoch, epoch);
      of.last_epoch = std::max(of.last_epoch, epoch);
      of.ended = of.ended || kind == "E";
    });
  }

  std::string check_order() {
    for (const auto& [id, of] : steps_) {
      for (const auto& [step, seen] : of) {
        const auto next = of.find(step + 1);
        if (next != of.end() && seen.last_epoch > next->second.first_epoch) {
          return id + ": a claim taken after a checkpoint has repeated step " + std::to_string(step);
        }
        if (step > 0 && !of.at(step - 1).ended) return id + ": a step began before the one before it had ended";
      }
    }
    return "";
  }

  std::string check_task(TaskStore& store, const std::string& line) {
    std::istringstream words(line);
    std::string id;
    std::uint32_t count = 0;
    std::string end;
    if (!(words >> id >> count >> end) || end != ".") return "";
    const auto task = wait<ChainTask>([&](auto done) { store.get(id, std::move(done)); });
    if (!task) return id + ": it was acknowledged and is lost";
    if (!is_final(task->state)) return id + ": it did not end";
    ++ends_[task->state];
    for (std::uint32_t step = 0; task->state == ChainState::kCompleted && step < count; ++step) {
      if (!steps_[id][step].ended) return id + ": it is completed without the effect of step " + std::to_string(step);
    }
    return "";
  }

  const std::filesystem::path folder_;
  std::map<std::string, std::map<std::uint32_t, Step>> steps_;
  std::map<ChainState, int> ends_;
};

}  // namespace cohort

#pragma once

// Several nodes, a store that they share and everything that can go wrong between them, in virtual time on one thread,
// from a seed. After every event that matters the invariants are looked at; the first that does not hold ends it.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chain/chain_core.h"
#include "cohort/chain/task_json.h"
#include "cohort/testing/manual_executor.h"
#include "cohort/testing/memory_broker.h"
#include "cohort/testing/memory_store.h"
#include "cohort/testing/virtual_wall_clock.h"
#include "simulation/faulty_store.h"

namespace cohort {

template <class Faults>
class ChainSimulation final : public StoreWitness {
 public:
  explicit ChainSimulation(std::uint64_t seed, MemoryStore::PlantedBugs bugs = {})
      : random_(seed), wall_(clock_), schedule_(clock_) {
    outside_->close();  // It only publishes.
    concurrency_ = static_cast<std::uint32_t>(1 + random_.below(4));
    const std::uint64_t nodes = 1 + random_.below(3);
    store_.emplace(wall_, MemoryStore::Options{.lease_clock = &clock_, .is_shared = nodes > 1, .bugs = bugs});
    for (std::uint64_t i = 0; i < nodes; ++i) places_.push_back({"node-" + std::to_string(i), nullptr});
  }

  /// What went wrong; empty when nothing did.
  std::string run() {
    for (Place& place : places_) boot(place);
    make_weather();
    submit_some(10 + random_.below(30));
    while (clock_.now() < kFaultsEnd && wrong_.empty()) {
      if (random_.chance(0.01)) mishap();
      if (random_.chance(0.005)) submit_some(1 + random_.below(5));
      run_for(kQuantum);
    }
    // From here on everything works, and must come to an end.
    weather_ = {.forgets_news = weather_.forgets_news};
    wall_.set_skew(Duration::zero());
    for (Place& place : places_) {
      if (place.node) place.node->store.reconnect();
      if (!place.node || place.node->is_doomed) boot(place);
      place.paused_until = Time();
    }
    run_for(std::chrono::minutes(2));
    submit_some(10);
    const Time end = clock_.now() + std::chrono::minutes(20);
    while (clock_.now() < end && wrong_.empty() && !all_ended()) run_for(std::chrono::seconds(2));
    if (wrong_.empty()) check_end();
    bury_all();
    return wrong_;
  }

  /// Plants a bug: news of the store are lost now and then.
  void forget_news() { weather_.forgets_news = true; }

  [[nodiscard]] std::string history() const {
    std::string all;
    for (const auto& [task, line] : history_) all += task + " " + line + "\n";
    return all;
  }

  // --- the witness

  void saw_claim(const ClaimAnswer& answer) override {
    note(answer.task->id(), "claimed by " + answer.task->owner + (answer.suspect ? " as a suspect" : "") + " at step " +
                                std::to_string(answer.task->step) + ", epoch " + std::to_string(answer.task->epoch));
    std::uint64_t& newest = newest_epoch_[answer.task->id()];
    newest = std::max(newest, answer.task->epoch);
  }

  void saw_write(const Claim& claim, const RunnerWrite& write, const Result<ChainRow>& written) override {
    static constexpr const char* kNames[] = {"attempt begun", "attempt ended", "checkpoint", "failed", "report"};
    note(claim.task_id, claim.boot + " writes: " + kNames[write.index()] + " -> " +
                            (written ? std::string(to_string(written->state)) : written.error().to_string()));
    if (!written) return;
    if (claim.epoch < newest_epoch_[claim.task_id]) blame(claim.task_id, "a stale epoch was accepted");
    const auto* checkpoint = std::get_if<Checkpoint>(&write);
    if (checkpoint == nullptr || !writes_seen_.insert({claim.task_id, claim.epoch, checkpoint->step}).second) return;
    const std::pair step{claim.task_id, checkpoint->step};
    if (!checkpoints_.insert(step).second) blame(claim.task_id, "a step has two accepted checkpoints");
    if (effects_[step] == 0) blame(claim.task_id, "a checkpoint was accepted before its step had its effect");
  }

 private:
  static constexpr Duration kQuantum = std::chrono::milliseconds(20);
  static constexpr Time kFaultsEnd = Time(std::chrono::hours(1) + std::chrono::minutes(3));
  static constexpr int kGroups = 3;

  // What a task's steps are to do, by its index: found in the name of the plugin.
  struct Node {
    Node(ChainSimulation& sim, const std::string& name, std::uint64_t seed)
        : executor(sim.clock_, {.groups = {{"g0", {.max_concurrency = 1}}, {"g1", {.max_concurrency = 2}}},
                                .defaults = {.max_concurrency = sim.concurrency_},
                                .global_max_in_flight = sim.concurrency_}),
          store(*sim.store_, sim.schedule_, sim.weather_, sim, seed),
          broker(sim.broker_.member()) {
      sim.add_plugins(*this);
      core = ChainCore<Faults>::make(store, executor, plugins,
                                     ChainOptions{.node = name,
                                                  .concurrency = sim.concurrency_,
                                                  .lease = std::chrono::seconds(6),
                                                  .renew_every = std::chrono::seconds(2),
                                                  .look_every = std::chrono::hours(1),
                                                  .lease_clock = &sim.clock_,
                                                  .seed = seed},
                                     broker.get());
    }

    ManualExecutor executor;
    PluginRegistry plugins;
    FaultyStore store;
    std::unique_ptr<Broker> broker;
    std::shared_ptr<ChainCore<Faults>> core;
    TaskHandle<void> started;
    TaskHandle<void> ended;
    bool is_doomed = false;  // Dead to the world; its bodies are yet to return.
    std::map<std::string, int> bodies;
  };
  struct Place {
    std::string name;
    std::unique_ptr<Node> node;
    Time paused_until{};
    Time boots_at{};
  };

  // --- nodes

  void boot(Place& place) {
    if (place.node) bury(place);
    note("", place.name + " boots");
    place.node = std::make_unique<Node>(*this, place.name, random_.next() | 1U);
    place.node->started = place.node->core->start();
  }

  void crash(Place& place) {
    if (!place.node || place.node->is_doomed) return;
    note("", place.name + " dies");
    place.node->is_doomed = true;
    place.node->store.cut();
    place.node->broker->close();
    place.node->ended = place.node->core->drain(Duration::zero());
    place.boots_at = clock_.now() + std::chrono::milliseconds(random_.below(30'000));
  }

  // What is left of a dead node goes on until its bodies have returned, seen by nobody.
  void bury(Place& place) {
    if (!place.node->is_doomed) crash(place);
    dead_.push_back(std::move(place.node));
  }

  void bury_all() {
    for (Place& place : places_) {
      if (place.node) bury(place);
    }
    for (int steps = 0; !dead_.empty(); ++steps) {
      step();
      COHORT_ASSERT(steps < 1'000'000, "a node that is told to end does");
    }
  }

  // Follows the events as a relay does: what it has passed it never sees again.
  void read_events() {
    constexpr std::uint32_t kMany = 1'000'000;
    store_->events(event_cursor_, kMany, [this](const Result<std::vector<ChainEvent>>& events) {
      for (const ChainEvent& each : *events) {
        if (each.sequence != event_cursor_ + 1) blame(each.task_id, "a reader of events has missed one");
        event_cursor_ = each.sequence;
      }
    });
  }

  void step() {
    schedule_.run_due();
    read_events();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[(i + static_cast<std::size_t>(turn_)) % places_.size()];
      if (place.node && place.node->is_doomed && clock_.now() >= place.boots_at) boot(place);
      if (place.node && clock_.now() >= place.paused_until) run_node(place);
    }
    for (const std::unique_ptr<Node>& node : dead_) node->executor.run();
    std::erase_if(dead_, [](const std::unique_ptr<Node>& node) {
      return node->ended.is_done() && node->executor.leaks().empty();
    });
    ++turn_;
    Time next = schedule_.next();
    for (const Place& place : places_) {
      if (!place.node) continue;
      next = std::min(next, std::max(place.node->executor.next_event().value_or(Time::max()), place.paused_until));
      if (place.node->is_doomed) next = std::min(next, place.boots_at);
    }
    for (const std::unique_ptr<Node>& node : dead_) {
      next = std::min(next, node->executor.next_event().value_or(Time::max()));
    }
    clock_.set(std::clamp(next, clock_.now() + kQuantum / 4, clock_.now() + kQuantum * 100));
  }

  void run_node(Place& place) {
    Node& node = *place.node;
    node.executor.run();
    if (!node.is_doomed && node.started.is_done() && !node.started.await().ok()) {
      crash(place);  // It could not join; somebody starts it again.
      place.boots_at = clock_.now() + std::chrono::seconds(1);
    }
  }

  void run_for(Duration duration) {
    const Time end = clock_.now() + duration;
    while (clock_.now() < end && wrong_.empty()) step();
  }

  void make_weather() {
    if (random_.chance(0.7)) weather_.loses_request = random_.unit() * 0.1;
    if (random_.chance(0.7)) weather_.loses_answer = random_.unit() * 0.1;
    if (random_.chance(0.5)) weather_.slowest = std::chrono::milliseconds(1 + random_.below(1500));
  }

  void mishap() {
    Place& place = places_[random_.below(places_.size())];
    switch (random_.below(4)) {
      case 0:
        // Whoever dies while a suspect runs alone convicts it: only the guilty may do that here.
        if (!has_suspect()) crash(place);
        break;
      case 1:
        note("", place.name + " is not heard of for a while");
        place.paused_until = clock_.now() + std::chrono::milliseconds(random_.below(30'000));
        break;
      case 2:
        note("", place.name + " is cut off");
        // Not for longer than a suspect's node has to be heard of again.
        if (place.node) place.node->store.cut_off_for(std::chrono::milliseconds(random_.below(40'000)));
        break;
      case 3: wall_.set_skew(std::chrono::milliseconds(random_.between(-4000, 4000))); break;
      default: break;
    }
  }

  bool has_suspect() {
    for (const ChainTask& row : store_->all()) {
      if (row.crashes.size() >= 2 || row.alone) return true;
    }
    return false;
  }

  // --- tasks and their steps

  enum class Nature { kGood, kFlaky, kBad, kSlow, kKiller };

  void submit_some(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string id = "t" + std::to_string(natures_.size());
      static constexpr double kOdds[] = {0.6, 0.2, 0.05, 0.1, 0.05};
      double left = random_.unit();
      std::size_t nature = 0;
      while (nature < 4 && left >= kOdds[nature]) left -= kOdds[nature++];
      natures_[id] = static_cast<Nature>(nature);
      NewTask task{.id = id,
                   .group = "g" + std::to_string(random_.below(kGroups)),
                   .deadline = std::chrono::hours(24),
                   .priority = static_cast<Priority>(random_.below(3))};
      const std::uint64_t steps = 1 + random_.below(4);
      for (std::uint64_t s = 0; s < steps; ++s) task.steps.push_back({.plugin = "step"});
      steps_[id] = static_cast<std::uint32_t>(steps);
      if (random_.chance(0.3)) {
        publish(task);
      } else {
        send(task);
      }
    }
  }

  // Through the broker, which has it from then on.
  void publish(const NewTask& task) {
    const nlohmann::json message = {{"message_id", "m-" + task.id}, {"task", to_json(task)}};
    for (std::uint64_t times = random_.chance(0.2) ? 2 : 1; times > 0; --times) {
      outside_->publish(Topic::kTasks, {{task.id, message.dump()}}, [](const Result<void>&) {});
    }
    acknowledged_.insert(task.id);
  }

  // A submitter that repeats itself until somebody says yes.
  void send(const NewTask& task) {
    Place& place = places_[random_.below(places_.size())];
    if (!place.node || place.node->is_doomed) return send_later(task);
    TaskHandle<Submitted> handle = place.node->core->tasks().submit(task);
    schedule_.after(std::chrono::seconds(3), [this, handle, task] {
      if (!handle.is_done() || !handle.await().ok()) return send_later(task);
      acknowledged_.insert(task.id);
    });
  }
  void send_later(const NewTask& task) {
    schedule_.after(std::chrono::milliseconds(500), [this, task] { send(task); });
  }

  void add_plugins(Node& node) {
    struct Step final : Plugin {
      Step(ChainSimulation& of, Node& on) : sim(of), node(on) {}
      Task<PluginResult> run_async(StepContext& context) override { return sim.run_step(node, context); }
      ChainSimulation& sim;
      Node& node;
    };
    static_cast<void>(node.plugins.add("step", std::make_shared<Step>(*this, node)));
  }

  Task<PluginResult> run_step(Node& node, StepContext& context) {
    const std::string id = context.task_id();
    const std::uint32_t step = context.step();
    const std::uint32_t attempt = context.attempt();
    const Nature nature = natures_[id];
    const bool is_killing = nature == Nature::kKiller && step + 1 == steps_[id];
    enter(node, context.group());
    if (is_killing && !node.is_doomed) {
      ++killings_[id];
      for (Place& place : places_) {
        if (place.node.get() == &node) crash(place);
      }
    }
    const Duration takes = std::chrono::milliseconds(nature == Nature::kSlow ? 5000 + 200 * step : 10 * (step + 1));
    co_await sleep_for(takes);
    leave(node, context.group());
    if (node.is_doomed) co_return PluginResult::failure("nobody hears this");
    if (nature == Nature::kBad && step == 0) co_return PluginResult::failure("bad by nature");
    if (nature == Nature::kFlaky && attempt == 1) co_return PluginResult::retry("flaky by nature");
    ++effects_[{id, step}];
    co_return PluginResult::success({{"step", step}});
  }

  void enter(Node& node, const std::string& group) {
    static const std::map<std::string, int> kLimits = {{"g0", 1}, {"g1", 2}};
    const int limit = kLimits.contains(group) ? kLimits.at(group) : static_cast<int>(concurrency_);
    if (++node.bodies[group] > limit) blame(group, "more steps run than the group may");
    int all = 0;
    for (const auto& [name, count] : node.bodies) all += count;
    if (all > static_cast<int>(concurrency_)) blame(group, "more steps run than the node may");
  }
  static void leave(Node& node, const std::string& group) { --node.bodies[group]; }

  // --- what must be so

  void note(const std::string& task, const std::string& what) {
    const auto at =
        std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now().time_since_epoch() - std::chrono::hours(1));
    history_.emplace_back(task, std::to_string(at.count()) + " ms: " + what);
    if (history_.size() > 20'000) history_.pop_front();
  }

  void blame(const std::string& what, const std::string& why) {
    if (!wrong_.empty()) return;
    wrong_ = what + ": " + why;
    for (const Place& place : places_) {
      if (!place.node) continue;
      const ChainStats chains = place.node->core->stats();
      const ExecutorStats tasks = place.node->executor.stats();
      wrong_ += "\n  " + place.name + ": " + std::to_string(chains.running) + " runs, lease " +
                std::to_string(chains.has_lease) + ", lost " + std::to_string(chains.lost_leases) + ", tickets " +
                std::to_string(tasks.waiting) + " waiting, " + std::to_string(tasks.running) + " running, " +
                std::to_string(tasks.overrunning) + " overrunning";
    }
    for (const auto& [task, line] : history_) {
      if (task.empty() || task == what) wrong_ += "\n  " + line;
    }
  }

  bool all_ended() {
    if (acknowledged_.size() < natures_.size() || broker_.unacknowledged() != 0) return false;
    for (const ChainTask& row : store_->all()) {
      if (!is_final(row.state)) return false;
    }
    return true;
  }

  void check_end() {
    std::map<std::string, ChainTask> rows;
    for (ChainTask& row : store_->all()) rows.emplace(row.id(), row);
    for (const auto& [id, nature] : natures_) {
      if (!acknowledged_.contains(id)) return blame(id, "its submit was never acknowledged");
      if (!rows.contains(id)) return blame(id, "was acknowledged and is lost");
      const ChainTask& row = rows.at(id);
      if (!is_final(row.state)) {
        return blame(id, "did not end, it is " + std::string(to_string(row.state)) + " at step " +
                             std::to_string(row.step) + " owned by '" + row.owner + "'");
      }
      if (row.state == ChainState::kCompleted) {
        for (std::uint32_t s = 0; s < steps_[id]; ++s) {
          if (effects_[{id, s}] == 0) return blame(id, "is completed without the effect of a step");
        }
      }
      const ChainState expected = nature == Nature::kBad      ? ChainState::kFailed
                                  : nature == Nature::kKiller ? ChainState::kPoison
                                                              : ChainState::kCompleted;
      if (row.state != expected) {
        return blame(id, "ended as " + std::string(to_string(row.state)) + ", not as " +
                             std::string(to_string(expected)) + ": " + row.error);
      }
      // Three convict it; one more goes unnoticed when its node had lost its lease before it died.
      if (nature == Nature::kKiller && killings_[id] > 4) return blame(id, "took more than four nodes down");
    }
  }

  VirtualClock clock_;
  Random random_;
  VirtualWallClock wall_;
  std::optional<MemoryStore> store_;
  MemoryBroker broker_{wall_};
  std::unique_ptr<Broker> outside_ = broker_.member();
  Schedule schedule_;
  Weather weather_;
  std::uint32_t concurrency_ = 1;
  std::vector<Place> places_;
  std::deque<std::unique_ptr<Node>> dead_;
  std::uint64_t turn_ = 0;
  std::map<std::string, Nature> natures_;
  std::map<std::string, std::uint32_t> steps_;
  std::set<std::string> acknowledged_;
  std::map<std::string, std::uint64_t> newest_epoch_;
  std::set<std::tuple<std::string, std::uint64_t, std::uint32_t>> writes_seen_;
  std::set<std::pair<std::string, std::uint32_t>> checkpoints_;
  std::map<std::pair<std::string, std::uint32_t>, int> effects_;
  std::map<std::string, int> killings_;
  std::uint64_t event_cursor_ = 0;
  std::deque<std::pair<std::string, std::string>> history_;
  std::string wrong_;
};

}  // namespace cohort

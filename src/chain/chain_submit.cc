#include "chain/chain_submit.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chain/json_depth.h"
#include "chain/step_checks.h"
#include "chain/store_call.h"
#include "cohort/base/text_time.h"

namespace cohort {

Result<void> ChainSubmit::check(const NewTask& task) const {
  for (std::size_t i = 0; i < task.steps.size(); ++i) {
    Result<void> good = check_step(plugins_, task.steps[i], i);
    if (!good && task.chain.empty()) return good;
    if (!good) return Error{ErrorCode::kInvalid, "chain '" + task.chain + "': " + good.error().message};
  }
  const nlohmann::json payload = nlohmann::json::parse(task.payload, nullptr, false);
  if (payload.is_discarded() || is_too_deep(payload)) {
    return Error{ErrorCode::kInvalid, "the payload of the task must be JSON of at most 64 levels"};
  }
  if (task.file.empty()) return {};
  if (!options_.fetch) return Error{ErrorCode::kInvalid, "the task names a file, and this node fetches none"};
  if (!options_.check_file) return {};
  const Result<void> good = options_.check_file(task.file);
  return good ? good : Error{ErrorCode::kInvalid, "'file': " + good.error().message};
}

// Replaces the name of a chain by the chain's steps.
Result<void> ChainSubmit::expand_chain(NewTask& task) const {
  if (task.parameters.size() > NewTask::kMaxPayloadBytes) {
    return Error{ErrorCode::kInvalid, "'parameters' has " + std::to_string(task.parameters.size()) +
                                          " bytes; at most " + std::to_string(NewTask::kMaxPayloadBytes) +
                                          " are allowed"};
  }
  const nlohmann::json values = nlohmann::json::parse(task.parameters, nullptr, false);
  if (!values.is_object() || is_too_deep(values)) {
    return Error{ErrorCode::kInvalid, "'parameters' must be a JSON object of at most 64 levels"};
  }
  if (task.chain.empty()) {
    if (values.empty()) return {};
    return Error{ErrorCode::kInvalid, "'parameters' are those of a named chain: give 'chain' with them"};
  }
  if (!task.steps.empty()) return Error{ErrorCode::kInvalid, "give 'chain' or 'steps', not both"};
  const auto chain = options_.templates.find(task.chain);
  if (chain == options_.templates.end()) {
    std::string known;
    for (const auto& [name, unused] : options_.templates) known += (known.empty() ? "" : ", ") + name;
    return Error{ErrorCode::kInvalid,
                 "there is no chain '" + task.chain + "'; " +
                     (known.empty() ? "the configuration has no chains.templates" : "there are: " + known)};
  }
  Result<ExpandedChain> expanded = expand(chain->second, values);
  if (!expanded) return Error{ErrorCode::kInvalid, "chain '" + task.chain + "': " + expanded.error().message};
  task.steps = std::move(expanded->steps);
  task.parameters = expanded->given.dump();  // The same request whether a value came as text or not.
  return {};
}

Result<void> ChainSubmit::accept(NewTask& task) const {
  task.default_deadline = options_.deadline;
  if (auto good = expand_chain(task); !good) return good;
  return check(task);
}

ChainSubmit::Notes ChainSubmit::notes_of(const NewTask& task) {
  Notes notes{.group = task.group, .deadline = task.deadline.value_or(task.default_deadline)};
  if (task.deadline_at) notes.deadline.reset();
  return notes;
}

void ChainSubmit::add_notes(Submitted& submitted, const Notes& notes) const {
  if (submitted.existed || !notes.deadline) return;
  submitted.deadline = notes.deadline;
  const std::optional<Duration> wait = forecast_.wait(notes.group);
  if (!wait || *wait <= *notes.deadline) return;
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(*wait);
  submitted.warning = "group '" + notes.group + "' has a backlog of about " + format_duration(minutes) +
                      ", and the task's deadline is " + format_duration(*notes.deadline) +
                      ": it will probably expire; raise its deadline or the group's limits";
}

TaskHandle<std::vector<Result<Submitted>>> ChainSubmit::submit_all(std::vector<NewTask> tasks) {
  using Answers = std::vector<Result<Submitted>>;
  return as_handle<Answers>(executor_, "submit", [&](Completion<Answers> done) {
    Answers answers;
    std::vector<std::size_t> places;
    std::vector<NewTask> good;
    std::vector<Notes> notes;
    for (NewTask& task : tasks) {
      const Result<void> checked = accept(task);
      answers.push_back(checked ? Result<Submitted>(Submitted()) : Result<Submitted>(checked.error()));
      if (!checked) continue;
      if (task.id.empty()) task.id = random_.make_id();
      places.push_back(answers.size() - 1);
      notes.push_back(notes_of(task));
      good.push_back(std::move(task));
    }
    if (good.empty()) return done(std::move(answers));
    store_.submit(std::move(good),
                  [this, hold = calls_.hold(), places = std::move(places), notes = std::move(notes),
                   answers = std::move(answers), done = std::move(done)](Result<Answers> submitted) mutable {
                    if (!submitted) return done(submitted.error());
                    for (std::size_t i = 0; i < places.size(); ++i) {
                      Result<Submitted>& answer = answers[places[i]] = std::move((*submitted)[i]);
                      if (answer) add_notes(*answer, notes[i]);
                    }
                    done(std::move(answers));
                  });
  });
}

TaskHandle<Submitted> ChainSubmit::submit(NewTask task) {
  return as_handle<Submitted>(executor_, "submit", [&](Completion<Submitted> done) {
    if (auto good = accept(task); !good) return done(good.error());
    if (task.id.empty()) task.id = random_.make_id();
    Notes notes = notes_of(task);
    std::vector<NewTask> one;
    one.push_back(std::move(task));
    store_.submit(std::move(one), [this, hold = calls_.hold(), notes = std::move(notes),
                                   done = std::move(done)](Result<std::vector<Result<Submitted>>> submitted) mutable {
      if (!submitted) return done(submitted.error());
      Result<Submitted>& answer = submitted->front();
      if (answer) add_notes(*answer, notes);
      done(std::move(answer));
    });
  });
}

TaskHandle<ChainTask> ChainSubmit::replay(ReplayRequest request) {
  return as_handle<ChainTask>(executor_, "replay", [&](Completion<ChainTask> done) {
    if (!request.deadline) request.deadline = options_.deadline;
    store_.replay(std::move(request), [hold = calls_.hold(), done = std::move(done)](Result<ChainTask> task) mutable {
      done(std::move(task));
    });
  });
}

TaskHandle<ChainTask> ChainSubmit::ready(std::string task_id) {
  return as_handle<ChainTask>(executor_, "ready", [&](Completion<ChainTask> done) {
    store_.ready(std::move(task_id), [hold = calls_.hold(), done = std::move(done)](Result<ChainTask> task) mutable {
      done(std::move(task));
    });
  });
}

}  // namespace cohort

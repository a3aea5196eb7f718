#include "chain/chain_submit.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chain/json_depth.h"
#include "chain/store_call.h"

namespace cohort {

Result<void> ChainSubmit::check_step(const ChainStep& step, std::size_t index) const {
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorCode::kInvalid, step_name(step, index) + ": " + why};
  };
  const Plugin* const plugin = plugins_.find(step.plugin);
  if (plugin == nullptr) {
    std::string known;
    for (const std::string& name : plugins_.names()) known += (known.empty() ? "" : ", ") + name;
    return refuse("there is no plugin '" + step.plugin + "'; there are: " + known);
  }
  const nlohmann::json parameters = nlohmann::json::parse(step.parameters, nullptr, false);
  if (!parameters.is_object() || is_too_deep(parameters)) {
    return refuse("its parameters must be a JSON object of at most 64 levels");
  }
  try {
    const Result<void> good = plugin->check(parameters);
    return good ? good : refuse(good.error().message);
  } catch (const std::exception& thrown) {
    return refuse("the plugin cannot use its parameters: " + std::string(thrown.what()));
  }
}

Result<void> ChainSubmit::check(const NewTask& task) const {
  for (std::size_t i = 0; i < task.steps.size(); ++i) {
    if (Result<void> good = check_step(task.steps[i], i); !good) return good;
  }
  const nlohmann::json payload = nlohmann::json::parse(task.payload, nullptr, false);
  if (payload.is_discarded() || is_too_deep(payload)) {
    return Error{ErrorCode::kInvalid, "the payload of the task must be JSON of at most 64 levels"};
  }
  if (task.file.empty()) return {};
  if (!options_.fetch) return Error{ErrorCode::kInvalid, "the task names a file, and this node fetches none"};
  return options_.check_file ? options_.check_file(task.file) : Result<void>();
}

Result<void> ChainSubmit::accept(NewTask& task) const {
  task.default_deadline = options_.deadline;
  return check(task);
}

TaskHandle<std::vector<Result<Submitted>>> ChainSubmit::submit_all(std::vector<NewTask> tasks) {
  using Answers = std::vector<Result<Submitted>>;
  return as_handle<Answers>(executor_, "submit", [&](Completion<Answers> done) {
    Answers answers;
    std::vector<std::size_t> places;
    std::vector<NewTask> good;
    for (NewTask& task : tasks) {
      const Result<void> checked = accept(task);
      answers.push_back(checked ? Result<Submitted>(Submitted()) : Result<Submitted>(checked.error()));
      if (!checked) continue;
      if (task.id.empty()) task.id = random_.make_id();
      places.push_back(answers.size() - 1);
      good.push_back(std::move(task));
    }
    if (good.empty()) return done(std::move(answers));
    store_.submit(std::move(good), [hold = calls_.hold(), places = std::move(places), answers = std::move(answers),
                                    done = std::move(done)](Result<Answers> submitted) mutable {
      if (!submitted) return done(submitted.error());
      for (std::size_t i = 0; i < places.size(); ++i) answers[places[i]] = (*submitted)[i];
      done(std::move(answers));
    });
  });
}

TaskHandle<Submitted> ChainSubmit::submit(NewTask task) {
  return as_handle<Submitted>(executor_, "submit", [&](Completion<Submitted> done) {
    if (auto good = accept(task); !good) return done(good.error());
    if (task.id.empty()) task.id = random_.make_id();
    std::vector<NewTask> one;
    one.push_back(std::move(task));
    store_.submit(std::move(one), [hold = calls_.hold(),
                                   done = std::move(done)](Result<std::vector<Result<Submitted>>> submitted) mutable {
      if (!submitted) return done(submitted.error());
      done(std::move(submitted->front()));
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

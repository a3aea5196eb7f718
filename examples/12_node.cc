// A node inside your program: durable chains with a step of your own, and the same HTTP API and commands as `cohort
// serve`.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "cohort/node/node.h"

using namespace std::chrono_literals;
using cohort::PluginResult;
using cohort::StepContext;

namespace {

/// Parameters are looked at when a task is submitted: what cannot work is refused there.
class Translate : public cohort::Plugin {
 public:
  [[nodiscard]] cohort::Result<void> check(const nlohmann::json& parameters) const override {
    if (!parameters.value("to", "").empty()) return {};
    return cohort::Error{cohort::ErrorCode::kInvalid, "translate needs 'to', a language"};
  }
  PluginResult run(StepContext& step) override {
    const std::string text = step.payload().value("text", "");
    step.report_progress(0.5, "half of it");
    if (step.attempt() == 1) return PluginResult::retry("the dictionary is in use", 10ms);
    return PluginResult::success({{"translated", text + " (" + step.parameters()["to"].get<std::string>() + ")"}});
  }
};

}  // namespace

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("cohort-example-" + std::to_string(::getpid()));
  cohort::PluginRegistry plugins;
  if (!plugins.add("translate", std::make_shared<Translate>())) return 1;

  cohort::NodeConfig config;
  config.store.sqlite.folder = folder;
  config.admin.port = 0;
  config.groups["vip:*"] = {.max_concurrency = 8, .weight = 4};
  auto node = cohort::Node::start(config, plugins);
  if (!node) {
    std::printf("%s\n", node.error().message.c_str());
    return 1;
  }
  std::printf("listening on %s\n", (*node)->address().c_str());

  const auto wrong = (*node)->chains().submit({.group = "vip:ann", .steps = {{.plugin = "translate"}}}).await();
  std::printf("refused: %s\n", wrong.error->message.c_str());

  const auto submitted = (*node)
                             ->chains()
                             .submit({.group = "vip:ann",
                                      .payload = R"({"text": "good morning"})",
                                      .steps = {{.plugin = "translate", .parameters = R"({"to": "fr"})"}}})
                             .await();
  if (!submitted.ok()) return 1;
  const cohort::TaskResult<cohort::ChainTask> ended = (*node)->wait(submitted.value->task_id).await();
  if (!ended.ok()) return 1;
  std::printf("%s: %s\n", std::string(to_string(ended.value->state)).c_str(), ended.value->context.c_str());
  (*node)->drain(1s);
  node->reset();
  std::filesystem::remove_all(folder);
  return 0;
}

// A live-translation server: speakers come and go, each with a group of work per utterance. Whatever a speaker leaves
// behind when he hangs up, or just falls silent, goes with his session; nobody else notices.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/session/session_registry.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"

using namespace std::chrono_literals;

namespace {

// What the server keeps of one utterance.
struct Transcript {
  std::string text;
  bool complete = false;
};

using Sessions = cohort::SessionRegistry<Transcript>;

cohort::SessionId speaker(const std::string& name) { return cohort::SessionId::parse(name).value(); }
cohort::GroupName utterance(int number) {
  return cohort::GroupName::parse("utterance-" + std::to_string(number)).value();
}

// Some audio has come: the utterance's group is made with its first piece, and its pieces are translated in order.
void hear(Sessions& sessions, cohort::Executor& executor, const std::string& who, int number, std::string word) {
  const auto group = sessions.ensure_group(speaker(who), utterance(number));
  if (!group) {
    std::printf("%s: \"%s\" came too late: %s\n", who.c_str(), word.c_str(), group.error().message.c_str());
    return;
  }
  static_cast<void>(sessions.set_active_group(group->id));
  executor.submit(group->token, word, [&sessions, id = group->id, word]() -> cohort::Task<void> {
    co_await cohort::sleep_for(2ms);  // A call of some translation service.
    static_cast<void>(sessions.with_group(id, [&](Transcript& transcript) { transcript.text += word + " "; }));
  });
}

void print(const cohort::EndedSession<Transcript>& ended) {
  std::printf("%s ended (%s):\n", ended.session.c_str(), ended.reason.c_str());
  for (const auto& group : ended.groups) {
    std::printf("  %s: %s%s\n", group.name.c_str(), group.payload.text.c_str(), group.payload.complete ? "" : "...");
  }
}

}  // namespace

int main() {
  std::atomic<int> idle{0};
  cohort::GroupExecutor executor({.defaults = {.max_concurrency = 1}, .threads = 2});
  Sessions sessions({.executor = &executor, .ttl = 200ms}, [&](const cohort::EndedSession<Transcript>& ended) {
    print(ended);
    ++idle;
  });

  // Alice says two things and hangs up in the middle of a third.
  for (const char* word : {"good", "morning"}) hear(sessions, executor, "alice", 1, word);
  for (const char* word : {"how", "are", "you"}) hear(sessions, executor, "alice", 2, word);
  hear(sessions, executor, "bob", 1, "hello");
  for (int number = 1; number <= 2; ++number) {
    const auto group = sessions.find_group(speaker("alice"), utterance(number));
    while (group->token.open_tasks() != 0) std::this_thread::sleep_for(1ms);
    static_cast<void>(sessions.with_group(group->id, [](Transcript& transcript) { transcript.complete = true; }));
  }
  for (int i = 0; i < 1000; ++i) hear(sessions, executor, "alice", 3, "and");
  if (const auto ended = sessions.end_session(speaker("alice"), "hung up")) {
    std::printf("%s ended (%s) with %zu utterances; ", ended->session.c_str(), ended->reason.c_str(),
                ended->groups.size());
    std::printf("the first: %s\n", ended->groups[0].payload.text.c_str());
  }
  hear(sessions, executor, "alice", 4, "goodbye");

  // Bob falls silent. His session ends by itself.
  while (idle == 0) std::this_thread::sleep_for(1ms);
  const auto counts = sessions.counts();
  std::printf("left: %zu sessions, %zu groups\n", counts.sessions, counts.groups);
  static_cast<void>(executor.shutdown(1s));  // Its bodies use the registry, which goes first.
}

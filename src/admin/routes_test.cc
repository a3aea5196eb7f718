#include "api/routes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>

#include "admin/admin_routes.h"
#include "api/schemas.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "cohort/testing/memory_store.h"

namespace cohort {
namespace {

using nlohmann::json;

// A node without files and sockets.
class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() {
    EXPECT_TRUE(plugins_.add("ok", [](StepContext&) { return PluginResult::success({{"done", true}}); }));
    EXPECT_TRUE(plugins_.add("bad", [](StepContext&) { return PluginResult::failure("it is bad"); }));
    EXPECT_TRUE(engine_.start().await().ok());
  }
  ~RoutesTest() override { routes_.close(); }

  struct Answer {
    int status = 0;
    json body = {};
  };
  Answer ask(const std::string& method, const std::string& path, const std::string& body = {}) {
    std::promise<ServerResponse> promise;
    auto future = promise.get_future();
    routes_.handle({.method = method, .target = *Target::parse(path), .body = body},
                   Respond([&](ServerResponse response) { promise.set_value(std::move(response)); }));
    const ServerResponse response = future.get();
    const json answer = response.body.empty() ? json() : json::parse(response.body);
    const MatchedRoute matched = match_route(method, *Target::parse(path));
    if (matched.route != nullptr && !answer.is_null()) {
      const bool is_problem = response.status >= 400 && answer.contains("detail");
      expect_declared(answer, named(is_problem ? "Problem" : matched.route->answer), method + " " + path);
    }
    return {response.status, answer};
  }
  static json named(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }
  // Every member of the answer is in the schema of its route.
  static void expect_declared(const json& value, const json& schema, const std::string& where) {
    static const json schemas = api_schemas();
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      const std::string name = ref->get<std::string>();
      return expect_declared(value, schemas.at(name.substr(name.rfind('/') + 1)), where);
    }
    if (const auto any = schema.find("anyOf"); any != schema.end()) {
      for (const json& each : *any) {
        if (fits(value, each, schemas)) return expect_declared(value, each, where);
      }
      ADD_FAILURE() << where << " fits none of " << schema;
    }
    if (value.is_array() && schema.contains("items")) {
      for (const json& each : value) expect_declared(each, schema["items"], where + "[]");
    }
    if (!value.is_object() || !schema.contains("properties")) return;
    for (const auto& [name, member] : value.items()) {
      EXPECT_TRUE(schema["properties"].contains(name)) << where << " has the undeclared member '" << name << "'";
      if (schema["properties"].contains(name)) {
        expect_declared(member, schema["properties"][name], where + "." + name);
      }
    }
  }
  static bool fits(const json& value, json schema, const json& schemas) {
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      const std::string name = ref->get<std::string>();
      schema = schemas.at(name.substr(name.rfind('/') + 1));
    }
    if (!schema.contains("required")) return true;
    for (const json& each : schema["required"]) {
      if (!value.contains(each.get<std::string>())) return false;
    }
    return true;
  }
  std::string submit(const std::string& plugin, const std::string& group = "g") {
    const json task = {{"group", group}, {"steps", {{{"plugin", plugin}}}}};
    return ask("POST", "/v1/tasks", task.dump()).body["id"];
  }
  json when_ended(const std::string& id) {
    for (;;) {
      json task = ask("GET", "/v1/tasks/" + id).body;
      if (is_final(*chain_state_of(task["state"].get<std::string>()))) return task;
    }
  }

  MemoryStore store_{system_wall_clock(), {.is_shared = true}};
  GroupExecutor executor_{{.defaults = {.max_concurrency = 2}, .global_max_in_flight = 4}};
  PluginRegistry plugins_;
  ChainEngine engine_{store_, executor_, plugins_, {.node = "n"}};
  std::atomic<NodeState> state_{NodeState::kRunning};
  NodeControl control_{.engine = engine_,
                       .store = store_,
                       .executor = executor_,
                       .state = state_,
                       .name = "n",
                       .concurrency = 4,
                       .event_ping_every = std::chrono::hours(1)};  // So readers are told by the store's news alone.
  AdminRoutes routes_{control_};
};

TEST_F(RoutesTest, EveryRouteOfTheTableHasAHandler) {
  for (const ApiRoute& route : api_routes()) EXPECT_TRUE(routes_.has(route.id)) << route.operation;
}

TEST_F(RoutesTest, TheWordsOfSchemasAreThoseOfTheProgram) {
  const json schemas = api_schemas();
  json states = json::array();
  for (std::size_t i = 0; i < kChainStates; ++i) states.push_back(to_string(static_cast<ChainState>(i)));
  EXPECT_EQ(schemas["State"]["enum"], states);
  for (const json& kind : schemas["EventKind"]["enum"]) {
    EXPECT_TRUE(event_kind_of(kind.get<std::string>())) << kind;
  }
  EXPECT_FALSE(event_kind_of("nothing"));
  EXPECT_EQ(schemas["EventKind"]["enum"].back(), to_string(EventKind::kRefused)) << "the last kind there is";
}

TEST_F(RoutesTest, TheNodeIsShownAsDeclared) {
  const json node = ask("GET", "/v1/node").body;
  EXPECT_EQ(node["node"], "n");
  EXPECT_EQ(node["chains"]["running"], 0);
}

TEST_F(RoutesTest, ASubmittedTaskRunsAndIsShown) {
  const std::string id = submit("ok");
  const json task = when_ended(id);
  EXPECT_EQ(task["state"], "completed");
  EXPECT_EQ(task["context"]["done"], true);
  const json page = ask("GET", "/v1/tasks?state=completed&group=g&limit=1").body;
  ASSERT_EQ(page["tasks"].size(), 1U);
  EXPECT_EQ(page["tasks"][0]["id"], id);
  EXPECT_FALSE(page["tasks"][0].contains("payload"));
  EXPECT_FALSE(page.contains("cursor")) << "there is no more";
}

TEST_F(RoutesTest, APageLeadsToTheNext) {
  const std::string first = submit("ok");
  const std::string second = submit("ok");
  const json page = ask("GET", "/v1/tasks?limit=1").body;
  ASSERT_EQ(page["tasks"].size(), 1U);
  EXPECT_EQ(page["tasks"][0]["id"], second);
  const json next = ask("GET", "/v1/tasks?cursor=" + page["cursor"].get<std::string>()).body;
  ASSERT_EQ(next["tasks"].size(), 1U);
  EXPECT_EQ(next["tasks"][0]["id"], first);
}

TEST_F(RoutesTest, AttemptsAreAList) {
  const std::string id = submit("ok");
  when_ended(id);
  const json attempts = ask("GET", "/v1/tasks/" + id + "/attempts").body["attempts"];
  ASSERT_EQ(attempts.size(), 1U) << attempts;
  EXPECT_EQ(attempts[0]["outcome"], "succeeded");
  EXPECT_EQ(attempts[0]["plugin"], "ok");
  EXPECT_EQ(ask("GET", "/v1/tasks/nobody/attempts").status, 404);
}

TEST_F(RoutesTest, APendingTaskIsMadeReady) {
  const Answer made = ask("POST", "/v1/tasks", R"({"group": "g", "steps": ["ok"], "pending": true})");
  const std::string id = made.body["id"];
  EXPECT_EQ(made.body["state"], "pending");
  EXPECT_EQ(ask("POST", "/v1/tasks/" + id + "/ready").status, 200);
  EXPECT_EQ(when_ended(id)["state"], "completed");
  EXPECT_EQ(ask("POST", "/v1/tasks/" + id + "/ready").status, 409);
}

TEST_F(RoutesTest, TheFaultOfABodyIsNamed) {
  const auto detail = [&](const std::string& body) {
    return ask("POST", "/v1/tasks", body).body["detail"].get<std::string>();
  };
  EXPECT_NE(detail(R"({"group": "a", "group": "b"})").find("'group' is there twice"), std::string::npos);
  EXPECT_NE(detail("{\"group\": \"\xFF\"}").find("not UTF-8"), std::string::npos);
  EXPECT_NE(detail(R"({"group": "a", "payload": 1e999})").find("out of range"), std::string::npos);
  EXPECT_NE(detail(R"({"group": "a"} x)").find("further bytes"), std::string::npos);
  EXPECT_EQ(ask("POST", "/v1/tasks", R"({"group": null})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/groups/g/pause", R"({"reason": null})").status, 400);
}

TEST_F(RoutesTest, ManyAreSubmittedEachForItself) {
  const Answer many = ask("POST", "/v1/tasks",
                          R"({"tasks": [{"group": "g", "steps": [{"plugin": "ok"}]}, {"group": ""}, {"grup": "x"},
                              {"group": "g", "steps": [{"plugin": "nobody"}]}]})");
  EXPECT_EQ(many.status, 200);
  ASSERT_EQ(many.body["results"].size(), 4U);
  EXPECT_TRUE(many.body["results"][0].contains("id"));
  for (const std::size_t i : {1U, 2U, 3U}) EXPECT_EQ(many.body["results"][i]["error"]["status"], 400) << many.body;
}

TEST_F(RoutesTest, ConfiguredGroupsAreListedWithoutTasks) {
  control_.configured_groups = {"alice", "zoe"};
  submit("ok", "bob");
  EXPECT_EQ(ask("POST", "/v1/groups/bob/pause").status, 200);

  json names = json::array();
  const json groups = ask("GET", "/v1/groups").body["groups"];
  for (const json& each : groups) names.push_back(each["group"]);
  EXPECT_EQ(names, json::array({"alice", "bob", "zoe"}));
  const json first = ask("GET", "/v1/groups?limit=1").body;
  ASSERT_EQ(first["groups"].size(), 1U);
  const json next = ask("GET", "/v1/groups?limit=2&cursor=" + first["cursor"].get<std::string>()).body;
  ASSERT_EQ(next["groups"].size(), 2U);
  EXPECT_EQ(next["groups"][0]["group"], "bob");
  EXPECT_EQ(ask("GET", "/v1/groups/zoe").body["ready"], 0);
  EXPECT_EQ(ask("GET", "/v1/groups/nosuch").status, 404);
  EXPECT_EQ(ask("POST", "/v1/groups/bob/resume").status, 200);
}

TEST_F(RoutesTest, ASubmitTellsTheDeadline) {
  const auto deadline = [&](const std::string& task) { return ask("POST", "/v1/tasks", task).body["deadline"]; };
  EXPECT_EQ(deadline(R"({"group": "g", "steps": ["ok"]})"), "1h");
  EXPECT_EQ(deadline(R"({"group": "g", "steps": ["ok"], "deadline": "5m"})"), "5m");
}

TEST_F(RoutesTest, NamedChainsAreListed) {
  ChainTemplate shrink;
  shrink.description = "Makes it small";
  shrink.parameters["width"] = {.type = ChainParameter::Type::kInteger, .initial = 200};
  shrink.steps = {{.plugin = "ok", .parameters = R"({"width": "${width}"})"}};
  control_.chains = {{"shrink", shrink}};

  const json chains = ask("GET", "/v1/chains").body["chains"];

  ASSERT_EQ(chains.size(), 1U);
  EXPECT_EQ(chains[0]["name"], "shrink");
  EXPECT_EQ(chains[0]["parameters"][0],
            json({{"name", "width"}, {"type", "integer"}, {"required", false}, {"default", 200}}));
  EXPECT_EQ(chains[0]["steps"][0]["plugin"], "ok");
}

TEST_F(RoutesTest, TheSameKeyGivesTheSameTask) {
  const std::string task = R"({"group": "g", "idempotency_key": "k", "steps": [{"plugin": "ok"}]})";
  const Answer first = ask("POST", "/v1/tasks", task);
  EXPECT_EQ(first.status, 201);
  const Answer second = ask("POST", "/v1/tasks", task);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.body["id"], first.body["id"]);
  EXPECT_EQ(ask("POST", "/v1/tasks", R"({"group": "g", "idempotency_key": "k"})").status, 409);
}

TEST_F(RoutesTest, WhatIsWrongIsRefusedWithAReason) {
  struct Case {
    const char* method;
    const char* path;
    const char* body;
    int status;
  };
  for (const Case& each : {Case{"POST", "/v1/tasks", "", 400},
                           Case{"POST", "/v1/tasks", "[]", 400},
                           Case{"POST", "/v1/tasks", "{", 400},
                           Case{"POST", "/v1/tasks", R"({"tasks": 1})", 400},
                           Case{"POST", "/v1/tasks", R"({"tasks": [], "x": 1})", 400},
                           Case{"GET", "/v1/tasks?limit=0", "", 400},
                           Case{"GET", "/v1/tasks?limit=1001", "", 400},
                           Case{"GET", "/v1/tasks?limit=1x", "", 400},
                           Case{"GET", "/v1/tasks?state=odd", "", 400},
                           Case{"GET", "/v1/tasks?limti=3", "", 400},
                           Case{"POST", "/v1/groups/g/resume", R"({"x": 1})", 400},
                           Case{"GET", "/v1/tasks?cursor=x", "", 400},
                           Case{"GET", "/v1/tasks/nobody", "", 404},
                           Case{"POST", "/v1/tasks/nobody/cancel", "", 404},
                           Case{"POST", "/v1/tasks/nobody/cancel", R"({"why": "x"})", 400},
                           Case{"POST", "/v1/tasks/nobody/retry", R"({"from_step": -1})", 400},
                           Case{"POST", "/v1/tasks/nobody/retry", R"({"deadline": "soon"})", 400},
                           Case{"GET", "/v1/tasks/nobody/explain", "", 404},
                           Case{"GET", "/v1/dead-letters/nobody", "", 404},
                           Case{"DELETE", "/v1/dead-letters/nobody", "", 404},
                           Case{"GET", "/v1/dead-letters?state=completed", "", 400},
                           Case{"POST", "/v1/dead-letters/replay", R"({"limit": 0})", 400},
                           Case{"POST", "/v1/groups/g/resize", "{}", 400},
                           Case{"POST", "/v1/groups/g/resize", R"({"max_concurrency": 0})", 400},
                           Case{"POST", "/v1/groups/g/resize", R"({"weight": 0})", 400},
                           Case{"GET", "/v1/events?after=x", "", 400},
                           Case{"PUT", "/v1/tasks", "", 405},
                           Case{"GET", "/nothing", "", 404}}) {
    const Answer answer = ask(each.method, each.path, each.body);
    EXPECT_EQ(answer.status, each.status) << each.method << " " << each.path << " " << each.body << answer.body;
    EXPECT_FALSE(answer.body["detail"].get<std::string>().empty());
  }
}

TEST_F(RoutesTest, ABodyIsMeasuredBeforeItIsParsed) {
  EXPECT_EQ(ask("POST", "/v1/tasks", std::string(1'000'000, '[')).status, 400);
  std::string many = R"({"tasks": [)";
  for (int i = 0; i < 1'000'001; ++i) many += "1,";
  EXPECT_EQ(ask("POST", "/v1/tasks", many + "1]}").status, 400);
}

TEST_F(RoutesTest, AListComesInPagesAndWithoutWhatIsLarge) {
  ask("POST", "/v1/groups/g/pause");
  for (int i = 0; i < 120; ++i) {
    ask("POST", "/v1/tasks", R"({"group": "g", "steps": [{"plugin": "ok", "parameters": {"secret": 1}}]})");
  }
  const json first = ask("GET", "/v1/tasks?limit=110").body;
  EXPECT_EQ(first["tasks"].size(), 110U);
  EXPECT_FALSE(first["tasks"][0]["steps"][0].contains("parameters"));
  const json rest = ask("GET", "/v1/tasks?limit=110&cursor=" + first["cursor"].get<std::string>()).body;
  EXPECT_EQ(rest["tasks"].size(), 10U);
  EXPECT_FALSE(rest.contains("cursor"));
}

TEST_F(RoutesTest, DeadLettersAreListedReplayedAndThrownAway) {
  const std::string one = submit("bad", "a");
  const std::string two = submit("bad", "b");
  when_ended(one);
  when_ended(two);
  EXPECT_EQ(ask("GET", "/v1/dead-letters").body["dead_letters"].size(), 2U);
  EXPECT_EQ(ask("GET", "/v1/dead-letters?group=a").body["dead_letters"][0]["task_id"], one);
  EXPECT_EQ(ask("GET", "/v1/dead-letters?plugin=ok").body["dead_letters"].size(), 0U);
  EXPECT_EQ(ask("GET", "/v1/dead-letters/" + one).body["reason"], "step 1 ('bad') failed: it is bad");

  const json dry = ask("POST", "/v1/dead-letters/replay", R"({"group": "a", "dry_run": true})").body;
  EXPECT_EQ(dry["matched"], 1);
  EXPECT_EQ(dry["replayed"], 0);
  EXPECT_EQ(ask("GET", "/v1/dead-letters").body["dead_letters"].size(), 2U);

  const json replayed = ask("POST", "/v1/dead-letters/replay", R"({"group": "a"})").body;
  EXPECT_EQ(replayed["replayed"], 1);
  EXPECT_EQ(replayed["tasks"], json::array({one}));
  when_ended(one);
  EXPECT_EQ(ask("POST", "/v1/dead-letters/" + two + "/replay").status, 200);
  when_ended(two);
  EXPECT_EQ(ask("DELETE", "/v1/dead-letters/" + two).status, 204);
  EXPECT_EQ(ask("GET", "/v1/dead-letters/" + two).status, 404);
}

TEST_F(RoutesTest, APausedGroupWaitsAndSaysSo) {
  EXPECT_EQ(ask("POST", "/v1/groups/a%2Fb/pause").body["paused"], true);
  const std::string id = submit("ok", "a/b");
  const json why = ask("GET", "/v1/tasks/" + id + "/explain").body;
  EXPECT_NE(why["reasons"].dump().find("is paused"), std::string::npos) << why;
  const json group = ask("GET", "/v1/groups/a%2Fb").body;
  EXPECT_EQ(group["ready"], 1);
  EXPECT_EQ(ask("GET", "/v1/groups").body["groups"][0]["group"], "a/b");
  EXPECT_EQ(ask("POST", "/v1/groups/a%2Fb/resume").body["paused"], false);
  EXPECT_EQ(when_ended(id)["state"], "completed");
}

TEST_F(RoutesTest, AGroupIsResizedAndStaysSo) {
  const json group = ask("POST", "/v1/groups/g/resize", R"({"max_concurrency": 7, "weight": 2.5})").body;
  EXPECT_EQ(group["max_concurrency"], 7);
  EXPECT_EQ(group["weight"], 2.5);

  GroupExecutor executor({.defaults = {.max_concurrency = 2}});
  ChainEngine later(store_, executor, plugins_, {.node = "later"});
  ASSERT_TRUE(later.start().await().ok());
  EXPECT_EQ(executor.resolve("g").max_concurrency, 7U);
}

TEST_F(RoutesTest, AWaitingTaskIsCancelledAndAnEndedOneRetried) {
  ask("POST", "/v1/groups/g/pause");
  const std::string id = submit("ok");
  EXPECT_EQ(ask("POST", "/v1/tasks/" + id + "/cancel", R"({"reason": "no need"})").body["state"], "cancelled");
  EXPECT_EQ(ask("POST", "/v1/tasks/" + id + "/retry", "{}").body["state"], "ready");
  ask("POST", "/v1/groups/g/resume");
  EXPECT_EQ(when_ended(id)["state"], "completed");
  EXPECT_EQ(ask("POST", "/v1/tasks/" + id + "/cancel").status, 409);
  EXPECT_EQ(ask("GET", "/v1/tasks/" + id + "/explain").body["text"], "it is completed");
}

TEST_F(RoutesTest, WhileItDrainsItTakesNoTasksAndIsNotReady) {
  EXPECT_EQ(ask("GET", "/readyz").status, 200);
  state_ = NodeState::kDraining;
  EXPECT_EQ(ask("GET", "/readyz").status, 503);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_EQ(ask("POST", "/v1/tasks", R"({"group": "g"})").status, 503);
  EXPECT_EQ(ask("GET", "/v1/node").body["state"], "draining");
}

class EventsTest : public RoutesTest {
 protected:
  // Reads pieces until this text was there.
  static std::string read_until(const std::shared_ptr<BodyStream>& stream, const std::string& text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      std::promise<std::optional<std::string>> piece;
      auto future = piece.get_future();
      stream->next([&](std::optional<std::string> next) { piece.set_value(std::move(next)); });
      const auto next = future.get();
      if (!next) return all + "(end)";
      all += *next;
    }
    return all;
  }
  std::shared_ptr<BodyStream> stream(const std::string& path, const std::string& last = {}) {
    std::shared_ptr<BodyStream> stream;
    routes_.handle({.method = "GET", .target = *Target::parse(path), .last_event_id = last},
                   Respond([&](ServerResponse response) { stream = response.stream; }));
    return stream;
  }
};

TEST_F(EventsTest, AReaderGetsWhatIsNewAndMayComeBack) {
  when_ended(submit("ok"));
  const auto fresh = stream("/v1/events?group=g");
  EXPECT_NE(read_until(fresh, "hello").find("\nid: "), std::string::npos) << "so that it can come back";
  const std::string second = submit("ok");
  const std::string text = read_until(fresh, "event: completed");
  EXPECT_NE(text.find(second), std::string::npos);
  fresh->close();
  EXPECT_EQ(read_until(fresh, "x"), "(end)");

  const std::string all = read_until(stream("/v1/events?after=0"), second);
  EXPECT_NE(all.find("id: 1\n"), std::string::npos) << all;
  const std::string rest = read_until(stream("/v1/events?after=0", "1"), second);
  EXPECT_EQ(rest.find("id: 1\n"), std::string::npos) << rest;
}

TEST_F(EventsTest, AGapIsTold) {
  const std::string text = read_until(stream("/v1/events", "1000"), "gap");
  EXPECT_NE(text.find("\"to\":1000"), std::string::npos) << text;
}

TEST_F(EventsTest, WhatWasForgottenAltogetherIsAGapToo) {
  when_ended(submit("ok"));
  std::promise<void> removed;
  store_.remove_ended(Duration::zero(), 1000, [&](Result<std::uint64_t>) { removed.set_value(); });
  removed.get_future().wait();
  AdminRoutes later(control_);
  std::shared_ptr<BodyStream> reader;
  later.handle({.method = "GET", .target = *Target::parse("/v1/events?after=0")},
               Respond([&](ServerResponse response) { reader = response.stream; }));
  EXPECT_NE(read_until(reader, "gap").find("\"from\":1,"), std::string::npos);
  later.close();
}

TEST_F(EventsTest, OthersAreFilteredOut) {
  const auto mine = stream("/v1/events?after=0&group=mine");
  when_ended(submit("ok", "other"));
  const std::string id = submit("ok", "mine");
  const std::string text = read_until(mine, "event: completed");
  EXPECT_NE(text.find(id), std::string::npos);
  EXPECT_EQ(text.find("other"), std::string::npos) << text;
}

TEST_F(EventsTest, ReadersAreCounted) {
  std::vector<std::shared_ptr<BodyStream>> streams;
  for (std::uint32_t i = 0; i < control_.max_event_streams; ++i) streams.push_back(stream("/v1/events"));
  EXPECT_EQ(ask("GET", "/v1/events").status, 429);
  streams.front()->close();
  EXPECT_NE(stream("/v1/events"), nullptr);
}

}  // namespace
}  // namespace cohort

#include <memory>
#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "admin/json_body.h"
#include "cohort/chain/task_json.h"

namespace cohort {

namespace {

using nlohmann::json;

constexpr std::uint32_t kPage = 200;
constexpr std::uint32_t kMostSeen = 10'000;  // In one request; then there is a cursor, and what was found.

struct LetterFilter {
  std::string group = {};
  std::optional<ChainState> state = {};
  std::string plugin = {};
  std::string after = {};
  std::uint32_t limit = 100;

  [[nodiscard]] bool matches(const DeadLetter& letter) const {
    return (group.empty() || letter.group == group) && (!state || letter.state == *state) &&
           (plugin.empty() || letter.plugin == plugin);
  }
};

Result<std::optional<ChainState>> state_of(const std::string& text) {
  const auto state = chain_state_of(text);
  if (state && has_dead_letter(*state)) return state;
  return Error{ErrorCode::kInvalid, "dead letters are failed, expired or poison; '" + text + "' is none of these"};
}

// Goes through the dead letters page by page until enough of them match.
class LetterScan : public std::enable_shared_from_this<LetterScan> {
 public:
  using Done = Function<void(Result<std::vector<DeadLetter>>, std::string cursor)>;

  LetterScan(TaskStore& store, LetterFilter filter, Done done)
      : store_(store), filter_(std::move(filter)), done_(std::move(done)) {}

  void go_on() {
    store_.dead_letters(filter_.after, kPage, [self = shared_from_this()](Result<std::vector<DeadLetter>> page) {
      if (!page) return self->done_(page.error(), {});
      self->take(*page);
    });
  }

 private:
  void take(std::vector<DeadLetter>& page) {
    for (DeadLetter& letter : page) {
      if (found_.size() == filter_.limit || seen_ == kMostSeen) return done_(std::move(found_), filter_.after);
      filter_.after = letter.task_id;
      ++seen_;
      if (filter_.matches(letter)) found_.push_back(std::move(letter));
    }
    if (page.size() < kPage) return done_(std::move(found_), {});
    go_on();
  }

  TaskStore& store_;
  LetterFilter filter_;
  Done done_;
  std::vector<DeadLetter> found_;
  std::uint32_t seen_ = 0;
};

void scan(NodeControl& control, LetterFilter filter, LetterScan::Done done) {
  std::make_shared<LetterScan>(control.store, std::move(filter), std::move(done))->go_on();
}

void list(NodeControl& control, const ServerRequest& request, Respond respond) {
  const bool has_state = request.target.query.contains("state");
  const auto state =
      has_state ? state_of(query(request, "state")) : Result<std::optional<ChainState>>(std::optional<ChainState>());
  if (!state) return respond(ServerResponse::of(state.error()));
  const auto limit = query_number(request, "limit", 100, 1, 1000);
  if (!limit) return respond(ServerResponse::of(limit.error()));
  LetterFilter filter{query(request, "group"), *state, query(request, "plugin"), query(request, "cursor"),
                      static_cast<std::uint32_t>(*limit)};
  scan(control, std::move(filter),
       [respond = std::move(respond)](Result<std::vector<DeadLetter>> letters, const std::string& cursor) mutable {
         if (!letters) return respond(ServerResponse::of(letters.error()));
         json list = json::array();
         for (DeadLetter& each : *letters) {
           each.original.clear();  // May be large: for who asks for this one.
           list.push_back(to_json(each));
         }
         json page = {{"dead_letters", std::move(list)}};
         if (!cursor.empty()) page["cursor"] = cursor;
         respond(json_response(page));
       });
}

void get(NodeControl& control, const ServerRequest& request, Respond respond) {
  control.store.dead_letter(request.arguments[0], [respond = std::move(respond)](Result<DeadLetter> letter) mutable {
    respond(letter ? json_response(to_json(*letter)) : ServerResponse::of(letter.error()));
  });
}

void discard(NodeControl& control, const ServerRequest& request, Respond respond) {
  control.store.discard_dead_letter(request.arguments[0], [respond = std::move(respond)](Result<void> gone) mutable {
    respond(gone ? ServerResponse{.status = 204} : ServerResponse::of(gone.error()));
  });
}

// Replays one after the other, so that a thousand of them do not fill the store's queue.
class Replays : public std::enable_shared_from_this<Replays> {
 public:
  Replays(NodeControl& control, std::vector<DeadLetter> letters, std::string cursor, std::optional<Duration> deadline,
          Respond respond)
      : control_(control),
        letters_(std::move(letters)),
        cursor_(std::move(cursor)),
        deadline_(deadline),
        respond_(std::move(respond)) {}

  void go_on() {
    if (next_ == letters_.size()) return tell(false);
    const std::string& id = letters_[next_].task_id;
    control_.engine.replay({.task_id = id, .deadline = deadline_})
        .on_done([self = shared_from_this()](const TaskResult<ChainTask>& task) {
          const std::string& replayed = self->letters_[self->next_++].task_id;
          if (task.ok()) {
            self->replayed_.push_back(replayed);
          } else {
            self->failed_.push_back({{"task", replayed}, {"detail", error_of(task).message}});
          }
          self->go_on();
        });
  }

  void tell(bool dry_run) {
    json tasks = json::array();
    for (const DeadLetter& each : letters_) tasks.push_back(each.task_id);
    json answer = {{"matched", letters_.size()},
                   {"replayed", replayed_.size()},
                   {"dry_run", dry_run},
                   {"tasks", std::move(tasks)},
                   {"failed", failed_}};
    if (!cursor_.empty()) answer["cursor"] = cursor_;  // There is more to look at.
    respond_(json_response(answer));
  }

 private:
  NodeControl& control_;
  const std::vector<DeadLetter> letters_;
  const std::string cursor_;
  const std::optional<Duration> deadline_;
  Respond respond_;
  std::size_t next_ = 0;
  json replayed_ = json::array();
  json failed_ = json::array();
};

void replay_filtered(NodeControl& control, const ServerRequest& request, Respond respond) {
  const Result<body::ReplayFilter> body = read_body<body::ReplayFilter>(request);
  if (!body) return respond(ServerResponse::of(body.error()));
  LetterFilter filter{.group = body->group.value_or(""), .plugin = body->plugin.value_or("")};
  filter.after = body->cursor.value_or("");
  filter.limit = body->limit.value_or(100);
  if (body->state) filter.state = chain_state_of(*body->state);
  const std::optional<Duration> deadline = body->deadline;
  const bool dry_run = body->dry_run.value_or(false);
  scan(control, std::move(filter),
       [&control, deadline, dry_run, respond = std::move(respond)](Result<std::vector<DeadLetter>> letters,
                                                                   std::string cursor) mutable {
         if (!letters) return respond(ServerResponse::of(letters.error()));
         const auto replays =
             std::make_shared<Replays>(control, *std::move(letters), std::move(cursor), deadline, std::move(respond));
         dry_run ? replays->tell(true) : replays->go_on();
       });
}

}  // namespace

void add_dead_letter_routes(NodeControl& control, RouteHandlers& handlers) {
  add_route(control, handlers, Operation::kListDeadLetters, list);
  add_route(control, handlers, Operation::kGetDeadLetter, get);
  add_route(control, handlers, Operation::kDiscardDeadLetter, discard);
  add_route(control, handlers, Operation::kReplayDeadLetter, replay_task);
  add_route(control, handlers, Operation::kReplayDeadLetters, replay_filtered);
}

}  // namespace cohort

#include "cli/task_watch.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>

#include "cli/fields.h"
#include "cli/interrupt.h"
#include "cli/task_view.h"
#include "cli/text.h"

namespace cohort {

using nlohmann::json;

namespace {

using namespace std::chrono_literals;

constexpr int kLinesOfFrame = 4;  // Totals, titles, what is left out, and the line that the cursor stands on.

struct Round {
  json totals = json::object();  // By state.
  Listing tasks;                 // The running ones first.
};

/// How many tasks there are, by state: of the group that was asked for, or of the node.
json totals_of(ApiClient& client, const TaskListOptions& options) {
  if (options.group.empty()) {
    const Result<json> node = client.ask(Operation::kGetNode);
    return node ? member(*node, "tasks") : json::object();
  }
  const Result<json> group = client.ask(Operation::kGetGroup, {options.group});
  return group ? *group : json::object();
}

std::string totals_text(const json& totals) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kStates = {{{"processing", "running"},
                                                                           {"ready", "ready"},
                                                                           {"pending", "pending"},
                                                                           {"completed", "completed"},
                                                                           {"failed", "failed"},
                                                                           {"expired", "expired"},
                                                                           {"poison", "poison"},
                                                                           {"cancelled", "cancelled"}}};
  std::string out;
  for (const auto& [state, word] : kStates) {
    const std::uint64_t count = whole(totals, state);
    const bool is_always_shown = std::string_view(word) == "running" || std::string_view(word) == "ready";
    if (count > 0 || is_always_shown) out += (out.empty() ? "" : "  ") + std::to_string(count) + " " + word;
  }
  return out;
}

Result<Round> fetch_round(ApiClient& client, const TaskListOptions& options, std::size_t limit) {
  Round round;
  Result<Listing> newest = list_tasks(client, options, options.state, limit);
  if (!newest) return newest.error();
  round.totals = totals_of(client, options);
  if (!options.state.empty()) {
    round.tasks = *std::move(newest);
    return round;
  }
  Result<Listing> running = list_tasks(client, options, "processing", limit);
  if (!running) return running.error();
  round.tasks = *std::move(running);
  std::set<std::string> shown_ids;
  for (const json& each : round.tasks.items) shown_ids.insert(raw_text(each, "id"));
  for (const json& each : newest->items) {
    const bool is_new = shown_ids.insert(raw_text(each, "id")).second;
    if (is_new && round.tasks.items.size() < limit) round.tasks.items.push_back(each);
    if (is_new && round.tasks.cursor.empty()) round.tasks.cursor = newest->cursor;
  }
  return round;
}

std::string text_of(const CommandContext& context, const Round& round) {
  const int width = context.table_width();
  const auto fitted = [width](const std::string& text) { return width == 0 ? text : cut_to_width(text, width); };
  std::string out = context.style().paint(Colour::kBold, fitted(totals_text(round.totals))) + "\n";
  if (round.tasks.items.empty()) return out + fitted("There are no such tasks.") + "\n";
  out += task_table(round.tasks.items, context.terminal.wall_clock->now()).render(width, context.style());
  if (round.tasks.cursor.empty()) return out;
  return out + context.style().paint(Colour::kDim, fitted("There are more; `cohort tasks --all` lists them.")) + "\n";
}

/// Over what was there: each line is cleared as it is written, and the rest after the last. So nothing flickers.
std::string frame_of(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') out += "\x1b[K";
    out += c;
  }
  return out + "\x1b[J";
}

Result<void> show_round(const CommandContext& context, ApiClient& client, const TaskListOptions& options) {
  std::ostream& out = context.terminal.out;
  std::size_t limit = options.all ? kMaxListed : options.limit;
  if (context.json) {
    const Result<Listing> listing = list_tasks(client, options, options.state, limit);
    if (!listing) return listing.error();
    out << json_text(listing->to_json("tasks"), false) << "\n";
    return {};
  }
  if (context.terminal.is_terminal) {
    if (context.terminal.measure) context.terminal.measure(context.terminal);
    limit = static_cast<std::size_t>(std::max(1, context.terminal.height - kLinesOfFrame));
  }
  const Result<Round> round = fetch_round(client, options, limit);
  if (!round) return round.error();
  const std::string text = text_of(context, *round);
  out << (context.terminal.is_terminal ? frame_of(text) : text + "\n");
  return {};
}

/// A second, in pieces, so that an interrupt is heeded soon.
void pause_a_round(const CommandContext& context, const Interrupt& interrupt) {
  for (int i = 0; i < 10 && !interrupt.requested(); ++i) context.pause(100ms);
}

}  // namespace

Result<Listing> list_tasks(ApiClient& client, const TaskListOptions& options, const std::string& state,
                           std::size_t limit) {
  const Query query = {{"group", options.group}, {"state", state}, {"tag", options.tag}};
  return list_pages(client, Operation::kListTasks, query, "tasks", limit);
}

Result<int> watch_tasks(const CommandContext& context, ApiClient& client, const TaskListOptions& options) {
  const Interrupt interrupt;
  if (context.terminal.is_terminal && !context.json) context.terminal.out << "\x1b[2J";
  for (std::uint64_t round = 1; !interrupt.requested(); ++round) {
    const Result<void> shown = show_round(context, client, options);
    if (!shown && (round == 1 || shown.error().code != ErrorCode::kUnavailable)) return shown.error();
    if (!shown) context.complain(shown.error().message);
    if (round == options.rounds) break;
    pause_a_round(context, interrupt);
  }
  return 0;
}

}  // namespace cohort

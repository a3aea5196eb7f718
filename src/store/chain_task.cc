#include "cohort/store/chain_task.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "cohort/base/assert.h"
#include "cohort/base/utf8.h"
#include "cohort/store/task_store.h"

namespace cohort {

namespace {

constexpr std::array<std::string_view, kChainStates> kNames = {"pending", "ready",     "processing", "completed",
                                                               "failed",  "cancelled", "expired",    "poison"};

constexpr std::array<std::string_view, 9> kEventNames = {
    "completed", "failed", "cancelled", "expired", "poison", "step_completed", "replayed", "taken_over", "refused"};
constexpr std::array<std::string_view, 4> kCommandNames = {"pause_group", "resume_group", "resize_group", "cancel"};

template <class Enum, std::size_t kCount>
std::optional<Enum> value_of(const std::array<std::string_view, kCount>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

Error too_long(const char* what, std::size_t bytes, std::size_t most, const char* unit = "characters") {
  return {ErrorCode::kInvalid, "the " + std::string(what) + " of the task has " + std::to_string(bytes) + " " + unit +
                                   "; at most " + std::to_string(most) + " are allowed"};
}

bool is_longer(const std::string& text, std::size_t characters) {
  return text.size() > characters && utf8_characters(text) > characters;
}

// FNV-1a over 128 bits, field by field with its length, so that two requests are not taken for one by chance.
class Hash {
 public:
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
  }
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
  }
  [[nodiscard]] std::string hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint64_t half : {a_, b_}) {
      for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15U];
    }
    return text;
  }

 private:
  void add_byte(unsigned char byte) {
    a_ = (a_ ^ byte) * 0x100000001b3U;
    b_ = (b_ + byte + 1) * 0x9e3779b97f4a7c15U;
    b_ ^= b_ >> 29U;
  }
  std::uint64_t a_ = 0xcbf29ce484222325U;
  std::uint64_t b_ = 0x84222325cbf29ce4U;
};

}  // namespace

std::string_view to_string(ChainState state) { return kNames.at(static_cast<std::size_t>(state)); }

std::optional<ChainState> chain_state_of(std::string_view name) { return value_of<ChainState>(kNames, name); }

std::string_view to_string(EventKind kind) { return kEventNames.at(static_cast<std::size_t>(kind)); }

std::optional<EventKind> event_kind_of(std::string_view name) { return value_of<EventKind>(kEventNames, name); }

EventKind end_event_of(ChainState state) {
  COHORT_ASSERT(is_final(state), "only a task that has ended has an event of its end");
  return static_cast<EventKind>(static_cast<std::size_t>(state) - static_cast<std::size_t>(ChainState::kCompleted));
}

std::string_view to_string(CommandKind kind) { return kCommandNames.at(static_cast<std::size_t>(kind)); }

std::optional<CommandKind> command_kind_of(std::string_view name) { return value_of<CommandKind>(kCommandNames, name); }

bool is_sequence_reference(std::string_view id) {
  return id.size() > 1 && id[0] == '@' && id.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

std::ostream& operator<<(std::ostream& out, ChainState state) { return out << to_string(state); }
std::ostream& operator<<(std::ostream& out, EventKind kind) { return out << to_string(kind); }

std::string step_name(const ChainStep& step, std::size_t index) {
  return "step " + std::to_string(index + 1) + (step.plugin.empty() ? "" : " ('" + step.plugin + "')");
}

std::string step_name(const ChainTask& task) {
  const ChainStep* const step = task.current_step();
  return step != nullptr ? step_name(*step, task.step) : "the end of its steps";
}

Result<void> check(const NewTask& task) {
  const auto length = [](const std::string& text) { return utf8_characters(text); };
  if (is_longer(task.id, NewTask::kMaxIdLength)) return too_long("id", length(task.id), NewTask::kMaxIdLength);
  if (is_sequence_reference(task.id)) {
    return Error{ErrorCode::kInvalid,
                 "the id '" + task.id + "' of the task is '@' and a number, which names a task by its sequence number"};
  }
  if (task.group.empty()) return Error{ErrorCode::kInvalid, "the task names no group; every task belongs to one"};
  if (!is_utf8(task.id) || !is_utf8(task.group)) {
    return Error{ErrorCode::kInvalid, "the id and the group of a task must be UTF-8"};
  }
  if (is_longer(task.group, NewTask::kMaxGroupLength)) {
    return too_long("group", length(task.group), NewTask::kMaxGroupLength);
  }
  if (is_longer(task.session, 256)) return too_long("session", length(task.session), 256);
  if (is_longer(task.file, 4096)) return too_long("file reference", length(task.file), 4096);
  if (is_longer(task.idempotency_key, 256)) return too_long("idempotency key", length(task.idempotency_key), 256);
  if (task.steps.size() > NewTask::kMaxSteps) {
    return Error{ErrorCode::kInvalid, "the task has " + std::to_string(task.steps.size()) + " steps; at most " +
                                          std::to_string(NewTask::kMaxSteps) + " are allowed"};
  }
  if (task.tags.size() > NewTask::kMaxTags) return Error{ErrorCode::kInvalid, "the task has more than 32 tags"};
  for (const std::string& tag : task.tags) {
    if (tag.empty() || is_longer(tag, 128)) return Error{ErrorCode::kInvalid, "a tag has 1 to 128 characters"};
  }
  std::size_t bytes = task.payload.size();
  for (const ChainStep& each : task.steps) {
    const auto name = [&] { return step_name(each, static_cast<std::size_t>(&each - task.steps.data())); };
    if (each.plugin.empty()) return Error{ErrorCode::kInvalid, name() + " of the task names no plugin"};
    if (each.timeout && *each.timeout <= Duration::zero()) {
      return Error{ErrorCode::kInvalid, "the time-out of " + name() + " must be above 0"};
    }
    if (each.retry) {
      const RetryPolicy& retry = *each.retry;
      const bool good = retry.multiplier >= 1 && retry.multiplier <= 1000 && retry.jitter >= 0 && retry.jitter <= 1 &&
                        retry.backoff >= Duration::zero() && retry.max_backoff >= Duration::zero();
      if (!good) {
        return Error{ErrorCode::kInvalid,
                     "the retry policy of " + name() +
                         " must have a multiplier of 1 to 1000, a jitter of 0 to 1 and no negative times"};
      }
    }
    bytes += each.parameters.size() + each.plugin.size();
  }
  if (bytes > NewTask::kMaxPayloadBytes)
    return too_long("payload and parameters", bytes, NewTask::kMaxPayloadBytes, "bytes");
  if (!task.deadline_at && task.deadline <= Duration::zero())
    return Error{ErrorCode::kInvalid, "the deadline of the task must be above 0"};
  return {};
}

std::string request_hash(const NewTask& task) {
  Hash hash;
  for (const std::string* field : {&task.group, &task.session, &task.file, &task.payload}) hash.add(*field);
  hash.add(task.steps.size());
  for (const ChainStep& each : task.steps) {
    hash.add(each.plugin);
    hash.add(each.parameters);
    hash.add(static_cast<std::uint64_t>(each.timeout.value_or(Duration(-1)).count()));
    const RetryPolicy retry = each.retry.value_or(RetryPolicy{.max_retries = static_cast<std::uint32_t>(-1)});
    hash.add(retry.max_retries);
    hash.add(static_cast<std::uint64_t>(retry.backoff.count()));
    hash.add(static_cast<std::uint64_t>(retry.max_backoff.count()));
    hash.add(static_cast<std::uint64_t>(retry.multiplier * 1000));
    hash.add(static_cast<std::uint64_t>(retry.jitter * 1000));
  }
  hash.add(static_cast<std::uint64_t>(task.deadline.count()));
  hash.add(static_cast<std::uint64_t>(task.priority));
  hash.add(task.tags.size());
  for (const std::string& tag : task.tags) hash.add(tag);
  hash.add(static_cast<std::uint64_t>(task.start_at.value_or(WallTime()).time_since_epoch().count()));
  hash.add(task.pending ? 1 : 0);
  if (task.deadline_at) hash.add(static_cast<std::uint64_t>(task.deadline_at->time_since_epoch().count()));
  return hash.hex();
}

}  // namespace cohort

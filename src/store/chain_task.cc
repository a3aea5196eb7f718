#include "cohort/store/chain_task.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "cohort/base/assert.h"
#include "cohort/base/utf8.h"
#include "cohort/store/task_store.h"
#include "store/request_fields.h"

namespace cohort {

namespace {

constexpr std::array<std::string_view, kChainStates> kNames = {"pending", "ready",     "processing", "completed",
                                                               "failed",  "cancelled", "expired",    "poison"};

constexpr std::array<std::string_view, 9> kEventNames = {
    "completed", "failed", "cancelled", "expired", "poison", "step_completed", "replayed", "taken_over", "refused"};

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

namespace {

// The name of a field with a text that a store cannot keep; null: there is none.
const char* unstorable_field(const NewTask& task) {
  const char* found = nullptr;
  visit_request(task, [&]<class T>(const RequestField& field, const T& member) {
    if (found != nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (!is_plain_utf8(member)) found = field.name;
    } else if constexpr (requires { member.text; }) {
      if (!is_plain_utf8(member.text)) found = field.name;
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      if (!std::ranges::all_of(member, is_plain_utf8)) found = field.name;
    } else if constexpr (std::is_same_v<T, std::vector<ChainStep>>) {
      const auto is_good = [](const ChainStep& step) {
        return is_plain_utf8(step.plugin) && is_plain_utf8(step.parameters);
      };
      if (!std::ranges::all_of(member, is_good)) found = field.name;
    }
  });
  return found;
}

}  // namespace

Result<void> check(const NewTask& task) {
  const auto length = [](const std::string& text) { return utf8_characters(text); };
  std::optional<Error> long_text;
  visit_request(task, [&]<class T>(const RequestField& field, const T& member) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (long_text || !is_longer(member, field.most_characters)) return;
      long_text = too_long(field.name, length(member), field.most_characters);
    }
  });
  if (long_text) return *long_text;
  if (is_sequence_reference(task.id)) {
    return Error{ErrorCode::kInvalid,
                 "the id '" + task.id + "' of the task is '@' and a number, which names a task by its sequence number"};
  }
  if (task.group.empty()) return Error{ErrorCode::kInvalid, "the task names no group; every task belongs to one"};
  if (const char* const field = unstorable_field(task)) {
    return Error{ErrorCode::kInvalid, std::string("the ") + field + " of the task must be UTF-8 without NUL"};
  }
  if (task.steps.size() > NewTask::kMaxSteps) {
    return Error{ErrorCode::kInvalid, "the task has " + std::to_string(task.steps.size()) + " steps; at most " +
                                          std::to_string(NewTask::kMaxSteps) + " are allowed"};
  }
  if (task.tags.size() > NewTask::kMaxTags) return Error{ErrorCode::kInvalid, "the task has more than 32 tags"};
  for (const std::string& tag : task.tags) {
    if (tag.empty() || is_longer(tag, 128)) return Error{ErrorCode::kInvalid, "a tag has 1 to 128 characters"};
  }
  std::size_t bytes = task.payload.size() + task.parameters.size();
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
  if (!task.deadline_at && task.deadline && *task.deadline <= Duration::zero())
    return Error{ErrorCode::kInvalid, "the deadline of the task must be above 0"};
  return {};
}

namespace {

// What a field of a request adds to its hash.
class RequestHash {
 public:
  explicit RequestHash(const NewTask& request) : is_named_(!request.chain.empty()) {}

  template <class T>
  void operator()(const RequestField& field, const T& member) {
    if (field.hashed == RequestField::Hashed::kNever) return;
    if (field.hashed == RequestField::Hashed::kIfSet && !is_set(member)) return;
    add(member);
  }
  [[nodiscard]] std::string hex() const { return hash_.hex(); }

 private:
  template <class T>
  static bool is_set(const T& member) {
    if constexpr (requires { member.empty(); }) {
      return !member.empty();
    } else if constexpr (requires { member.text; }) {
      return member.text != "{}";
    } else {
      return static_cast<bool>(member);
    }
  }

  void add(const std::string& text) { hash_.add(text); }
  template <class Text>
  void add(const JsonText<Text>& json) {
    hash_.add(json.text);
  }
  void add(const std::vector<std::string>& texts) {
    hash_.add(texts.size());
    for (const std::string& each : texts) hash_.add(each);
  }
  void add(const std::optional<Duration>& length) { add(length.value_or(NewTask::kDefaultDeadline)); }
  void add(Duration length) { hash_.add(static_cast<std::uint64_t>(length.count())); }
  void add(const std::optional<WallTime>& time) {
    hash_.add(static_cast<std::uint64_t>(time.value_or(WallTime()).time_since_epoch().count()));
  }
  void add(Priority priority) { hash_.add(static_cast<std::uint64_t>(priority)); }
  void add(bool flag) { hash_.add(flag ? 1 : 0); }
  // The steps of a named chain are not what was asked for: the configuration may make others of the same request later.
  void add(const std::vector<ChainStep>& steps) {
    if (is_named_) return hash_.add(std::uint64_t{0});
    hash_.add(steps.size());
    for (const ChainStep& each : steps) {
      hash_.add(each.plugin);
      hash_.add(each.parameters);
      add(each.timeout.value_or(Duration(-1)));
      const RetryPolicy retry = each.retry.value_or(RetryPolicy{.max_retries = static_cast<std::uint32_t>(-1)});
      hash_.add(retry.max_retries);
      add(retry.backoff);
      add(retry.max_backoff);
      hash_.add(static_cast<std::uint64_t>(retry.multiplier * 1000));
      hash_.add(static_cast<std::uint64_t>(retry.jitter * 1000));
    }
  }

  const bool is_named_;
  Hash hash_;
};

}  // namespace

std::string request_hash(const NewTask& task) {
  RequestHash hash(task);
  visit_request(task, hash);
  return hash.hex();
}

}  // namespace cohort

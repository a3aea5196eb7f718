#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/base/clock.h"

namespace cohort {

/// Something that happened and that somebody may want to hear of: a kind, a time and named values, in the order in
/// which they were added.
///
///     Event event("breaker.opened", clock.now());
///     event.with("provider", name).with("error_rate", 0.6);
///
/// Thread-safety: thread-compatible.
class Event {
 public:
  using Value = std::variant<std::int64_t, double, bool, std::string>;
  struct Field {
    std::string name;
    Value value;
    friend bool operator==(const Field&, const Field&) = default;
  };

  Event(std::string_view kind, Time at) : kind_(kind), at_(at) {}

  Event& with(std::string_view name, Value value) {
    fields_.push_back({std::string(name), std::move(value)});
    return *this;
  }
  Event& with(std::string_view name, const char* value) { return with(name, Value(std::string(value))); }

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] Time at() const { return at_; }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  /// The value of the first field of that name, or null.
  [[nodiscard]] const Value* find(std::string_view name) const;

 private:
  std::string kind_;
  Time at_;
  std::vector<Field> fields_;
};

}  // namespace cohort

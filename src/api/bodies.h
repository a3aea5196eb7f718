#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cohort/base/clock.h"

namespace cohort::body {

// The bodies of requests other than tasks. Each lists its members once; the server reads a body by that list, the
// command line writes it, and OpenAPI shows it (api/body_json.h).

/// What a text may be.
struct TextRule {
  std::uint32_t most_characters;
  bool is_letter_state = false;  ///< Only the state of a task that has a dead letter.
};
/// From, to; a whole number.
struct CountRule {
  std::uint32_t min;
  std::uint32_t max;
};
/// A number above zero, up to this.
struct NumberRule {
  double max;
};
struct FlagRule {};
/// A length of time above zero.
struct LengthRule {};

/// Of no route: for those that take nothing.
struct NoBody {
  static constexpr const char* kName = "";
  template <class Body, class Visitor>
  static void visit(Body&&, Visitor&&) {}
};

/// Why something is done.
struct Reason {
  static constexpr const char* kName = "Reason";
  std::optional<std::string> reason = {};

  template <class Body, class Visitor>
  static void visit(Body&& body, Visitor&& visitor) {
    visitor("reason", body.reason, TextRule{1000});
  }
};

/// How an ended task is run once more.
struct Replay {
  static constexpr const char* kName = "Replay";
  std::optional<std::uint32_t> from_step = {};  ///< From 1.
  std::optional<Duration> deadline = {};

  template <class Body, class Visitor>
  static void visit(Body&& body, Visitor&& visitor) {
    visitor("from_step", body.from_step, CountRule{1, 100});
    visitor("deadline", body.deadline, LengthRule());
  }
};

/// Which dead letters are replayed.
struct ReplayFilter {
  static constexpr const char* kName = "ReplayFilter";
  std::optional<std::string> group = {};
  std::optional<std::string> state = {};
  std::optional<std::string> plugin = {};
  std::optional<std::uint32_t> limit = {};
  std::optional<std::string> cursor = {};
  std::optional<Duration> deadline = {};
  std::optional<bool> dry_run = {};

  template <class Body, class Visitor>
  static void visit(Body&& body, Visitor&& visitor) {
    visitor("group", body.group, TextRule{1024});
    visitor("state", body.state, TextRule{16, true});
    visitor("plugin", body.plugin, TextRule{256});
    visitor("limit", body.limit, CountRule{1, 1000});
    visitor("cursor", body.cursor, TextRule{128});
    visitor("deadline", body.deadline, LengthRule());
    visitor("dry_run", body.dry_run, FlagRule());
  }
};

/// New limits of a group; those that are not given stay.
struct Resize {
  static constexpr const char* kName = "Resize";
  static constexpr std::size_t kLeastMembers = 1;
  std::optional<std::uint32_t> max_concurrency = {};
  std::optional<std::uint32_t> max_in_flight = {};
  std::optional<double> weight = {};

  template <class Body, class Visitor>
  static void visit(Body&& body, Visitor&& visitor) {
    visitor("max_concurrency", body.max_concurrency, CountRule{1, 1'000'000});
    visitor("max_in_flight", body.max_in_flight, CountRule{1, 1'000'000});
    visitor("weight", body.weight, NumberRule{1'000'000});
  }
};

}  // namespace cohort::body

#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/base/result.h"

namespace cohort {

/// A name with a type of its own, so that the compiler rejects a name of another kind. `Kind` says what the Id names
/// and how long it may be:
///
///     struct SessionKind { static constexpr std::string_view kName = "session id";
///                          static constexpr std::size_t kMaxBytes = 256; };
///     using SessionId = Id<SessionKind>;
///     Result<SessionId> id = SessionId::parse(text);
///
/// Thread-safety: thread-compatible.
template <class Kind>
class Id {
 public:
  /// Fails with kInvalid when `text` is empty or longer than Kind::kMaxBytes.
  static Result<Id> parse(std::string_view text) {
    if (text.empty()) return Error{ErrorCode::kInvalid, "the " + std::string(Kind::kName) + " is empty", {}};
    if (text.size() > Kind::kMaxBytes) {
      return Error{ErrorCode::kInvalid,
                   "the " + std::string(Kind::kName) + " has " + std::to_string(text.size()) + " bytes; at most " +
                       std::to_string(Kind::kMaxBytes) + " are allowed",
                   {}};
    }
    return Id(std::string(text));
  }

  [[nodiscard]] const std::string& str() const { return text_; }

  friend auto operator<=>(const Id&, const Id&) = default;

 private:
  explicit Id(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace cohort

template <class Kind>
struct std::hash<cohort::Id<Kind>> {
  std::size_t operator()(const cohort::Id<Kind>& id) const { return std::hash<std::string>{}(id.str()); }
};

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"

namespace cohort {

/// How a call of a provider ended, in the kinds that decide what it means for the provider.
enum class FailureType : std::uint8_t {
  kSuccess,
  kTimeout,  ///< No answer in time.
  kConnect,  ///< No connection, or it broke.
  kDns,      ///< The name is unknown.
  kTls,      ///< No secure connection.
  kHttp5xx,  ///< The provider says that it failed.
  kHttp429,  ///< The provider says that it was too much: 429, and 503 with Retry-After.
  kHttp4xx,  ///< The provider says that the request is wrong: an answer.
  kDecode,   ///< The answer cannot be read.
  kUnknown,
  kCancelled,  ///< The caller no longer wanted it.
  kHttpAuth,   ///< 401 and 403: the provider does not accept this caller. An answer, unless a pool says otherwise.
  kLocal,      ///< This process lacked memory, descriptors or room for the call: no provider has to do with it.
};
inline constexpr std::size_t kFailureTypes = 13;

[[nodiscard]] std::string_view to_string(FailureType type);

/// What an end of that kind means.
struct FailureRule {
  /// How much of an error it is in the error rate, 0 to 1, in steps of a half.
  double weight = 1;
  /// Counts among failures in a row.
  bool consecutive = true;
  /// Another provider may be asked instead.
  bool fails_over = true;
  /// The call counts at all. What does not is neither success nor failure.
  bool counts = true;
  /// The provider has answered: a probe that ends so has succeeded, and a row of failures ends.
  bool is_answer = false;

  friend bool operator==(const FailureRule&, const FailureRule&) = default;
};

/// The rule for each kind; the defaults are
///
///     | kind                            | weight | in a row | fails over | counts |
///     |---------------------------------|--------|----------|------------|--------|
///     | timeout, connect, dns, tls, 5xx | 1      | yes      | yes        | yes    |
///     | 429                             | 0.5    | no       | yes        | yes    |
///     | 4xx, auth                       | -      | no       | no         | no     |
///     | decode, unknown                 | 1      | yes      | yes        | yes    |
///     | cancelled, local                | -      | no       | no         | no     |
class FailureRules {
 public:
  FailureRules();
  [[nodiscard]] const FailureRule& operator[](FailureType type) const { return rules_[index(type)]; }
  FailureRule& operator[](FailureType type) { return rules_[index(type)]; }
  friend bool operator==(const FailureRules&, const FailureRules&) = default;

 private:
  static std::size_t index(FailureType type) { return static_cast<std::size_t>(type); }
  std::array<FailureRule, kFailureTypes> rules_;
};

/// Why a call of a provider failed.
struct Failure {
  FailureType type = FailureType::kUnknown;
  Error error{};
  /// When the provider wants to be asked again, where it said so.
  std::optional<Duration> retry_after{};
  /// What the provider said, as far as two answers can be compared by it: a status, a code. Empty: nothing.
  std::string detail{};
};

/// The kind of an answer with that HTTP status; below 400 it is a success.
[[nodiscard]] FailureType classify_status(int status, bool has_retry_after = false);
/// kTimedOut is a time-out, kUnavailable a failed connection, kInvalid, kNotFound, kExists and kConflict are answers,
/// kRejected says that it was too much, kCancelled that nobody wants it any more; all else is unknown, unless the error
/// has an exception as its cause.
[[nodiscard]] FailureType classify(const Error& error);
/// std::system_error by its code, std::bad_alloc as a lack of this process, others as unknown.
[[nodiscard]] FailureType classify(const std::exception_ptr& exception);

}  // namespace cohort

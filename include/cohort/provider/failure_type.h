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

/// How a call of a provider ended. A FailureRule decides what each kind means for the provider.
enum class FailureType : std::uint8_t {
  kSuccess,
  kTimeout,    ///< No answer came in time.
  kConnect,    ///< There was no connection, or the connection broke.
  kDns,        ///< The host name is unknown.
  kTls,        ///< There was no secure connection.
  kHttp5xx,    ///< The provider reported that it failed.
  kHttp429,    ///< The provider reported an overload: 429, or 503 with Retry-After.
  kHttp4xx,    ///< The provider reported that the request is wrong. This is an answer.
  kDecode,     ///< The answer cannot be read.
  kUnknown,    ///< Any other failure.
  kCancelled,  ///< The caller cancelled the call.
  kHttpAuth,   ///< 401 and 403: the provider does not accept this caller. An answer, unless a pool says otherwise.
  kLocal,      ///< This process lacked memory, descriptors or room for the call. No provider is to blame.
};
inline constexpr std::size_t kFailureTypes = 13;

[[nodiscard]] std::string_view to_string(FailureType type);

/// What one kind of call end means for the provider.
struct FailureRule {
  /// How much the end adds to the errors in the error rate: 0, 0.5 or 1.
  double weight = 1;
  /// True if the end counts as one of the failures in a row.
  bool consecutive = true;
  /// True if another provider may be asked instead.
  bool fails_over = true;
  /// False if the call is neither a success nor a failure in the window.
  bool counts = true;
  /// True if the provider has answered. An answer ends a row of failures, and a probe that gets one has succeeded.
  bool is_answer = false;

  friend bool operator==(const FailureRule&, const FailureRule&) = default;
};

/// The rule for each kind of failure. The defaults are:
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
  /// How long the provider asks the caller to wait before the next call. Not set if the provider did not say.
  std::optional<Duration> retry_after{};
  /// A short text by which the answers of two providers can be compared, such as a status or a code. Empty: unknown.
  std::string detail{};
};

/// Maps an HTTP status to a FailureType. A status below 400 is a success.
[[nodiscard]] FailureType classify_status(int status, bool has_retry_after = false);
/// Maps an Error to a FailureType by its code:
/// - kTimedOut: kTimeout. kUnavailable: kConnect. kRejected: kHttp429. kCancelled: kCancelled.
/// - kInvalid, kNotFound, kExists, kConflict: kHttp4xx.
/// - kInternal: the type of the exception in `cause`, if there is one. All other codes: kUnknown.
///
/// Exception: an error of any code is kLocal if its `cause` is kLocal.
[[nodiscard]] FailureType classify(const Error& error);
/// Maps an exception to a FailureType: std::system_error by its code, std::bad_alloc to kLocal, others to kUnknown.
[[nodiscard]] FailureType classify(const std::exception_ptr& exception);

}  // namespace cohort

#pragma once

#include <exception>
#include <iosfwd>
#include <string>
#include <string_view>

namespace cohort {

/// The kind of an error. Callers decide by it what to do: retry, give up or use another provider.
enum class ErrorCode {
  kInvalid,      ///< The request itself is wrong; repeating it will not help.
  kNotFound,     ///< The request names something that does not exist.
  kExists,       ///< The request would create something that exists already.
  kRejected,     ///< A limit refused the request; a later retry may succeed.
  kCancelled,    ///< The work was asked to stop.
  kTimedOut,     ///< The time of the work ran out.
  kUnavailable,  ///< Something that the work needs does not answer now.
  kEnded,        ///< The owner of the work (executor, group, session) has ended.
  kStale,        ///< A newer owner has taken over.
  kConflict,     ///< The request contradicts the current state.
  kInternal,     ///< A user's callable threw an exception, or Cohort has a bug.
};

[[nodiscard]] std::string_view to_string(ErrorCode code);

/// An operating error: a code for programs to decide on, and a message for people to read.
///
/// The message says what was attempted, on which object, and what to do about the error. `cause` is the exception that
/// a user's callable threw, else null.
///
/// Thread-safety: thread-compatible.
struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign): the analyzer loses track of std::variant.
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};
  std::exception_ptr cause = {};

  /// True if a retry may succeed, that is for kRejected, kTimedOut and kUnavailable.
  [[nodiscard]] bool retryable() const;

  /// "rejected: group 'a' has 128 tasks waiting …"
  [[nodiscard]] std::string to_string() const;

  /// Makes an Error from a caught exception: code kInternal, the exception's message, and the exception as `cause`.
  [[nodiscard]] static Error from_exception(std::exception_ptr exception);

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code && a.message == b.message; }
};

/// True if this errno says that the process or the machine has run out of descriptors, processes or memory: EMFILE,
/// ENFILE, EAGAIN, ENOMEM or ENOBUFS. The work that failed is not the cause; it can be tried again later.
[[nodiscard]] bool is_shortage(int error_number);

std::ostream& operator<<(std::ostream& out, ErrorCode code);
std::ostream& operator<<(std::ostream& out, const Error& error);

}  // namespace cohort

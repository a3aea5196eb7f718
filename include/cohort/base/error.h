#pragma once

#include <exception>
#include <iosfwd>
#include <string>
#include <string_view>

namespace cohort {

/// What went wrong, in the few kinds that decide what to do about it.
enum class ErrorCode {
  kInvalid,      ///< The request itself is wrong; repeating it will not help.
  kNotFound,     ///< What it names does not exist.
  kExists,       ///< What it would create exists.
  kRejected,     ///< A limit refused it; later it may pass.
  kCancelled,    ///< Somebody asked for it to stop.
  kTimedOut,     ///< Its time ran out.
  kUnavailable,  ///< What it needs does not answer now.
  kEnded,        ///< Its owner (executor, group, session) has ended.
  kStale,        ///< A newer owner has taken over.
  kConflict,     ///< It contradicts something that is already so.
  kInternal,     ///< A user's callable threw, or a bug.
};

[[nodiscard]] std::string_view to_string(ErrorCode code);

/// An operating error: a code to decide on and a sentence to read.
///
/// The message says what was attempted, on what, and the way out. `cause` is the user's exception when a callable
/// threw one, else null.
///
/// Thread-safety: thread-compatible.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};
  std::exception_ptr cause = {};

  /// True for the kinds that may pass when tried again: kRejected, kTimedOut, kUnavailable.
  [[nodiscard]] bool retryable() const;

  /// "rejected: group 'a' has 128 tasks waiting …"
  [[nodiscard]] std::string to_string() const;

  /// Makes an Error of an exception that was caught: its message, kInternal, and itself as the cause.
  [[nodiscard]] static Error from_exception(std::exception_ptr exception);

  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code && a.message == b.message; }
};

/// True if this errno says that the process or the machine has run out of descriptors, processes or memory: EMFILE,
/// ENFILE, EAGAIN, ENOMEM or ENOBUFS. The work is not to blame and can wait.
[[nodiscard]] bool is_shortage(int error_number);

std::ostream& operator<<(std::ostream& out, ErrorCode code);
std::ostream& operator<<(std::ostream& out, const Error& error);

}  // namespace cohort

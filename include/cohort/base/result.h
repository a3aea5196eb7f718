#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "cohort/base/assert.h"
#include "cohort/base/error.h"

namespace cohort {

/// A value, or the Error that says why there is none.
///
///     Result<Port> port = parse_port(text);
///     if (!port) return port.error();
///     listen(*port);
///
/// Reading the value of a failed Result, or the error of a successful Result, is a programming error.
///
/// Thread-safety: thread-compatible.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  template <class U = T>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::decay_t<U>, Result> &&
             !std::is_same_v<std::decay_t<U>, Error>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}      // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() & { return check(), std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return check(), std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return check(), std::get<0>(std::move(state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const {
    COHORT_ASSERT(!ok(), "error() is for a Result that failed");
    return std::get<1>(state_);
  }

 private:
  void check() const { COHORT_ASSERT(ok(), "value() is for a Result that succeeded"); }

  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const Error& error() const {
    COHORT_ASSERT(!ok(), "error() is for a Result that failed");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

template <class T>
inline constexpr bool is_result_v = false;
template <class T>
inline constexpr bool is_result_v<Result<T>> = true;

}  // namespace cohort

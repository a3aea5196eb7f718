#pragma once

#include <libpq-fe.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/wall_clock.h"

namespace cohort::postgres {

// Values on their way to and from the server, in PostgreSQL's binary format.

/// The types of columns that this program uses, with the numbers that PostgreSQL has for them.
enum class Type : std::uint32_t { kBool = 16, kInteger = 20, kText = 25, kReal = 701 };

/// The values of a column for many rows: an array parameter, for unnest() and ANY().
class Column {
 public:
  explicit Column(Type type) : type_(type) {}

  Column& add(std::int64_t value);
  Column& add(std::uint64_t value) { return add(static_cast<std::int64_t>(value)); }
  Column& add(std::uint32_t value) { return add(static_cast<std::int64_t>(value)); }
  Column& add(bool value);
  Column& add(double value);
  Column& add(std::string_view value);
  Column& add(const std::string& value) { return add(std::string_view(value)); }
  Column& add(const char* value) { return add(std::string_view(value)); }
  Column& add(WallTime value) { return add(std::int64_t{value.time_since_epoch().count()}); }
  Column& add(Duration value) { return add(std::int64_t{value.count()}); }
  template <class T>
  Column& add(const std::optional<T>& value) {
    return value ? add(*value) : add_null();
  }
  Column& add_null();
  /// NULL for the empty text.
  Column& add_text_or_null(const std::string& value) { return value.empty() ? add_null() : add(value); }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// The array as PostgreSQL reads it.
  [[nodiscard]] std::string bytes() const;

 private:
  void add_bytes(std::string_view bytes);

  Type type_;
  std::size_t size_ = 0;
  bool has_null_ = false;
  std::string elements_;
};

/// The parameters of a statement.
class Parameters {
 public:
  Parameters& add(std::int64_t value);
  Parameters& add(std::uint64_t value) { return add(static_cast<std::int64_t>(value)); }
  Parameters& add(std::uint32_t value) { return add(static_cast<std::int64_t>(value)); }
  Parameters& add(bool value);
  Parameters& add(std::string_view value);
  Parameters& add(const std::string& value) { return add(std::string_view(value)); }
  Parameters& add(const char* value) { return add(std::string_view(value)); }
  Parameters& add(WallTime value) { return add(std::int64_t{value.time_since_epoch().count()}); }
  Parameters& add(const Column& column);

  [[nodiscard]] const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

/// The answer to a statement.
using ResultRef = std::unique_ptr<PGresult, decltype(&PQclear)>;

/// A row of an answer in binary format, read from the left.
class Row {
 public:
  Row(const PGresult* result, int row) : result_(result), row_(row) {}

  [[nodiscard]] bool is_null() const { return PQgetisnull(result_, row_, column_) != 0; }
  void skip() { ++column_; }
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] std::uint64_t number() { return static_cast<std::uint64_t>(integer()); }
  [[nodiscard]] std::uint32_t count() { return static_cast<std::uint32_t>(integer()); }
  [[nodiscard]] bool flag() { return *bytes().data() != 0; }
  [[nodiscard]] double real();
  [[nodiscard]] std::string text() { return std::string(bytes()); }
  /// Empty for NULL.
  [[nodiscard]] std::string text_or_null();
  [[nodiscard]] WallTime time() { return WallTime(std::chrono::microseconds(integer())); }
  [[nodiscard]] std::optional<WallTime> time_or_null();
  [[nodiscard]] Duration duration() { return Duration(integer()); }
  [[nodiscard]] std::optional<Duration> duration_or_null();

 private:
  std::string_view bytes() {
    const int column = column_++;
    return {PQgetvalue(result_, row_, column), static_cast<std::size_t>(PQgetlength(result_, row_, column))};
  }

  const PGresult* result_;
  int row_;
  int column_ = 0;
};

[[nodiscard]] inline int rows_of(const ResultRef& result) { return PQntuples(result.get()); }

}  // namespace cohort::postgres
